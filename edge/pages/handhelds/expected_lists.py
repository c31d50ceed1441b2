"""Expected lists on handhelds: choose one, follow it, sign it off. A handheld starts a list by an act of its queue."""

from __future__ import annotations

from typing import Any

from flask import Response, jsonify

from edge.errors import Conflict
from edge.expected_lists import expected_lists
from edge.expected_lists.expected_lists import ExpectedList, State
from edge.expected_lists.ticks import Line
from edge.pages.forms import json_object
from edge.pages.guard import actor, operators, organization_id
from edge.pages.handhelds import actions
from edge.pages.translation import gettext
from edge.texts import N_

MOST_LISTS = 100
MOST_LINES = 500  # surplus and wrong assets sent to a handheld; the counts include the others
_CHANGED = N_("The list changed. Check it again")


@operators.get("/scan/expected-lists")
def unsigned_lists() -> Response:
    """Return the lists that are open or prepared."""
    lists = expected_lists.open_lists(organization_id())[:MOST_LISTS]
    return jsonify(lists=[_summary(one) for one in lists])


@operators.get("/scan/expected-lists/<int:list_id>")
@operators.post("/scan/expected-lists/<int:list_id>")
def list_on_handheld(list_id: int) -> Response:
    """Store the report of a device in a POST, and return the state of the list and of the devices."""
    actions.report_alone()
    state = expected_lists.find_state(organization_id(), list_id)
    return jsonify(**_state(state), **actions.exchange("list", list_id, is_open=state.one.is_open))


@operators.post("/scan/expected-lists/<int:list_id>/sign-off")
def sign_off_on_handheld(list_id: int) -> Response | tuple[Response, int]:
    """Sign off the result that the handheld shows. A repeated request has the same answer."""
    version = json_object().get("version")
    state = expected_lists.find_state(organization_id(), list_id)
    if state.one.signed_at is None:
        try:
            expected_lists.sign_off(actor(), list_id, str(version))
        except Conflict:
            return jsonify(error=gettext(_CHANGED)), 409
        state = expected_lists.find_state(organization_id(), list_id)
    return jsonify(**_state(state))


def _summary(one: ExpectedList) -> dict[str, Any]:
    return {
        "id": one.id,
        "name": one.name,
        "place": one.place,
        "location": one.location_id,
        "is_open": one.is_open,
        "is_signed": one.signed_at is not None,
        "signed_by": one.signed_by,
        "started_at": one.started_at and one.started_at // 1000,
        "items": one.items,
    }


def _state(state: State) -> dict[str, Any]:
    return {
        **_summary(state.one),
        "version": state.version,
        "missing": [line.asset_id for line in state.of("missing")],
        "ticked": [line.asset_id for line in state.of("ticked")],
        "surplus": [_line(line) for line in state.of("surplus")[:MOST_LINES]],
        "wrong": [_line(line) for line in state.of("wrong")[:MOST_LINES]],
        "surplus_count": state.count("surplus"),
        "wrong_count": state.count("wrong"),
    }


def _line(line: Line) -> dict[str, Any]:
    return {"id": line.asset_id, "key": line.asset_key, "name": line.name, "other": line.other}
