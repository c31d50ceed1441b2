"""Comparison of a site's records with this hub's before it joins. Nothing is changed."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from typing import NamedTuple

from edge.database.change_log import Kind
from edge.database.connection import execute
from edge.errors import Unreadable
from edge.sync.store.record_copies import holders_of_tags
from edge.sync.store.sites import Site
from edge.validation.values import MAX_KEY, MAX_NAME

MOST_RECORDS = 500  # per question
MOST_TAGS = 100  # per record
MAX_TAG = 1000  # characters


class OwnRecord(NamedTuple):
    """A live record of a box that has not joined yet."""

    kind: int
    id: int
    key: str
    name: str
    created_at: int
    tags: Sequence[tuple[str, str]]


class Clash(NamedTuple):
    """A record that the hub cannot have beside its own one. `agrees`: key, name and one tag are the same."""

    kind: int
    id: int
    by: str  # key or tag
    key: str  # of the hub's record
    name: str
    home: str
    agrees: bool


def own_records(organization_id: int, kind: int, after: int, hub_id: str) -> list[OwnRecord]:
    """Return the next live records of this box by id, without copies from a hub that it has left. For sites."""
    table = "asset" if kind == Kind.ASSET else "location"
    rows = execute(
        f"SELECT id, external_key, name, created_at, (SELECT json_group_array(json_array(tag_type, value)) FROM tag "
        f"WHERE {table}_id = r.id AND tag.deleted_at IS NULL) FROM {table} r WHERE +organization_id = ? AND id > ? "
        "AND deleted_at IS NULL AND id NOT IN (SELECT local_id FROM former_link WHERE hub_id = ?) ORDER BY id LIMIT ?",
        (organization_id, after, hub_id, MOST_RECORDS),
    )
    return [OwnRecord._make((kind, *row[:4], [(tag[0], tag[1]) for tag in json.loads(row[4])])) for row in rows]


def checked(rows: object) -> list[OwnRecord]:
    """Return the records of a question. Raises Unreadable."""
    if not isinstance(rows, list) or len(rows) > MOST_RECORDS:
        raise Unreadable(f"send a list of at most {MOST_RECORDS} records")
    try:
        return [_checked(*row) for row in rows]
    except (TypeError, ValueError) as error:
        raise Unreadable(f"the records are invalid: {error!r:.200}") from error


def _checked(kind: object, record_id: object, key: object, name: object, created_at: object, tags: object) -> OwnRecord:
    numbers = (kind, record_id, created_at)
    if not all(type(number) is int and abs(number) < 2**63 for number in numbers) or kind not in (2, 3):
        raise TypeError("a record without kind, id or time")
    if not isinstance(key, str) or not isinstance(name, str) or len(key) > MAX_KEY or len(name) > MAX_NAME:
        raise TypeError("a record without key or name")
    if not isinstance(tags, list) or len(tags) > MOST_TAGS:
        raise TypeError("too many tags")
    pairs = [(tag_type, value) for tag_type, value in tags]
    if not all(isinstance(text, str) and len(text) <= MAX_TAG for pair in pairs for text in pair):
        raise TypeError("a tag that is not text")
    return OwnRecord(kind, record_id, key, name, created_at, pairs)  # type: ignore[arg-type]  # checked above


def find(site: Site, records: Sequence[OwnRecord]) -> list[Clash]:
    """Return the clashes of these records with those that this hub has from elsewhere."""
    known = _known(site, records)
    new = [record for record in records if record.id not in known]
    by_key = _holders_of_keys(site, new)
    tags = [tag for record in new for tag in record.tags]
    by_tag = {(kind, value): holder for holder, kind, value in holders_of_tags(site.organization_id, tags)}
    clashing: list[tuple[OwnRecord, int]] = []
    for record in new:
        holders = [by_key.get((record.kind, _key(site, record))), *map(by_tag.get, record.tags)]
        holder = next((holder for holder in holders if holder is not None), None)
        if holder is not None:
            clashing.append((record, holder))
    shown = _shown({holder for _, holder in clashing})
    clashes = []
    for record, holder in clashing:
        is_by_key = (record.kind, _key(site, record)) in by_key
        has_tag = holder in map(by_tag.get, record.tags)
        agrees = record.kind == Kind.ASSET and is_by_key and shown[holder][1] == record.name and has_tag
        clashes.append(Clash._make((record.kind, record.id, "key" if is_by_key else "tag", *shown[holder], agrees)))
    return clashes


def _key(site: Site, record: OwnRecord) -> str:
    """Return the key that the record would have at this hub."""
    return record.key if record.kind == Kind.ASSET else f"{site.code}-{record.key}"


def _known(site: Site, records: Sequence[OwnRecord]) -> set[int]:
    """Return the ids of records that this hub has from the site already, since it was a site before."""
    created_at = {record.id: record.created_at for record in records}
    rows = execute(
        "SELECT remote_id, created_at FROM link WHERE peer = ? AND remote_id IN (SELECT value FROM json_each(?))",
        (site.no, json.dumps(list(created_at))),
    )
    return {ref for ref, at in rows if at in (None, created_at[ref])}


def _holders_of_keys(site: Site, records: Sequence[OwnRecord]) -> dict[tuple[int, str], int]:
    """Return the live records that have the keys of these, by kind and key."""
    holders: dict[tuple[int, str], int] = {}
    for kind, table in ((Kind.ASSET, "asset"), (Kind.LOCATION, "location")):
        keys = [_key(site, record) for record in records if record.kind == kind]
        rows = execute(
            f"SELECT r.external_key, r.id FROM json_each(?) k CROSS JOIN {table} r "  # forces use of the index
            "ON r.external_key = k.value WHERE r.organization_id = ? AND r.deleted_at IS NULL",
            (json.dumps(keys), site.organization_id),
        )
        holders |= {(int(kind), key): holder for key, holder in rows}
    return holders


def _shown(ids: Collection[int]) -> dict[int, tuple[str, str, str]]:
    """Return key, name and home of records of this hub."""
    rows = execute(
        "SELECT k.value, ifnull(a.external_key, l.external_key), ifnull(a.name, l.name), ifnull(home, 'this hub') "
        "FROM json_each(?) k LEFT JOIN asset a ON a.id = k.value LEFT JOIN location l ON l.id = k.value "
        "LEFT JOIN mirror ON record_id = k.value",
        (json.dumps(list(ids)),),
    )
    return {record_id: (key, name, home) for record_id, key, name, home in rows}
