"""Many assets or locations at once, all or nothing: each row creates a record, or changes the one that has its key."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, cast

from edge.errors import EdgeError, Invalid
from edge.store import assets, locations, lookup
from edge.store.actors import Actor
from edge.store.assets import AssetChanges, AssetRow
from edge.store.audit import Subject, acting
from edge.store.database import database, long_writing
from edge.store.locations import LocationChanges, LocationRow
from edge.store.parents import NO_PARENT, UNSET, Parent
from edge.store.tags import NewTag, is_taken


class NewRecord(NamedTuple):
    """One row, its values validated; `fault` says why it is none. Tags that the record has already stay as they are."""

    line: int
    external_key: str | None
    values: Mapping[str, Any]
    tags: Sequence[NewTag] = ()
    parent_key: str | None = None
    fault: str = ""


class Outcome(NamedTuple):
    """`told` is created, changed, unchanged, or faulty with its `reason`."""

    line: int
    external_key: str
    told: str
    reason: str = ""


class _Refused(Exception):
    """Undoes the transaction of an import with a fault in it."""


def check_records(
    organization_id: int, kind: str, records: Sequence[NewRecord], progress: Callable[[int], None]
) -> list[Outcome]:
    """What would become of each row. Only reads, so that nobody who writes has to wait."""
    new_keys: set[str] = set()
    outcomes: list[Outcome] = []
    for number, record in enumerate(records, 1):
        outcomes.append(_expected(organization_id, kind, record, new_keys))
        if record.external_key:
            new_keys.add(record.external_key)
        if number % 100 == 0:
            progress(number)
    progress(len(records))
    return outcomes


def import_records(
    actor: Actor, kind: str, records: Sequence[NewRecord], progress: Callable[[int], None]
) -> list[Outcome]:
    """In one transaction; with a fault in any row, nothing is changed. Scans wait at the broker meanwhile."""
    put = _put_asset if kind == "asset" else _put_location
    outcomes: list[Outcome] = []
    try:
        with long_writing(), acting(actor) as act:
            for number, record in enumerate(records, 1):
                outcomes.append(_outcome(actor, put, record))
                if number % 100 == 0:
                    progress(number)
            _refuse_faults(outcomes)
            counts = {told: sum(1 for one in outcomes if one.told == told) for told in ("created", "changed")}
            act.note(f"{kind}.imported", Subject(kind, "import", f"{len(records)} rows"), counts)
    except _Refused:
        outcomes = [one if one.told == "faulty" else one._replace(told="unchanged") for one in outcomes]
    progress(len(records))
    return outcomes


def _refuse_faults(outcomes: Sequence[Outcome]) -> None:
    if any(outcome.told == "faulty" for outcome in outcomes):
        raise _Refused


def _expected(organization_id: int, kind: str, record: NewRecord, new_keys: set[str]) -> Outcome:
    key = record.external_key or ""
    by_key = lookup.asset_by_key if kind == "asset" else lookup.location_by_key
    if record.fault:
        return Outcome(record.line, key, "faulty", record.fault)
    parent = record.parent_key
    if parent and parent not in new_keys and not lookup.location_by_key(organization_id, parent):
        return Outcome(record.line, key, "faulty", f"there is no location {parent}, nor in a row above")
    found = by_key(organization_id, key) if key else None
    if found is None:
        if "name" not in record.values:
            return Outcome(record.line, key, "faulty", "name is required for a new record")
        taken = [tag for tag in record.tags if is_taken(organization_id, tag)]
        return _taken(record, taken[0]) if taken else Outcome(record.line, key, "created")
    row = (assets if kind == "asset" else locations).get(organization_id, found.id)
    new_tags, changes = _difference(row, record)
    taken = [tag for tag in new_tags if is_taken(organization_id, tag)]
    if taken:
        return _taken(record, taken[0])
    moves = bool(parent) and parent != getattr(row, "parent_external_key", None)
    return Outcome(record.line, key, "changed" if changes or new_tags or moves else "unchanged")


def _taken(record: NewRecord, tag: NewTag) -> Outcome:
    reason = f"tag {tag.tag_type}:{tag.value} is on something else"
    return Outcome(record.line, record.external_key or "", "faulty", reason)


def _outcome(actor: Actor, put: Callable[[Actor, NewRecord], tuple[str, str]], record: NewRecord) -> Outcome:
    if record.fault:
        return Outcome(record.line, record.external_key or "", "faulty", record.fault)
    try:
        with database.savepoint():
            key, told = put(actor, record)
    except EdgeError as error:
        return Outcome(record.line, record.external_key or "", "faulty", _reason(error))
    return Outcome(record.line, key, told)


def _put_asset(actor: Actor, record: NewRecord) -> tuple[str, str]:
    found = record.external_key and lookup.asset_by_key(actor.organization_id, record.external_key)
    if not found:
        _require_name(record)
        made = assets.create(actor, external_key=record.external_key, tags=record.tags, **record.values)
        return made.external_key, "created"
    asset = assets.get(actor.organization_id, found.id)
    new_tags, changes = _difference(asset, record)
    if changes:
        assets.patch(actor, asset.id, cast(AssetChanges, changes))
    for tag in new_tags:
        assets.attach_tag(actor, asset.id, tag)
    return asset.external_key, "changed" if changes or new_tags else "unchanged"


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
