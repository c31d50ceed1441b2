"""Readers: how they are doing, and how they are set up."""

from __future__ import annotations

from typing import Any

from flask import current_app, render_template, request
from werkzeug.wrappers import Response as AnyResponse

from edge import clock
from edge.errors import EdgeError, Invalid
from edge.pages.formats import Formats
from edge.pages.forms import Errors, errors_of, text, whole
from edge.pages.guard import actor, current_session, pages, require_role
from edge.pages.notices import done
from edge.pages.samples import readable
from edge.store import (
    ignored_messages,
    ledger,
    location_board,
    reader_status,
    readers,
    unassigned_topics,
    unknown_tags,
)
from edge.store.people import Role
from edge.store.readers import Placement, ReaderRow

SILENT_AFTER = 15 * 60 * clock.SECOND
NOTICEABLE_OFFSET = 2 * clock.SECOND

BUCKETS = {
    "recorded": "Recorded",
    "repeat": "Repeat",
    "unmatched_tag": "Unknown tag",
    "ambiguous_tag": "Ambiguous tag",
    "no_location": "No location",
    "filtered": "Filtered",
    "malformed": "Unreadable",
    "too_large": "Too large",
    "status": "Status",
    "ignored": "Ignored",
    "retained": "Retained",
    "unknown_topic": "Unknown topic",
}


def formats() -> Formats:
    found: Formats = current_app.extensions["formats"]
    return found


@pages.get("/readers")
@require_role(Role.EDITOR)
def show_readers() -> str:
    return render_template(
        "readers.html",
        readers=reader_status.list_states(current_session().organization_id),
        waiting=reader_status.waiting(current_session().organization_id),
        titles=formats().titles,
        silent_before=clock.now() - SILENT_AFTER,
    )


@pages.get("/readers/<int:reader_id>")
@require_role(Role.EDITOR)
def show_reader(reader_id: int) -> str:
    reader = readers.get_reader(current_session().organization_id, reader_id)
    hours = ledger.hours(current_session().organization_id, reader_id)
    seen = {bucket for hour in hours for bucket in hour.buckets}
    return render_template(
        "reader.html",
        reader=reader,
        state=next(row for row in reader_status.list_states(current_session().organization_id) if row.id == reader_id),
        ledger=hours,
        buckets=[(name, words) for name, words in BUCKETS.items() if name in seen],
        antennas=reader_status.antennas(current_session().organization_id, reader_id),
        ignored=[
            (message, formats().recognise(message.topic, message.payload), readable(message.payload, message.size))
            for message in ignored_messages.list_messages(current_session().organization_id, reader_id)
        ],
        unknown=unknown_tags.list_tags(current_session().organization_id, reader_id, limit=10),
        titles=formats().titles,
        places=location_board.tree(current_session().organization_id),
        silent_before=clock.now() - SILENT_AFTER,
        noticeable_offset=NOTICEABLE_OFFSET,
    )


@pages.get("/readers/new")
@require_role(Role.ADMINISTRATOR)
def new_reader_form() -> str:
    """From a topic that was heard, the format is suggested; the rest are three fields."""
    topic = request.args.get("topic", "")
    sample = unassigned_topics.find_topic(topic)
    suggested = formats().recognise(topic, sample.sample).name if sample else None
    return _form(None, {"topic": topic, "format": suggested or "", "is_enabled": "1"}, {}, suggested=suggested)


@pages.post("/readers/new")
@require_role(Role.ADMINISTRATOR)
def new_reader() -> AnyResponse | tuple[str, int]:
    try:
        values = _entered()
        del values["is_enabled"]
        reader = readers.add_reader(actor(), **values)
    except EdgeError as error:
        return _form(None, request.form, errors_of(error)), 400
    return done(f"/readers/{reader.id}", "made")


@pages.get("/readers/<int:reader_id>/edit")
@require_role(Role.ADMINISTRATOR)
def edit_reader_form(reader_id: int) -> str:
    reader = readers.get_reader(current_session().organization_id, reader_id)
    return _form(reader, reader._asdict(), {})


@pages.post("/readers/<int:reader_id>/edit")
@require_role(Role.ADMINISTRATOR)
def edit_reader(reader_id: int) -> AnyResponse | tuple[str, int]:
    reader = readers.get_reader(current_session().organization_id, reader_id)
    try:
        readers.change_reader(actor(), reader_id, _entered())
    except EdgeError as error:
        return _form(reader, request.form, errors_of(error)), 400
    return done(f"/readers/{reader_id}", "changed")


@pages.post("/readers/<int:reader_id>/remove")
@require_role(Role.ADMINISTRATOR)
def remove_reader(reader_id: int) -> AnyResponse:
    readers.remove_reader(actor(), reader_id)
    return done("/readers", "removed")


@pages.post("/readers/<int:reader_id>/antennas")
@require_role(Role.ADMINISTRATOR)
def set_antenna(reader_id: int) -> AnyResponse:
    """Say what one antenna stands for, or let it follow its reader again."""
    port = request.form.get("port", -1, type=whole)
    if "follow" in request.form:
        readers.remove_antenna(actor(), reader_id, port)
    else:
        readers.set_antenna(actor(), reader_id, port, Placement(_place(), _rssi(), "is_enabled" in request.form))
    return done(f"/readers/{reader_id}", "changed")


def _entered() -> dict[str, Any]:
    format_name, mapping = request.form.get("format", ""), text(request.form, "mapping") or None
    if format_name != formats().custom:
        mapping = None
    formats().check(format_name, mapping)
    return {
        "name": text(request.form, "name"),
        "topic": text(request.form, "topic"),
        "format": format_name,
        "mapping": mapping,
        "location_id": _place(),
        "min_rssi": _rssi(),
        "is_enabled": "is_enabled" in request.form,
    }


def _place() -> int | None:
    return request.form.get("location_id", 0, type=whole) or None


def _rssi() -> float | None:
    entered = text(request.form, "min_rssi").replace(",", ".").replace("−", "-")
    try:
        value = float(entered) if entered else None
    except ValueError:
        value = 1.0
    if value is not None and not -150 <= value <= 0:
        raise Invalid.one("min_rssi", "invalid_value", "A signal strength is between -150 and 0 dBm")
    return value


def _form(reader: ReaderRow | None, values: Any, errors: Errors, suggested: str | None = None) -> str:
    return render_template(
        "reader-edit.html",
        reader=reader,
        values=values,
        errors=errors,
        suggested=suggested,
        titles=formats().titles,
        custom=formats().custom,
        places=location_board.tree(current_session().organization_id),
    )
