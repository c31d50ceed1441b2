"""Import of tags from a table with one row for each tag: all rows are checked first, then written in slices.

A row attaches its tag. If the file is exact, the first row of a record also detaches the tags that the file does not
list for it. A tag that another record of an exact file loses moves from there in one transaction, so two records can
exchange their tags.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, cast

from edge.audit.actors import Actor
from edge.audit.audit import Act, Entry, Subject, acting
from edge.database.connection import execute
from edge.database.ids import new_ids
from edge.errors import Conflict
from edge.records import search, tagging, tags
from edge.records.csv_import import NewRecord, Outcome
from edge.records.external_keys import moment
from edge.records.kept_elsewhere import refusal
from edge.records.tags import NewTag, Owner, TagRow
from edge.texts import N_, fill, joined
from edge.validation import json_text
from edge.validation.imported_rows import collected
from edge.validation.packed_texts import pack, unpack
from edge.validation.values import number_of_tags

CHECKED_TOGETHER = 100  # rows
WRITTEN_TOGETHER = 200  # tags
KINDS: tuple[Owner, Owner] = ("asset", "location")
NOT_FOUND = {"asset": N_("there is no asset %(key)s"), "location": N_("there is no location %(key)s")}
TAKEN = N_("tag %(tag)s belongs to another record")

RecordName = tuple[str, str]  # kind and key
Listed = dict[RecordName, set[NewTag]]


class Size(NamedTuple):
    """Number of tags of a record, and the size of their values in bytes."""

    number: int
    bytes: int


@dataclass
class _Record:
    """An asset or location with its tags, also those of earlier rows. `home`: where it is kept, if elsewhere."""

    kind: Owner
    id: int
    external_key: str
    name: str
    description: str | None
    is_active: bool
    valid_from: int
    valid_to: int | None
    home: str | None
    tags: dict[NewTag, TagRow | None]  # None if an earlier row attaches it

    @property
    def deleted_at(self) -> None:
        """A record that tags are attached to is live."""
        return None

    @property
    def subject(self) -> Subject:
        return Subject(self.kind, self.id, f"{self.name} ({self.external_key})")


@dataclass
class _Part:
    """Some rows with their records, the holders of their tags, and what the rows change."""

    records: Mapping[RecordName, _Record]
    holders: dict[NewTag, _Record]
    detached: list[tuple[_Record, TagRow]] = field(default_factory=list)
    attached: list[tuple[_Record, NewTag]] = field(default_factory=list)


def line_of(record: NewRecord, kind: str, listed: Sequence[NewTag] | None) -> NewRecord:
    """Return the row of a tag of a record. `listed`: all of its tags in an exact file, for its first row."""
    return record._replace(values={"kind": kind} | ({} if listed is None else {"listed": listed}))


def check_tags(
    organization_id: int, records: Sequence[NewRecord], progress: Callable[[int], None]
) -> tuple[list[NewRecord], list[Outcome]]:
    """Dry run: return the rows to write, and the outcome of each, without writing anything."""
    lists: Listed = {_name(row): set(row.values["listed"]) for row in records if "listed" in row.values}
    sizes: dict[RecordName, Size] = {}
    rows: list[NewRecord] = []
    outcomes: list[Outcome] = []
    for start in range(0, len(records), CHECKED_TOGETHER):
        some = records[start : start + CHECKED_TOGETHER]
        part = _load(organization_id, some)
        for row in some:
            holder = part.holders.get(row.tags[0]) if row.tags else None
            if holder and _is_released(lists, holder, row.tags[0]):
                row = row._replace(values={**row.values, "source": [holder.kind, holder.external_key]})
            rows.append(row)
            outcomes.append(_judge(row, part, sizes))
        progress(len(rows))
    return rows, outcomes


def write_tags(actor: Actor, records: Sequence[NewRecord]) -> list[Outcome]:
    """Write some rows, or the first of them if they change many tags, in the caller's transaction."""
    with acting(actor) as act:
        part = _load(act.organization_id, records)
        outcomes: list[Outcome] = []
        for row in records:
            outcomes.append(_judge(row, part, {}))
            if len(part.attached) + len(part.detached) >= WRITTEN_TOGETHER:
                break
        _write(act, part)
    return outcomes


def _is_released(lists: Listed, holder: _Record, tag: NewTag) -> bool:
    """True if an exact file lists the holder of a tag without it."""
    listed = lists.get((holder.kind, holder.external_key))
    return listed is not None and tag not in listed


def _name(row: NewRecord) -> RecordName:
    return row.values["kind"], row.external_key or ""


def _judge(row: NewRecord, part: _Part, sizes: dict[RecordName, Size]) -> Outcome:
    """Return the outcome of a row, and add its changes to the part. `sizes`: of records after the rows above."""
    record = part.records.get(_name(row))
    faults = [unpack(row.fault)] if row.fault else []
    if record is None:
        faults += [] if row.fault else [fill(NOT_FOUND[row.values["kind"]], key=row.external_key)]
        return _faulty(row, faults)
    detached = _not_listed(row, record)
    added = [tag for tag in row.tags if tag not in record.tags]
    source = part.holders.get(added[0]) if added else None
    faults += _faults_of(row, record, source, added, detached)
    faults += _too_many(record, sizes, added, detached)
    if faults:
        return _faulty(row, faults)
    for old in detached:
        _detach(part, record, NewTag(old.tag_type, old.value))
    for new in added:
        if source and new in source.tags:
            _detach(part, source, new)
        record.tags[new] = None
        part.attached.append((record, new))
    result = "created" if added else "changed" if detached else "unchanged"
    return Outcome(row.line, record.external_key, result, detached=len(detached))


def _not_listed(row: NewRecord, record: _Record) -> list[TagRow]:
    """Return the tags that the first row of a record detaches."""
    if "listed" not in row.values:
        return []
    listed = {NewTag(*tag) for tag in row.values["listed"]}
    return [tag for new, tag in record.tags.items() if tag and new not in listed]


def _faults_of(
    row: NewRecord, record: _Record, source: _Record | None, added: Sequence[NewTag], detached: Sequence[TagRow]
) -> list[str]:
    faults: list[str] = []
    if source and [source.kind, source.external_key] != row.values.get("source"):
        faults.append(fill(TAKEN, tag=tagging.tag_text(added[0])))
    changed = [record] if added or detached else []
    homes = [one.home for one in (*changed, *([source] if source else [])) if one.home]
    return [*faults, *(refusal(home) for home in dict.fromkeys(homes))]


def _too_many(
    record: _Record, sizes: dict[RecordName, Size], added: Sequence[NewTag], detached: Sequence[TagRow]
) -> list[str]:
    name = (record.kind, record.external_key)
    values = [tag.value for tag, row in record.tags.items() if row not in detached]
    before = sizes.get(name) or _size(values)
    more = _size([tag.value for tag in added])
    sizes[name] = Size(before.number + more.number, before.bytes + more.bytes)
    faults: list[str] = []
    if added:  # an older record may have more than the limit
        collected(faults, lambda: number_of_tags("tags", *sizes[name]))
    return faults


def _size(values: Sequence[str]) -> Size:
    return Size(len(values), sum(len(value.encode()) for value in values))


def _faulty(row: NewRecord, faults: Sequence[str]) -> Outcome:
    return Outcome(row.line, row.external_key or "", "faulty", pack(joined(faults)))


def _detach(part: _Part, record: _Record, tag: NewTag) -> None:
    old = record.tags.pop(tag)
    if old is None:
        raise Conflict(fill(TAKEN, tag=tagging.tag_text(tag)))
    part.holders.pop(tag, None)
    part.detached.append((record, old))


def _write(act: Act, part: _Part) -> None:
    now = moment()
    ids = iter(sorted(new_ids(len(part.attached))))
    for record, old in part.detached:
        tags.remove(record.kind, record.id, old.id, now)
    for kind in KINDS:
        new = [tags.prepare(next(ids), record.id, tag) for record, tag in part.attached if record.kind == kind]
        if new:
            tagging.attach_prepared(act, kind, new, now)
    changed = {(record.kind, record.id): record for record, _ in (*part.detached, *part.attached)}
    for kind in KINDS:
        rows = ((one, [TagRow(0, *tag) for tag in one.tags]) for one in changed.values() if one.kind == kind)
        search.index_records(kind, act.organization_id, rows)
    act.note_all(Entry("tag.detached", one.subject, {"tag": tagging.tag_text(old)}) for one, old in part.detached)
    act.note_all(Entry("tag.attached", one.subject, {"tag": tagging.tag_text(new)}) for one, new in part.attached)


def _load(organization_id: int, rows: Sequence[NewRecord]) -> _Part:
    """Read the records of some rows and those that have their tags."""
    keys: dict[str, list[Any]] = defaultdict(list)
    for row in rows:
        keys[row.values["kind"]].append(row.external_key or "")
    owned = _owners(organization_id, [tag for row in rows for tag in row.tags])
    found: dict[tuple[str, int], _Record] = {}
    for kind in KINDS:
        ids = [record_id for one, record_id in owned.values() if one == kind]
        found |= {(kind, one.id): one for one in _records(organization_id, kind, list(set(keys[kind])), ids)}
    by_name = {(one.kind, one.external_key): one for one in found.values()}
    return _Part(cast(Mapping[RecordName, _Record], by_name), {tag: found[owner] for tag, owner in owned.items()})


_OWNERS = """
SELECT t.tag_type, t.value, iif(t.asset_id IS NULL, 'location', 'asset'), ifnull(t.asset_id, t.location_id)
FROM json_each(?) one CROSS JOIN tag t ON t.organization_id = ? AND t.tag_type = one.value ->> 0
    AND t.value = one.value ->> 1 AND t.deleted_at IS NULL
"""


def _owners(organization_id: int, new: Sequence[NewTag]) -> dict[NewTag, tuple[str, int]]:
    rows = execute(_OWNERS, (json_text.text(new), organization_id))
    return {NewTag(tag_type, value): (kind, record_id) for tag_type, value, kind, record_id in rows}


def _records(organization_id: int, kind: Owner, keys: Sequence[str], ids: Sequence[int]) -> list[_Record]:
    sql = f"""
    SELECT r.id, r.external_key, r.name, r.description, r.is_active, r.valid_from, r.valid_to, m.home,
        {tags.tags_as_json(kind, "r.id")}
    FROM {kind} r LEFT JOIN mirror m ON m.record_id = r.id
    WHERE r.id IN (
        SELECT k.id FROM json_each(:keys) one CROSS JOIN {kind} k ON k.organization_id = :organization_id
            AND k.external_key = one.value AND k.deleted_at IS NULL
        UNION SELECT value FROM json_each(:ids)
    ) AND r.organization_id = :organization_id AND r.deleted_at IS NULL
    """
    values = {"organization_id": organization_id, "keys": json_text.text(keys), "ids": json_text.text(ids)}
    return [_Record(*[kind, *row[:-1], _tags(row[-1])]) for row in execute(sql, values)]


def _tags(text: str) -> dict[NewTag, TagRow | None]:
    return {NewTag(tag.tag_type, tag.value): tag for tag in tags.from_json(text)}
