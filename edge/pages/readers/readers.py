"""Readers: state and settings. For sleds, also the person or handheld they belong to, and undoing their scans."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flask import render_template, request

from edge import clock
from edge.errors import EdgeError, Invalid
from edge.formats import examples, registry
from edge.formats.reads import Attempt, Guess, Trial
from edge.ingest.try_out import try_out
from edge.pages.actions import add_action
from edge.pages.double_submit import once
from edge.pages.forms import Errors, Overtaken, errors_of, opened_with, save_merged, text, values_of, whole
from edge.pages.guard import Answer, actor, administrators, editors, organization_id
from edge.pages.notices import done
from edge.pages.readers.antennas import KIND_NAMES, entered_location, entered_rssi
from edge.pages.readers.inbox import SHOWN_BYTES, readable, to_edit
from edge.pages.readers.list import SILENT_AFTER, format_titles
from edge.pages.readers.location_corrections import offers_shown, saved_location
from edge.pages.translation import gettext
from edge.people import devices, organizations, people
from edge.people.people import RANK, Role
from edge.readers import (
    broker_accounts,
    clocks,
    dead_letters,
    ignored_messages,
    ledger,
    mapped_fields,
    readers,
    sign_ins,
    sled_scans,
    sleds,
    status,
    unassigned_topics,
    unknown_tags,
)
from edge.readers.antenna_kinds import kinds_of
from edge.readers.broker_accounts import BrokerAccountRow
from edge.readers.dead_letters import DeadLetter
from edge.readers.ignored_messages import IgnoredMessage
from edge.readers.readers import ReaderRow, add_reader_with_location
from edge.records import assets
from edge.services import services
from edge.texts import N_
from edge.tracking import location_board
from edge.validation import bodies

MOST_TO_TRY = 16_384
MOST_UNREADABLE = 3

CLOCK_SETTINGS = {
    clocks.AUTO: N_("Reader time, corrected by its measured offset"),
    clocks.READER: N_("Reader time, uncorrected"),
    clocks.RECEIPT: N_("Time of receipt (ignore the reader's clock)"),
}
BUCKETS = {
    "recorded": N_("Recorded"),
    "repeat": N_("Repeat"),
    "unmatched_tag": N_("Unmatched tag"),
    "ambiguous_tag": N_("Ambiguous tag"),
    "no_location": N_("No location"),
    "filtered": N_("Filtered"),
    "malformed": N_("Unreadable"),
    "too_large": N_("Too large"),
    "held": N_("Waiting"),
    "status": N_("Status"),
    "ignored": N_("Ignored"),
    "retained": N_("Retained"),
    "unknown_topic": N_("Unknown topic"),
    "dropped": N_("Dropped by the broker"),
}


@editors.get("/readers/<int:reader_id>", manual="readers#message-outcomes")
def show_reader(reader_id: int) -> str:
    reader = readers.get_reader(organization_id(), reader_id)
    hours = ledger.hours(organization_id(), reader_id)
    seen = {bucket for hour in hours for bucket in hour.buckets}
    account = next((row for row in broker_accounts.list_accounts() if row.reader_id == reader_id), None)
    state = next(row for row in status.list_states(organization_id()) if row.id == reader_id)
    return render_template(
        "readers/reader.html",
        reader=reader,
        offers=offers_shown(reader_id),
        state=state,
        ledger=hours,
        buckets=[(name, title) for name, title in BUCKETS.items() if name in seen],
        antennas=status.antennas(organization_id(), reader_id),
        kinds=kinds_of(organization_id()),
        kind_names={kind: gettext(name) for kind, name in KIND_NAMES.items()},
        remarks=mapped_fields.remarks_of(organization_id(), reader_id),
        ignored=[
            (message, registry.recognize(message.topic, message.payload), readable(message.payload, message.size))
            for message in ignored_messages.list_messages(organization_id(), reader_id)
        ],
        unreadable=[
            (letter, readable(letter.payload, letter.size))
            for letter in dead_letters.list_letters(organization_id(), SHOWN_BYTES, MOST_UNREADABLE, reader_id)
        ],
        unknown=unknown_tags.list_tags(organization_id(), reader_id, limit=10),
        titles=format_titles(),
        locations=location_board.choices(organization_id()),
        silent_before=clock.now() - SILENT_AFTER,
        clock_is_off=clocks.is_off(reader.clock_setting, state.clock_offset, state.clock_stands_at),
        clock_state=clocks.describe_clock(reader.clock_setting, state.clock_offset, state.clock_stands_at),
        sled=sleds.state_of(organization_id(), reader_id),
        sled_operators=operators(),
        undo_minutes={minutes: gettext(title) for minutes, title in UNDO_MINUTES.items()},
        has_account=account is not None,
        sign_in=_sign_in_trouble(account, state.last_received_at),
    )


def _sign_in_trouble(account: BrokerAccountRow | None, received_at: int | None) -> str:
    """Return why the broker lets no message of this reader through, as far as its log tells, or an empty string."""
    if not account:
        return ""
    if texts := sign_ins.unheard([account], {account.reader_id: received_at}):
        return texts[0]
    known = sign_ins.SIGN_INS.of(account.name)
    is_alone = len(organizations.list_organizations()) == 1  # an unknown address may be of another organization
    since = max(clock.now() - sign_ins.RECENT, known.at if known else 0)
    refused = [
        row
        for row in sign_ins.SIGN_INS.refused(since)
        if row.account == account.name or (row.address == known.address if known else is_alone and not received_at)
    ]
    if refused:
        return sign_ins.refusals(refused)
    return sign_ins.unencrypted([account.name], sign_ins.SIGN_INS.tls_port) if known and known.is_clear else ""


@administrators.get("/readers/new", manual="readers#first-reader")
def new_reader_form() -> str:
    """Show the form. For an unassigned topic, format and mapping are filled in from its last message."""
    topic = request.args.get("topic", "")
    sample = unassigned_topics.find_topic(organization_id(), topic)
    guess = registry.recognize(topic, sample.sample) if sample else Guess()
    values = {"topic": topic, "format": guess.name or "", "is_enabled": "1"}
    if guess.mapping:
        values |= {"format": registry.CUSTOM, "mapping": examples.mappings_by_title().get(guess.mapping, "")}
    if sample:
        values |= _sample(sample.topic, sample.sample)
    return _form(None, values, {}, suggested=guess.mapping or format_titles().get(guess.name or ""))


@administrators.post("/readers/try")
def try_reader() -> str | tuple[str, int]:
    """Show the outcome of a message with the unsaved settings of the form."""
    reader_id = request.form.get("reader_id", 0, type=whole) or None
    reader = readers.get_reader(organization_id(), reader_id) if reader_id else None
    try:
        trial = try_out(organization_id(), _attempt(_entered(), reader_id))
    except EdgeError as error:
        return _form(reader, request.form, errors_of(error)), 400
    return _form(reader, request.form, {}, trial=trial)


@administrators.post("/readers/new")
@once
def new_reader() -> Answer:
    try:
        values = _entered()
        del values["is_enabled"]
        reader = add_reader_with_location(actor(), _new_location(), **values)
    except EdgeError as error:
        return _form(None, request.form, errors_of(error)), 400
    return done(f"/readers/{reader.id}", "made")


@administrators.get("/readers/<int:reader_id>/edit", manual="readers#reader-settings")
def edit_reader_form(reader_id: int) -> str:
    reader = readers.get_reader(organization_id(), reader_id)
    return _form(reader, reader._asdict() | _last_unread_message(reader), {})


@administrators.post("/readers/<int:reader_id>/edit")
def edit_reader(reader_id: int) -> Answer:
    was_id = readers.get_reader(organization_id(), reader_id).location_id
    try:
        save_merged(
            lambda: readers.get_reader(organization_id(), reader_id),
            _editable,
            _entered(),
            lambda values, check: readers.change_reader(actor(), reader_id, values, check),
        )
    except Overtaken as error:
        if "location_id" in error.meanwhile:
            state = next(row for row in status.list_states(organization_id()) if row.id == reader_id)
            error.meanwhile["location_id"] = state.location_name or gettext("(by antenna)")
        for field, names in (("format", format_titles()), ("clock_setting", _clock_settings())):
            if field in error.meanwhile:
                error.meanwhile[field] = names.get(error.meanwhile[field], error.meanwhile[field])
        return _form(error.row, error.form, {}, meanwhile=error.meanwhile), 409
    except EdgeError as error:
        return _form(readers.get_reader(organization_id(), reader_id), request.form, errors_of(error)), 400
    return saved_location(reader_id, None, was_id)


add_action(administrators, "/readers/<int:reader_id>/remove", readers.remove_reader, "/readers", "removed")


def _clock_settings() -> dict[str, str]:
    return {name: gettext(title) for name, title in CLOCK_SETTINGS.items()}


def _editable(reader: ReaderRow) -> dict[str, Any]:
    """Return the saved values of the form's fields."""
    return {
        "name": reader.name,
        "topic": reader.topic,
        "status_topic": reader.status_topic,
        "format": reader.format,
        "mapping": reader.mapping,
        "location_id": reader.location_id,
        "min_rssi": reader.min_rssi,
        "clock_setting": reader.clock_setting,
        "is_enabled": bool(reader.is_enabled),
    }


def _entered() -> dict[str, Any]:
    format_name, mapping = request.form.get("format", ""), text(request.form, "mapping") or None
    if format_name != registry.CUSTOM:
        mapping = None
    registry.check_format(format_name, mapping)
    return {
        "name": text(request.form, "name"),
        "topic": text(request.form, "topic"),
        "status_topic": text(request.form, "status_topic") or None,
        "format": format_name,
        "mapping": mapping,
        "location_id": entered_location(),
        "min_rssi": entered_rssi(),
        "clock_setting": text(request.form, "clock_setting") or clocks.AUTO,
        "is_enabled": "is_enabled" in request.form,
    }


def _last_unread_message(reader: ReaderRow) -> dict[str, str]:
    """Return the newest unsupported or unreadable message for the form, to try other settings with."""
    letters = dead_letters.list_letters(reader.organization_id, MOST_TO_TRY, 1, reader.id)
    messages: list[IgnoredMessage | DeadLetter] = [
        *ignored_messages.list_messages(reader.organization_id, reader.id),
        *letters,
    ]
    newest = max(messages, key=lambda message: message.received_at, default=None)
    return _sample(newest.topic, newest.payload) if newest else {}


def _new_location() -> str:
    name = text(request.form, "location_name")
    if not name:
        return ""
    try:
        named: str = values_of(bodies.LOCATION_CREATE, {"name": name})["name"]
    except Invalid as error:
        raise Invalid.one("location_name", error.fields[0].code, error.fields[0].message) from error
    return named


def _attempt(values: Mapping[str, Any], reader_id: int | None) -> Attempt:
    """Return the message and the settings of the form."""
    message = request.form.get("message", "")
    try:
        payload = bytes.fromhex(message) if "is_hex" in request.form else message.encode()
    except ValueError as error:
        raise Invalid.one("message", "invalid_value", N_("Enter bytes in hexadecimal, such as ef 30 01")) from error
    topic = text(request.form, "message_topic") or values["topic"]
    settings = {name: values[name] for name in ("format", "mapping", "location_id", "min_rssi", "clock_setting")}
    return Attempt(topic, payload, reader_id=reader_id, **settings)


def _sample(topic: str, payload: bytes) -> dict[str, Any]:
    """Return form values with a received message to try."""
    message, is_hex = to_edit(payload[:MOST_TO_TRY])
    return {"message": message, "is_hex": is_hex, "message_topic": topic}


def _form(
    reader: ReaderRow | None,
    values: Any,
    errors: Errors,
    suggested: str | None = None,
    trial: Trial | None = None,
    meanwhile: Mapping[str, str] | None = None,
) -> str:
    seen = {one.asset_id for one in trial.reads if one.asset_id} if trial else set()
    branches = location_board.choices(organization_id())
    return render_template(
        "readers/edit-reader.html",
        trial=trial,
        meanwhile=meanwhile,
        opened=opened_with(_editable(reader)) if reader else None,
        bucket_names=BUCKETS,
        asset_names={asset_id: assets.get(organization_id(), asset_id).name for asset_id in seen},
        location_names={branch.id: branch.name for branch in branches},
        examples=examples.mappings_by_title(),
        reader=reader,
        values=values,
        errors=errors,
        suggested=suggested,
        titles=format_titles(),
        custom=registry.CUSTOM,
        clock_settings=_clock_settings() | {zone: zone for zone in clock.zones()},
        locations=branches,
        prefix=organizations.get_organization(organization_id()).topic_prefix,
    )


UNDO_MINUTES = {15: N_("Last 15 minutes"), 60: N_("Last hour"), 480: N_("Last 8 hours"), 1440: N_("Last 24 hours")}


@administrators.post("/readers/<int:reader_id>/sled")
def assign_sled(reader_id: int) -> Answer:
    """Give a sled to a person or a handheld from now on. Empty: to nobody."""
    kind, _, number = text(request.form, "operator").partition("-")
    if number and (kind not in ("person", "device") or not number.isascii() or not number.isdigit()):
        raise Invalid.one("operator", "invalid_value", N_("Choose a person or a handheld"))
    operator_id = whole(number) if number else None
    is_device = kind == "device"
    sleds.assign(
        actor(),
        reader_id,
        person_id=None if is_device else operator_id,
        device_id=operator_id if is_device else None,
    )
    return done(f"/readers/{reader_id}", "changed")


@editors.post("/readers/<int:reader_id>/sled/undo")
def undo_sled(reader_id: int) -> Answer:
    """Undo the scans of a sled in the last minutes."""
    minutes = request.form.get("minutes", 0, type=whole)
    if minutes not in UNDO_MINUTES:
        raise Invalid.one("minutes", "invalid_value", N_("Choose how far back to undo"))
    gap = services().config.sighting_gap
    count = sled_scans.undo(actor(), reader_id, clock.now() - minutes * sleds.MINUTE, gap)
    return done(f"/readers/{reader_id}", "sled-undone" if count < sled_scans.MOST_UNDONE else "sled-undone-partly")


def operators() -> list[tuple[str, str]]:
    """Return who may have a sled: people who may scan, then handhelds, as (value, name)."""
    may_scan = [
        (f"person-{row.id}", row.name)
        for row in people.list_people(organization_id())
        if row.disabled_at is None and RANK[Role(row.role)] >= RANK[Role.OPERATOR]
    ]
    handhelds = [
        (f"device-{row.id}", gettext("%(name)s (handheld)") % {"name": row.name})
        for row in devices.list_devices(organization_id())
        if row.is_enrolled
    ]
    return may_scan + handhelds
