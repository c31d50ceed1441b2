"""Stock-takes and expected lists, which several handhelds share until one signs off, and sheets of stock-takes.

A handheld starts a list by an act of its queue.
"""

from __future__ import annotations

from typing import Any

from flask import Response, abort, jsonify, render_template

from edge.expected_lists import expected_lists
from edge.expected_lists.expected_lists import ExpectedList, State
from edge.expected_lists.ticks import Line
from edge.handhelds import stock_takes
from edge.memory_budget import WORK
from edge.pages.csv_download import table_file, times
from edge.pages.dates import local
from edge.pages.forms import json_object
from edge.pages.guard import actor, operators, organization_id, viewers
from edge.pages.handhelds import actions
from edge.texts import N_
from edge.validation import json_text

MOST_SHOWN = 2_000  # lines with the same result on the page; the file has all
TITLES = {
    "missing": N_("Missing"),
    "elsewhere": N_("Elsewhere or not expected"),
    "unknown": N_("Unmatched tags"),
    "here": N_("Here"),
}


@operators.get("/scan/stock-takes")
def open_stock_takes() -> Response:
    open_ones = stock_takes.list_stock_takes(organization_id(), is_open_only=True, limit=20)
    return jsonify(stock_takes=[_summary(take) for take in open_ones])


_BYTES_OF_SCAN = 1_500  # memory, with a code of 255 characters


@operators.get("/scan/stock-takes/<stock_take_id>")
@operators.post("/scan/stock-takes/<stock_take_id>")
def report_and_progress(stock_take_id: str) -> Response:
    """Store the report of a device in a POST, and return the progress of all devices."""
    actions.report_alone()
    take = stock_takes.find_stock_take(organization_id(), stock_take_id)
    if take is None:
        abort(404)
    with WORK.holding(take.scanned * _BYTES_OF_SCAN):
        progress = stock_takes.progress(take)
        content = {
            **_summary(take),
            **actions.exchange("stock_take", stock_take_id, is_open=take.is_open),
            "expected_ids": progress.expected,
            "scans": [[row[0], row[1], row[2], row[3] // 1000, row[4]] for row in progress.scans],
            "seen": [[row[0], row[1], row[2] // 1000, bool(row[3])] for row in progress.seen],
        }
        return Response(json_text.encode(content), mimetype="application/json")


@viewers.get("/stock-takes", manual="scanning#stock-takes")
def show_stock_takes() -> str:
    rows = stock_takes.list_stock_takes(organization_id())
    return render_template("handhelds/stock-takes.html", stock_takes=rows)


@viewers.get("/stock-takes/<stock_take_id>", manual="scanning#stock-takes")
def show_stock_take(stock_take_id: str) -> str:
    take = _finished(stock_take_id)
    lines = stock_takes.sheet(organization_id(), stock_take_id)
    groups = [(result, title, [line for line in lines if line.result == result]) for result, title in TITLES.items()]
    shown = [(result, title, len(group), group[:MOST_SHOWN]) for result, title, group in groups]
    devices = stock_takes.devices_at_sign_off(organization_id(), stock_take_id)
    return render_template("handhelds/stock-take.html", take=take, groups=shown, devices=devices)


@viewers.get("/stock-takes/<stock_take_id>.csv")
def stock_take_csv(stock_take_id: str) -> Response:
    take = _finished(stock_take_id)
    lines = stock_takes.sheet(organization_id(), stock_take_id)
    heading = ("result", "external_key", "name", "code", "seen_by", "last_location", "last_seen_at", "lost_since")
    rows = (
        (
            *(line.result, line.external_key, line.name, line.code, line.how, line.location_name or ""),
            *times(line.seen_at, line.lost_at),
        )
        for line in lines
    )
    return table_file(f"stock-take-{local(take.started_at)[:10]}.csv", heading, rows)


def _finished(stock_take_id: str) -> stock_takes.StockTake:
    take = stock_takes.find_stock_take(organization_id(), stock_take_id)
    if take is None or take.finished_at is None:
        abort(404)
    return take


def _summary(take: stock_takes.StockTake) -> dict[str, object]:
    return {
        "id": take.id,
        "location": take.location_id,
        "name": take.location_name,
        "with_sublocations": take.with_sublocations,
        "started_at": take.started_at // 1000,
        "started_by": take.started_by,
        "expected": take.expected,
        "scanned": take.scanned,
        "is_open": take.is_open,
    }


MOST_LISTS = 100
MOST_LINES = 500  # surplus and wrong assets sent to a handheld; the counts include the others


@operators.get("/scan/expected-lists")
def unsigned_lists() -> Response:
    """Return the lists that are open or prepared."""
    lists = expected_lists.open_lists(organization_id())[:MOST_LISTS]
    return jsonify(lists=[_list_summary(one) for one in lists])


@operators.get("/scan/expected-lists/<int:list_id>")
@operators.post("/scan/expected-lists/<int:list_id>")
def list_on_handheld(list_id: int) -> Response:
    """Store the report of a device in a POST, and return the state of the list and of the devices."""
    actions.report_alone()
    state = expected_lists.find_state(organization_id(), list_id)
    return jsonify(**_state(state), **actions.exchange("list", list_id, is_open=state.one.is_open))


@operators.post("/scan/expected-lists/<int:list_id>/sign-off")
def sign_off_on_handheld(list_id: int) -> Response:
    """Sign off the result that the handheld shows. A repeated request has the same answer."""
    version, device = (str(json_object().get(name, "")) for name in ("version", "device"))
    state = expected_lists.find_state(organization_id(), list_id)
    if state.one.signed_at is None:
        expected_lists.sign_off(actor(), list_id, version, device)
        state = expected_lists.find_state(organization_id(), list_id)
    return jsonify(**_state(state))


def _list_summary(one: ExpectedList) -> dict[str, Any]:
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
        **_list_summary(state.one),
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
