"""Import of many assets or locations: all rows are checked first, then written in slices (see edge.bulk).

Each row creates a record or changes the record with its key.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from edge import clock
from edge.audit.actors import Actor
from edge.audit.audit import Act, acting
from edge.errors import Conflict, EdgeError
from edge.records import assets, import_drafts, locations, lookup, metadata_fields
from edge.records.assets import AssetRow
from edge.records.external_keys import MILLISECOND, check_window
from edge.records.import_drafts import Plan
from edge.records.kept_elsewhere import check_home
from edge.records.locations import LocationRow
from edge.records.record import Kind
from edge.records.tags import NewTag, is_taken
from edge.texts import N_, fill, joined
from edge.validation.imported_rows import collected, messages_of
from edge.validation.packed_texts import pack, unpack
from edge.validation.values import number_of_tags

KINDS: Mapping[str, Kind[Any]] = {"asset": assets.KIND, "location": locations.KIND}
MAX_TAKEN_TAGS = 5  # listed per row
ROOT = ""  # parent key of a location that gets no parent


class NewRecord(NamedTuple):
    """One row with validated values. `fault` is the error message of an invalid row, packed.

    `tags` are added to those of an existing record; those of the `exact_tags` types that are not listed are detached.
    `properties` are set in the metadata, or removed if None. `cells` are the row as entered.
    """

    line: int
    external_key: str | None
    values: Mapping[str, Any]
    tags: Sequence[NewTag] = ()
    parent_key: str | None = None  # None changes nothing
    fault: str = ""
    exact_tags: Sequence[str] = ()
    properties: Mapping[str, str | None] | None = None
    cells: Mapping[str, str] | None = None


class Outcome(NamedTuple):
    """Result of one row: created, changed, unchanged, or faulty with a `reason`, which is packed."""

    line: int
    external_key: str
    result: str
    reason: str = ""
    detached: int = 0  # tags
    cleared: int = 0  # fields


class _CheckedRow(NamedTuple):
    """The outcome of a row before anything is written. `plan` is None if nothing would be written."""

    outcome: Outcome
    plan: Plan | None = None


class _Above(NamedTuple):
    """What the rows above create and detach."""

    keys: set[str]
    detached: set[NewTag]


def check_records(
    organization_id: int, kind: str, records: Sequence[NewRecord], progress: Callable[[int], None]
) -> list[Outcome]:
    """Dry run: return the outcome of each row without writing anything or taking the write lock.

    `progress` gets the number of rows checked so far.
    """
    above = _Above(set(), set())
    outcomes: list[Outcome] = []
    for number, record in enumerate(records, 1):
        outcomes.append(_check_row(organization_id, kind, record, above).outcome)
        if number % 100 == 0:
            progress(number)
    progress(len(records))
    return outcomes


def write_records(actor: Actor, kind: str, records: Sequence[NewRecord]) -> list[Outcome]:
    """Write some rows in the caller's transaction. Rows that became faulty since the check are left out.

    The rows must follow those written before, because the parent of a location may be in an earlier row.
    """
    above = _Above(set(), set())
    # A location is written before the next row is checked: it may be the parent.
    parts = [records] if kind == "asset" else [[record] for record in records]
    with acting(actor) as act:
        return [outcome for part in parts for outcome in _write_some(act, kind, part, above)]


def _write_some(act: Act, kind: str, records: Sequence[NewRecord], above: _Above) -> list[Outcome]:
    checked = [_check_row(act.organization_id, kind, record, above) for record in records]
    drafts = import_drafts.prepare(act, KINDS[kind], [row.plan for row in checked if row.plan])
    import_drafts.write(act, KINDS[kind], drafts)
    keys = (draft.after.external_key for draft in drafts)  # including generated ones
    return [row.outcome._replace(external_key=next(keys)) if row.plan else row.outcome for row in checked]


def _check_row(organization_id: int, kind: str, record: NewRecord, above: _Above) -> _CheckedRow:
    row = _find(organization_id, kind, record.external_key)
    faults = [unpack(record.fault)] if record.fault else []
    plan = Plan(record.external_key, row, {})
    try:
        plan = _plan(row, record)
        _check_window_of(row, plan.changes)
    except EdgeError as error:
        faults += messages_of(error)
    faults += _faults_of(organization_id, record, plan, above)
    above.keys.update([record.external_key] if record.external_key else [])
    above.detached.update(NewTag(tag.tag_type, tag.value) for tag in plan.detached)
    if faults:
        return _faulty(record, joined(faults))
    if row is None:
        return _CheckedRow(Outcome(record.line, record.external_key or "", "created"), plan)
    if not (plan.changes or plan.new_tags or plan.detached):
        return _CheckedRow(Outcome(record.line, row.external_key, "unchanged"))
    try:
        check_home(row.id)
    except Conflict as error:
        return _faulty(record, error.args[0])
    return _CheckedRow(Outcome(record.line, row.external_key, "changed", "", len(plan.detached), plan.cleared), plan)


def _faults_of(organization_id: int, record: NewRecord, plan: Plan, above: _Above) -> list[str]:
    """Return the errors of a row that depend on other records. `above` describes the rows above."""
    faults: list[str] = []
    parent = record.parent_key
    if parent and parent not in above.keys and not lookup.location_by_key(organization_id, parent):
        faults.append(fill(N_("there is no location %(key)s, and none in a row above"), key=parent))
    if plan.existing is None and "name" not in record.values and not record.fault:
        faults.append(N_("name is required for a new record"))
    faults += _too_many_tags(plan)
    taken = [tag for tag in plan.new_tags if tag not in above.detached and is_taken(organization_id, tag)]
    message = N_("tag %(tag)s belongs to another record")
    faults += [fill(message, tag=f"{tag.tag_type}:{tag.value}") for tag in taken[:MAX_TAKEN_TAGS]]
    return faults


def _check_window_of(row: AssetRow | LocationRow | None, changes: Mapping[str, Any]) -> None:
    begins = changes.get("valid_from", row.valid_from if row else clock.now())
    check_window(begins, changes.get("valid_to", row.valid_to if row else None))


def _too_many_tags(plan: Plan) -> list[str]:
    if not plan.new_tags:  # an older record may have more than the limit
        return []
    left = [tag.value for tag in plan.existing.tags if tag not in plan.detached] if plan.existing else []
    left += [tag.value for tag in plan.new_tags]
    faults: list[str] = []
    collected(faults, lambda: number_of_tags("tags", len(left), sum(len(value.encode()) for value in left)))
    return faults


def _faulty(record: NewRecord, reason: str) -> _CheckedRow:
    return _CheckedRow(Outcome(record.line, record.external_key or "", "faulty", pack(reason)))


def _find(organization_id: int, kind: str, external_key: str | None) -> AssetRow | LocationRow | None:
    match = lookup.by_key(kind, organization_id, external_key) if external_key else None
    return KINDS[kind].get(organization_id, match.id) if match else None


def _plan(row: AssetRow | LocationRow | None, record: NewRecord) -> Plan:
    """Return what a row changes in its record. Raises Invalid for bad metadata."""
    given = dict(record.values)
    if record.properties is not None:
        saved = given.get("metadata") or (row.metadata if isinstance(row, AssetRow) else "{}")
        given["metadata"] = metadata_fields.with_properties(saved, record.properties)
    parent = {} if record.parent_key is None else {"parent_external_key": record.parent_key or None}
    if row is None:
        return Plan(record.external_key, None, given | parent, record.tags)
    changes = {name: value for name, value in given.items() if not _is_same(name, value, getattr(row, name))}
    attached, listed = {(tag.tag_type, tag.value) for tag in row.tags}, set(record.tags)
    detached = [
        tag for tag in row.tags if tag.tag_type in record.exact_tags and NewTag(tag.tag_type, tag.value) not in listed
    ]
    cleared = sum(value in (None, "{}") for value in changes.values())
    moved = {name: key for name, key in parent.items() if key != getattr(row, name)}
    new = [tag for tag in record.tags if tuple(tag) not in attached]
    return Plan(record.external_key, row, changes | moved, new, detached, cleared)


def _is_same(name: str, entered: Any, saved: Any) -> bool:
    """Compare a value with the saved one. Times are compared as exactly as they were entered."""
    if name not in ("valid_from", "valid_to") or None in (entered, saved):
        return bool(entered == saved)
    unit = clock.SECOND if entered % clock.SECOND == 0 else MILLISECOND
    return bool(entered // unit == saved // unit)
