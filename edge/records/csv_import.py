"""Import of many assets or locations in one transaction.

Each row creates a record or changes the record with its key. An error in any row undoes the whole import.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, cast

from edge.audit.actors import Actor
from edge.audit.audit import Act, Subject, acting
from edge.database.connection import database, long_writing
from edge.errors import Conflict, EdgeError, Invalid
from edge.records import assets, csv_import_assets, locations, lookup, search
from edge.records.assets import AssetRow
from edge.records.csv_import_assets import AssetPlan, Draft
from edge.records.kept_elsewhere import check_home
from edge.records.location_tree import NO_PARENT, UNSET, Parent
from edge.records.locations import LocationChanges, LocationRow
from edge.records.tags import NewTag, is_taken
from edge.validation.values import number_of_tags

MAX_TAKEN_TAGS = 5  # listed per row
_TRIES = 3  # if others change the same assets between check and write


class NewRecord(NamedTuple):
    """One row with validated values. `fault` is the error message of an invalid row.

    `tags` are added to those of an existing record.
    """

    line: int
    external_key: str | None
    values: Mapping[str, Any]
    tags: Sequence[NewTag] = ()
    parent_key: str | None = None
    fault: str = ""


class Outcome(NamedTuple):
    """Result of one row: created, changed, unchanged, or faulty with a `reason`."""

    line: int
    external_key: str
    result: str
    reason: str = ""


class _Refused(Exception):
    """Rolls back an import that has a faulty row."""


class _CheckedRow(NamedTuple):
    """The outcome of a row before anything is written. `plan` is None if nothing would be written."""

    outcome: Outcome
    plan: AssetPlan | None = None


def check_records(
    organization_id: int, kind: str, records: Sequence[NewRecord], progress: Callable[[int], None]
) -> list[Outcome]:
    """Dry run: return the outcome of each row without writing anything or taking the write lock.

    `progress` gets the number of rows checked so far.
    """
    return [row.outcome for row in _check_rows(organization_id, kind, records, progress)]


def import_records(
    actor: Actor, kind: str, records: Sequence[NewRecord], progress: Callable[[int], None]
) -> list[Outcome]:
    """Import the rows in one transaction, or nothing if a row is faulty. Raises Conflict under concurrent changes."""
    if kind == "asset":
        return _import_assets(actor, records, progress)
    return _import_locations(actor, records, progress)


def _import_assets(actor: Actor, records: Sequence[NewRecord], progress: Callable[[int], None]) -> list[Outcome]:
    """Check and prepare all rows before taking the write lock, then write them in bulk."""
    search.drop_staged()  # left by an interrupted import
    try:
        return _import_with_retries(actor, records, progress)
    finally:
        search.drop_staged()


def _import_with_retries(actor: Actor, records: Sequence[NewRecord], progress: Callable[[int], None]) -> list[Outcome]:
    """Repeat the check if the same assets changed before the write lock was taken. Raises Conflict at the end."""
    for _ in range(_TRIES):
        checked = _check_rows(actor.organization_id, "asset", records, progress)
        outcomes = [row.outcome for row in checked]
        if any(outcome.result == "faulty" for outcome in outcomes):
            return _unchanged(outcomes)
        drafts = csv_import_assets.prepare(actor, [row.plan for row in checked if row.plan])
        with long_writing(), acting(actor) as act:
            if csv_import_assets.is_current(actor.organization_id, drafts):
                csv_import_assets.write(act, drafts)
                _note(act, "asset", outcomes)
                return _with_keys(checked, drafts)
    raise Conflict("Someone else is changing the same assets. Nothing was imported; try again later")


def _with_keys(checked: Sequence[_CheckedRow], drafts: Sequence[Draft]) -> list[Outcome]:
    """Return the outcomes with the final keys, including generated ones."""
    keys = (draft.after.external_key for draft in drafts)
    return [row.outcome._replace(external_key=next(keys)) if row.plan else row.outcome for row in checked]


def _import_locations(actor: Actor, records: Sequence[NewRecord], progress: Callable[[int], None]) -> list[Outcome]:
    """Write row by row, because the parent of a location may be in an earlier row. Blocks other writers."""
    outcomes: list[Outcome] = []
    try:
        with long_writing(), acting(actor) as act:
            for number, record in enumerate(records, 1):
                outcomes.append(_outcome(actor, record))
                if number % 100 == 0:
                    progress(number)
            _raise_if_faulty(outcomes)
            _note(act, "location", outcomes)
    except _Refused:
        return _unchanged(outcomes)
    return outcomes


def _raise_if_faulty(outcomes: Sequence[Outcome]) -> None:
    if any(outcome.result == "faulty" for outcome in outcomes):
        raise _Refused


def _note(act: Act, kind: str, outcomes: Sequence[Outcome]) -> None:
    counts = {result: sum(one.result == result for one in outcomes) for result in ("created", "changed")}
    act.note(f"{kind}.imported", Subject(kind, "import", f"{len(outcomes)} rows"), counts)


def _unchanged(outcomes: Sequence[Outcome]) -> list[Outcome]:
    return [one if one.result == "faulty" else one._replace(result="unchanged") for one in outcomes]


def _check_rows(
    organization_id: int, kind: str, records: Sequence[NewRecord], progress: Callable[[int], None]
) -> list[_CheckedRow]:
    new_keys: set[str] = set()
    checked: list[_CheckedRow] = []
    for number, record in enumerate(records, 1):
        checked.append(_check_row(organization_id, kind, record, new_keys))
        if record.external_key:
            new_keys.add(record.external_key)
        if number % 100 == 0:
            progress(number)
    progress(len(records))
    return checked


def _check_row(organization_id: int, kind: str, record: NewRecord, new_keys: set[str]) -> _CheckedRow:
    """Check one row. `new_keys` are the keys of the rows above."""
    parent = record.parent_key
    row = _find(organization_id, kind, record.external_key)
    new_tags, changes = _difference(row, record) if row else (record.tags, dict(record.values))
    faults = [record.fault] if record.fault else []
    if parent and parent not in new_keys and not lookup.location_by_key(organization_id, parent):
        faults.append(f"there is no location {parent}, and none in a row above")
    if row is None and "name" not in record.values and not record.fault:
        faults.append("name is required for a new record")
    faults += _too_many_tags(row, new_tags)
    taken = [tag for tag in new_tags if is_taken(organization_id, tag)][:MAX_TAKEN_TAGS]
    faults += [f"tag {tag.tag_type}:{tag.value} belongs to another record" for tag in taken]
    if faults:
        return _faulty(record, "; ".join(faults))
    if row is None:
        return _checked_row(record, "created", None, changes, new_tags)
    if not (changes or new_tags or (parent and parent != getattr(row, "parent_external_key", None))):
        return _CheckedRow(Outcome(record.line, row.external_key, "unchanged"))
    try:
        check_home(row.id)
    except Conflict as error:
        return _faulty(record, str(error))
    return _checked_row(record, "changed", row, changes, new_tags)


def _too_many_tags(row: AssetRow | LocationRow | None, new_tags: Sequence[NewTag]) -> list[str]:
    values = [tag.value for tag in row.tags] if row else []
    values += [tag.value for tag in new_tags]
    try:
        number_of_tags("tags", len(values), sum(len(value.encode()) for value in values))
    except Invalid as error:
        return [error.fields[0].message]
    return []


def _checked_row(
    record: NewRecord,
    result: str,
    row: AssetRow | LocationRow | None,
    changes: dict[str, Any],
    new_tags: Sequence[NewTag],
) -> _CheckedRow:
    asset = row if isinstance(row, AssetRow) else None
    outcome = Outcome(record.line, record.external_key or "", result)
    return _CheckedRow(outcome, AssetPlan(record.external_key, asset, changes, new_tags))


def _faulty(record: NewRecord, reason: str) -> _CheckedRow:
    return _CheckedRow(Outcome(record.line, record.external_key or "", "faulty", reason))


def _find(organization_id: int, kind: str, external_key: str | None) -> AssetRow | LocationRow | None:
    by_key = lookup.asset_by_key if kind == "asset" else lookup.location_by_key
    match = by_key(organization_id, external_key) if external_key else None
    return (assets if kind == "asset" else locations).get(organization_id, match.id) if match else None


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
    match = record.external_key and lookup.location_by_key(actor.organization_id, record.external_key)
    if not match:
        _require_name(record)
        location = locations.create(
            actor, external_key=record.external_key, tags=record.tags, parent=parent, **record.values
        )
        return location.external_key, "created"
    location = locations.get(actor.organization_id, match.id)
    new_tags, changes = _difference(location, record)
    is_moved = bool(record.parent_key) and record.parent_key != location.parent_external_key
    if changes or is_moved:
        locations.patch(actor, location.id, cast(LocationChanges, changes), parent=parent if is_moved else NO_PARENT)
    for tag in new_tags:
        locations.attach_tag(actor, location.id, tag)
    return location.external_key, "changed" if changes or is_moved or new_tags else "unchanged"


def _difference(row: AssetRow | LocationRow, record: NewRecord) -> tuple[list[NewTag], dict[str, Any]]:
    """Return the tags that the record does not have yet, and the columns that change."""
    attached = {(tag.tag_type, tag.value) for tag in row.tags}
    changes = {name: value for name, value in record.values.items() if getattr(row, name) != value}
    return [tag for tag in record.tags if tuple(tag) not in attached], changes


def _require_name(record: NewRecord) -> None:
    if "name" not in record.values:
        raise Invalid.one("name", "required", "name is required for a new record")


def _reason(error: EdgeError) -> str:
    return "; ".join(field.message for field in error.fields) if isinstance(error, Invalid) else str(error)
