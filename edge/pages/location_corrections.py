"""Correct history after an antenna had a wrong location: a preview first, then one click."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from flask import render_template, request
from werkzeug.wrappers import Response as AnyResponse

from edge import clock
from edge.errors import Invalid, NotFound
from edge.pages.forms import Errors, errors_of, text, whole
from edge.pages.guard import actor, current_session, pages, require_role
from edge.pages.installation import installation
from edge.pages.notices import done
from edge.store import antenna_names, location_board, location_corrections, readers
from edge.store.location_corrections import Correction
from edge.store.people import Role


@pages.get("/readers/<int:reader_id>/correct")
@require_role(Role.ADMINISTRATOR)
def show_correction(reader_id: int) -> str | tuple[str, int]:
    """The form and, once it is filled in, what would change."""
    if not request.args:
        return _page(reader_id, {}, None, {})
    try:
        correction = _entered(reader_id, request.args)
        preview = location_corrections.preview(current_session().organization_id, correction)
    except (Invalid, NotFound) as error:
        return _page(reader_id, request.args, None, errors_of(error)), 400
    return _page(reader_id, request.args, preview, {})


@pages.post("/readers/<int:reader_id>/correct")
@require_role(Role.ADMINISTRATOR)
def correct_history(reader_id: int) -> AnyResponse | tuple[str, int]:
    try:
        location_corrections.correct(actor(), _entered(reader_id, request.form), installation().sighting_gap)
    except (Invalid, NotFound) as error:
        return _page(reader_id, request.form, None, errors_of(error)), 400
    return done(f"/readers/{reader_id}", "changed")


def _entered(reader_id: int, values: Mapping[str, str]) -> Correction:
    readers.get_reader(current_session().organization_id, reader_id)
    port = text(values, "port")
    return Correction(
        reader_id,
        antenna_names.port_from(reader_id, port) if port else None,
        _location("was", values),
        _location("right", values),
        _moment("since", values),
        _moment("until", values) if values.get("until") else clock.now(),
    )


def _location(field: str, values: Mapping[str, str]) -> int:
    try:
        return whole(values.get(field, ""))
    except ValueError as error:
        raise Invalid.one(field, "required", "Choose a location") from error


def _moment(field: str, values: Mapping[str, str]) -> int:
    """By the clocks at the site, unless it names a time zone."""
    try:
        entered = datetime.fromisoformat(values.get(field, ""))
    except ValueError as error:
        raise Invalid.one(field, "invalid_value", "Enter a day and a time") from error
    return clock.to_micros(entered if entered.tzinfo else entered.replace(tzinfo=installation().zone))


def _page(
    reader_id: int, values: Mapping[str, str], preview: location_corrections.Preview | None, errors: Errors
) -> str:
    organization_id = current_session().organization_id
    return render_template(
        "reader-correct.html",
        reader=readers.get_reader(organization_id, reader_id),
        values=values,
        preview=preview,
        errors=errors,
        locations=location_board.tree(organization_id),
    )
