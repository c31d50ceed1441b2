"""Import of readers and their antennas from a table: all rows are checked first, then each is written.

A reader is known by its name. Rows create readers or change them; none is removed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from edge.audit.actors import Actor
from edge.audit.audit import acting
from edge.database.connection import all_or_none
from edge.errors import Invalid
from edge.formats.registry import CUSTOM, check_format
from edge.readers import readers
from edge.readers.antenna_kinds import set_reader_kind
from edge.readers.reader_table import NEW_ANTENNA, NEW_READER, OF_BOTH, OF_READER, Fields, SavedReader, load
from edge.readers.readers import Placement, UsedTopics, check_name, check_topic, used_topics
from edge.records import lookup
from edge.records.csv_import import NewRecord, Outcome
from edge.texts import N_, fill, joined
from edge.tracking import antenna_names, rssi_offsets
from edge.tracking.signal_strength import AntennaKind
from edge.validation.imported_rows import collected
from edge.validation.packed_texts import pack, unpack

State = dict[str, SavedReader]  # by name; follows the rows judged so far
_PLACEMENT = ("location", "min_rssi", "is_enabled")  # of an antenna


def port_of(record: NewRecord) -> str:
    """Return the antenna of a row by number or name, or "" for the row of a reader."""
    return str(record.values.get("port", ""))


class _Judged(NamedTuple):
    """The outcome of a row, and the reader or antenna before and after it. `before` is None for a new one."""

    outcome: Outcome
    before: Fields | None
    after: Fields
    reset: Sequence[str] = ()  # antennas that follow their reader again


def check_readers(organization_id: int, records: Sequence[NewRecord], progress: Callable[[int], None]) -> list[Outcome]:
    """Dry run: return the outcome of each row without writing anything. `progress` gets the number of rows checked."""
    state = load(organization_id)
    used = {(one.organization_id, one.name): one for one in used_topics()}
    outcomes = []
    for number, record in enumerate(records, 1):
        outcomes.append(_judge(organization_id, record, state, used).outcome)
        if number % 10 == 0:
            progress(number)
    progress(len(records))
    return outcomes


def write_readers(actor: Actor, records: Sequence[NewRecord], state: State | None = None) -> list[Outcome]:
    """Write some rows in the caller's transaction. Rows that became faulty since the check are left out.

    `state`: readers before the rows, if the caller has them. It follows the rows.
    """
    with acting(actor):
        state = load(actor.organization_id) if state is None else state
        return [_write(actor, record, state) for record in records]


def _write(actor: Actor, record: NewRecord, state: State) -> Outcome:
    judged = _judge(actor.organization_id, record, state, None)
    if judged.outcome.result in ("created", "changed"):
        name = record.external_key or ""
        steps = _steps_of_antenna if port_of(record) else _steps_of_reader
        all_or_none(steps(actor, name, port_of(record), state[name], judged))
    return judged.outcome


def _judge(
    organization_id: int, record: NewRecord, state: State, used: dict[tuple[int, str], UsedTopics] | None
) -> _Judged:
    """Return what a row does, and let the state follow. Topics are compared with those in `used`, if given."""
    faults = [unpack(record.fault)] if record.fault else []
    name, port = record.external_key or "", port_of(record)
    reader = state.get(name)
    given = {column: value for column, value in record.values.items() if column not in ("port", "listed")}
    if port and reader is None and not faults:
        faults.append(fill(N_("there is no reader %(name)s, and none in a row above"), name=name))
    before = (reader.antennas.get(port) if port else reader.fields) if reader else None
    after = _after(before, given, is_antenna=bool(port))
    changes = {column: value for column, value in after.items() if before is None or before[column] != value}
    if not faults:
        faults += _faults_of(organization_id, name, after, changes, is_antenna=bool(port), is_new=before is None)
    if not faults and not port and used is not None:
        faults += _faults_of_topics(organization_id, name, after, changes, used)
    if faults:
        return _Judged(Outcome(record.line, name, "faulty", pack(joined(faults))), before, after)
    listed = record.values.get("listed")
    reset = [] if listed is None or reader is None else [one for one in reader.antennas if one not in listed]
    _follow(state, name, port, after, reset)
    result = "changed" if changes or reset else "unchanged"
    cleared = sum(value is None for value in changes.values()) if before is not None else 0
    outcome = Outcome(record.line, name, "created" if before is None and not port else result, cleared=cleared)
    return _Judged(outcome, before, after, reset)


def _after(before: Fields | None, given: Mapping[str, Any], *, is_antenna: bool) -> Fields:
    if is_antenna:
        after = {**(before or NEW_ANTENNA), **{column: given[column] for column in OF_BOTH if column in given}}
        if after["is_enabled"] is None and (after["location"], after["min_rssi"]) != (None, None):
            after["is_enabled"] = True
        return after
    after = {**(before or NEW_READER), **given}
    return after if after["format"] == CUSTOM else {**after, "mapping": None}  # as in the form


def _follow(state: State, name: str, port: str, after: Fields, reset: Sequence[str]) -> None:
    reader = state.setdefault(name, SavedReader(0, after, {}))
    if not port:
        reader.fields = after
    elif any(value is not None for value in after.values()):
        reader.antennas[port] = after
    else:
        reader.antennas.pop(port, None)
    reader.antennas = {one: fields for one, fields in reader.antennas.items() if one not in reset}


def _faults_of(
    organization_id: int, name: str, after: Fields, changes: Fields, *, is_antenna: bool, is_new: bool
) -> list[str]:
    faults: list[str] = []
    key = changes.get("location")
    if key and lookup.location_by_key(organization_id, key) is None:
        faults.append(fill(N_("there is no location %(key)s"), key=key))
    if is_antenna:
        return faults
    if is_new:
        collected(faults, partial(check_name, name))
        faults += [fill(N_("%(field)s is required for a new reader"), field=one) for one in ("topic", "format")
                   if not after[one]]  # fmt: skip
    if after["format"] and {"format", "mapping"} & set(changes):
        collected(faults, partial(check_format, after["format"], after["mapping"]))
    return faults


def _faults_of_topics(
    organization_id: int, name: str, after: Fields, changes: Fields, used: dict[tuple[int, str], UsedTopics]
) -> list[str]:
    faults: list[str] = []
    for field in ("topic", "status_topic"):
        if changes.get(field):
            others = (one for owner, one in used.items() if owner != (organization_id, name))
            collected(faults, partial(check_topic, organization_id, changes[field], others))
    if not faults:
        topics = [topic for topic in (after["topic"], after["status_topic"]) if topic]
        used[organization_id, name] = UsedTopics(organization_id, name, topics)
    return faults


def _steps_of_reader(actor: Actor, name: str, _: str, reader: SavedReader, judged: _Judged) -> list[Callable[[], Any]]:
    before, after = judged.before or dict(NEW_READER), judged.after
    changes = {column: after[column] for column in (*OF_READER, *_PLACEMENT) if after[column] != before[column]}
    if "location" in changes:
        changes["location_id"] = _location_id(actor, changes.pop("location"))
    steps: list[Callable[[], Any]] = []
    if judged.before is None:
        steps.append(partial(_add, actor, name, reader, changes))
        changes = {}
    if changes:
        steps.append(lambda: readers.change_reader(actor, reader.id, changes))
    steps += _steps_of_behavior(actor, name, reader, None, before, after)
    for port in judged.reset:
        steps.append(partial(_reset, actor, name, reader, port))
    return steps


def _add(actor: Actor, name: str, reader: SavedReader, values: Mapping[str, Any]) -> None:
    given = {column: value for column, value in values.items() if column != "is_enabled"}
    reader.id = readers.add_reader(actor, name=name, **given).id
    if not values.get("is_enabled", True):
        readers.change_reader(actor, reader.id, {"is_enabled": False})


def _steps_of_antenna(
    actor: Actor, name: str, port: str, reader: SavedReader, judged: _Judged
) -> list[Callable[[], Any]]:
    before, after = judged.before or dict(NEW_ANTENNA), judged.after
    number = antenna_names.port_from(reader.id, port)
    steps: list[Callable[[], Any]] = []
    if [before[one] for one in _PLACEMENT] != [after[one] for one in _PLACEMENT]:
        if after["is_enabled"] is None:
            steps.append(lambda: readers.remove_antenna(actor, reader.id, number))
        else:
            location_id = _location_id(actor, after["location"])
            placement = Placement(location_id, after["min_rssi"], after["is_enabled"])
            steps.append(lambda: readers.set_antenna(actor, reader.id, number, placement))
    return [*steps, *_steps_of_behavior(actor, name, reader, number, before, after)]


def _steps_of_behavior(
    actor: Actor, name: str, reader: SavedReader, port: int | None, before: Fields, after: Fields
) -> list[Callable[[], Any]]:
    """Return steps that set the kind and the RSSI offset. The id of a new reader is known when they run."""
    steps: list[Callable[[], Any]] = []
    if before["kind"] != after["kind"]:
        kind = AntennaKind(after["kind"]) if after["kind"] else None
        steps.append(lambda: set_reader_kind(actor, reader.id, name, kind, port))
    if before["rssi_offset"] != after["rssi_offset"]:
        steps.append(lambda: rssi_offsets.set_offset(actor, reader.id, name, after["rssi_offset"], port))
    return steps


def _reset(actor: Actor, name: str, reader: SavedReader, port: str) -> None:
    """Let an antenna follow its reader again."""
    number = antenna_names.port_from(reader.id, port)
    readers.remove_antenna(actor, reader.id, number)
    set_reader_kind(actor, reader.id, name, None, number)
    rssi_offsets.set_offset(actor, reader.id, name, None, number)


def _location_id(actor: Actor, key: str | None) -> int | None:
    if not key:
        return None
    location = lookup.location_by_key(actor.organization_id, key)
    if location is None:
        raise Invalid.one("location", "fk_not_found", fill(N_("there is no location %(key)s"), key=key))
    return location.id
