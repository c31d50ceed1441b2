"""Many assets or locations at once, all or nothing: each row creates a record, or changes the one that has its key."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, cast

from edge.audit.actors import Actor
from edge.audit.audit import Act, Subject, acting
from edge.database.connection import database, long_writing
from edge.errors import Conflict, EdgeError, Invalid
from edge.records import assets, csv_import_assets, locations, lookup, search
from edge.records.assets import AssetRow
from edge.records.csv_import_assets import Draft, Wanted
from edge.records.homes import check_home
from edge.records.location_tree import NO_PARENT, UNSET, Parent
from edge.records.locations import LocationChanges, LocationRow
from edge.records.tags import NewTag, is_taken
from edge.validation.values import number_of_tags

MOST_TAKEN = 5  # tags of one row that are listed as taken
_TRIES = 3  # of an import whose assets others change between check and writing


class NewRecord(NamedTuple):
    """One row with validated values; `fault` says why it is unusable. Tags the record already has stay as they are."""

    line: int
    external_key: str | None
    values: Mapping[str, Any]
    tags: Sequence[NewTag] = ()
    parent_key: str | None = None
    fault: str = ""


class Outcome(NamedTuple):
    """`result` is created, changed, unchanged, or faulty with its `reason`."""

    line: int
    external_key: str
    result: str
    reason: str = ""


class _Refused(Exception):
    """Undoes the transaction of an import with a fault in it."""


class _Judged(NamedTuple):
    """What would become of a row; `wanted` is None where nothing would be written."""

    outcome: Outcome
    wanted: Wanted | None = None


def check_records(
    organization_id: int, kind: str, records: Sequence[NewRecord], progress: Callable[[int], None]
) -> list[Outcome]:
    """What would become of each row. Only reads, so that nobody who writes has to wait."""
    return [judged.outcome for judged in _judge_all(organization_id, kind, records, progress)]


def import_records(
    actor: Actor, kind: str, records: Sequence[NewRecord], progress: Callable[[int], None]
) -> list[Outcome]:
    """In one transaction; with a fault in any row, nothing is changed."""
    if kind == "asset":
        return _import_assets(actor, records, progress)
    return _import_locations(actor, records, progress)


def _import_assets(actor: Actor, records: Sequence[NewRecord], progress: Callable[[int], None]) -> list[Outcome]:
    """All is judged and prepared before the write lock is taken, and written in bulk."""
    search.drop_ahead()  # of an import that was cut off
    try:
        return _import_anew(actor, records, progress)
    finally:
        search.drop_ahead()


def _import_anew(actor: Actor, records: Sequence[NewRecord], progress: Callable[[int], None]) -> list[Outcome]:
    """Again where somebody changed the same assets meanwhile."""
    for _ in range(_TRIES):
        judged = _judge_all(actor.organization_id, "asset", records, progress)
        outcomes = [one.outcome for one in judged]
        if any(outcome.result == "faulty" for outcome in outcomes):
            return _nothing_done(outcomes)
        drafts = csv_import_assets.prepare(actor, [one.wanted for one in judged if one.wanted])
        with long_writing(), acting(actor) as act:
            if csv_import_assets.is_still_true(actor.organization_id, drafts):
                csv_import_assets.write(act, drafts)
                _note(act, "asset", outcomes)
                return _with_keys(judged, drafts)
    raise Conflict("Somebody else keeps changing the same assets. Nothing was imported; try again in a while")


def _with_keys(judged: Sequence[_Judged], drafts: Sequence[Draft]) -> list[Outcome]:
    """Also those that were given only now."""
    keys = (draft.after.external_key for draft in drafts)
    return [one.outcome._replace(external_key=next(keys)) if one.wanted else one.outcome for one in judged]


def _import_locations(actor: Actor, records: Sequence[NewRecord], progress: Callable[[int], None]) -> list[Outcome]:
    """One by one, since a location may be in one of the rows above it. Who wants to write waits meanwhile."""
    outcomes: list[Outcome] = []
    try:
        with long_writing(), acting(actor) as act:
            for number, record in enumerate(records, 1):
                outcomes.append(_outcome(actor, record))
                if number % 100 == 0:
                    progress(number)
            _refuse_faults(outcomes)
            _note(act, "location", outcomes)
    except _Refused:
        return _nothing_done(outcomes)
    return outcomes


def _refuse_faults(outcomes: Sequence[Outcome]) -> None:
    if any(outcome.result == "faulty" for outcome in outcomes):
        raise _Refused


def _note(act: Act, kind: str, outcomes: Sequence[Outcome]) -> None:
    counts = {result: sum(one.result == result for one in outcomes) for result in ("created", "changed")}
    act.note(f"{kind}.imported", Subject(kind, "import", f"{len(outcomes)} rows"), counts)


def _nothing_done(outcomes: Sequence[Outcome]) -> list[Outcome]:
    return [one if one.result == "faulty" else one._replace(result="unchanged") for one in outcomes]


def _judge_all(
    organization_id: int, kind: str, records: Sequence[NewRecord], progress: Callable[[int], None]
) -> list[_Judged]:
    new_keys: set[str] = set()
    judged: list[_Judged] = []
    for number, record in enumerate(records, 1):
        judged.append(_judge(organization_id, kind, record, new_keys))
        if record.external_key:
            new_keys.add(record.external_key)
        if number % 100 == 0:
            progress(number)
    progress(len(records))
    return judged


def _judge(organization_id: int, kind: str, record: NewRecord, new_keys: set[str]) -> _Judged:
    """`new_keys` are those of the rows above."""
    parent = record.parent_key
    row = _find(organization_id, kind, record.external_key)
    new_tags, changes = _difference(row, record) if row else (record.tags, dict(record.values))
    faults = [record.fault] if record.fault else []
    if parent and parent not in new_keys and not lookup.location_by_key(organization_id, parent):
        faults.append(f"there is no location {parent}, nor in a row above")
    if row is None and "name" not in record.values and not record.fault:
        faults.append("name is required for a new record")
    faults += _too_many_tags(row, new_tags)
    taken = [tag for tag in new_tags if is_taken(organization_id, tag)][:MOST_TAKEN]
    faults += [f"tag {tag.tag_type}:{tag.value} is on something else" for tag in taken]
    if faults:
        return _faulty(record, "; ".join(faults))
    if row is None:
        return _judged(record, "created", None, changes, new_tags)
    if not (changes or new_tags or (parent and parent != getattr(row, "parent_external_key", None))):
        return _Judged(Outcome(record.line, row.external_key, "unchanged"))
    try:
        check_home(row.id)
    except Conflict as error:
        return _faulty(record, str(error))
    return _judged(record, "changed", row, changes, new_tags)


def _too_many_tags(row: AssetRow | LocationRow | None, new_tags: Sequence[NewTag]) -> list[str]:
    found = [tag.value for tag in row.tags] if row else []
    found += [tag.value for tag in new_tags]
    try:
        number_of_tags("tags", len(found), sum(len(value.encode()) for value in found))
    except Invalid as error:
        return [error.fields[0].message]
    return []


def _judged(
    record: NewRecord,
    result: str,
    row: AssetRow | LocationRow | None,
    changes: dict[str, Any],
    new_tags: Sequence[NewTag],
) -> _Judged:
    found = row if isinstance(row, AssetRow) else None
    outcome = Outcome(record.line, record.external_key or "", result)
    return _Judged(outcome, Wanted(record.external_key, found, changes, new_tags))


def _faulty(record: NewRecord, reason: str) -> _Judged:
    return _Judged(Outcome(record.line, record.external_key or "", "faulty", reason))


def _find(organization_id: int, kind: str, external_key: str | None) -> AssetRow | LocationRow | None:
    by_key = lookup.asset_by_key if kind == "asset" else lookup.location_by_key
    found = by_key(organization_id, external_key) if external_key else None
    return (assets if kind == "asset" else locations).get(organization_id, found.id) if found else None


def _outcome(actor: Actor, record: NewRecord) -> Outcome:
    if record.fault:
        return Outcome(record.line, record.external_key or "", "faulty", record.fault)
    try:
        with database.savepoint():
            key, result = _put_location(actor, record)
    except EdgeError as error:
        return Outcome(record.line, record.external_key or "", "faulty", _reason(error))
    return Outcome(record.line, key, result)


def _put_location(actor: Actor, record: NewRecord) -> tuple[str, str]:
    parent = Parent(UNSET, record.parent_key) if record.parent_key else NO_PARENT
    found = record.external_key and lookup.location_by_key(actor.organization_id, record.external_key)
    if not found:
        _require_name(record)
        made = locations.create(
            actor, external_key=record.external_key, tags=record.tags, parent=parent, **record.values
        )
        return made.external_key, "created"
    location = locations.get(actor.organization_id, found.id)
    new_tags, changes = _difference(location, record)
    moves = bool(record.parent_key) and record.parent_key != location.parent_external_key
    if changes or moves:
        locations.patch(actor, location.id, cast(LocationChanges, changes), parent=parent if moves else NO_PARENT)
    for tag in new_tags:
        locations.attach_tag(actor, location.id, tag)
    return location.external_key, "changed" if changes or moves or new_tags else "unchanged"


def _difference(row: AssetRow | LocationRow, record: NewRecord) -> tuple[list[NewTag], dict[str, Any]]:
    has = {(tag.tag_type, tag.value) for tag in row.tags}
    changes = {name: value for name, value in record.values.items() if getattr(row, name) != value}
    return [tag for tag in record.tags if tuple(tag) not in has], changes


def _require_name(record: NewRecord) -> None:
    if "name" not in record.values:
        raise Invalid.one("name", "required", "name is required for a new record")


def _reason(error: EdgeError) -> str:
    return "; ".join(fault.message for fault in error.fields) if isinstance(error, Invalid) else str(error)
