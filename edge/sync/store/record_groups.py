"""Groups of records in a batch that exchange keys or tags. A group is stored in one transaction.

Example: two assets swap their keys. Stored one after the other, the second one would be retired in between.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import groupby

from edge.database.connection import execute
from edge.database.sliced_writing import parts_of
from edge.sync.store.exchange import HUB, LocationRecord, Peer, Record
from edge.sync.store.record_lines import TAGS, table_of

WINDOW = 500  # records; a site sends as many at once
MOST_OF_GROUP = 50
MOST_TAGS = 1_000  # of the records of a group; 50 records with as many each would hold the write lock for a minute

Claim = tuple[str, ...]  # a key or a tag


def windows(records: Sequence[Record]) -> Iterator[Sequence[Record]]:
    """Yield the records in parts of one kind that are searched for exchanges."""
    for _, of_kind in groupby(records, type):
        part = list(of_kind)
        yield from (part[at : at + WINDOW] for at in range(0, len(part), WINDOW))


def groups(peer: Peer, records: Sequence[Record]) -> Iterator[Sequence[Record]]:
    """Yield records of one kind in groups: each one alone, or with those that exchange keys or tags with it."""
    held = _held(peer, records)
    root = list(range(len(records)))
    given_up: dict[Claim, int] = {}
    taken: list[tuple[Claim, int]] = []
    for at, record in enumerate(records):
        before, after = held.get(record.ref, set()), _claims(peer, record)
        given_up.update(dict.fromkeys(before - after, at))
        taken += [(claim, at) for claim in after - before]
    for claim, at in taken:
        if claim in given_up:
            root[_find(root, at)] = _find(root, given_up[claim])
    members: dict[int, list[Record]] = {}
    for at, record in enumerate(records):
        members.setdefault(_find(root, at), []).append(record)
    if len(members) < len(records) and isinstance(records[0], LocationRecord):
        # They are together if any of them exchange keys, to keep parents before children.
        yield from parts_of(records, _number_of_tags, MOST_TAGS, MOST_OF_GROUP)
        return
    for group in members.values():
        yield from parts_of(group, _number_of_tags, MOST_TAGS, MOST_OF_GROUP)


def _number_of_tags(record: Record) -> int:
    return len(record.tags)


def _find(root: list[int], at: int) -> int:
    while root[at] != at:
        root[at] = root[root[at]]
        at = root[at]
    return at


def _claims(peer: Peer, record: Record) -> set[Claim]:
    """Return the key and the tags of a record here; none of a deleted one."""
    if record.deleted_at is not None:
        return set()
    is_prefixed = isinstance(record, LocationRecord) and peer.no != HUB
    key = f"{peer.code}-{record.external_key}" if is_prefixed else record.external_key
    return {(key,), *((str(kind), str(value)) for kind, value in record.tags)}


def _held(peer: Peer, records: Sequence[Record]) -> dict[int, set[Claim]]:
    """Return the key and the tags of the live records here whose home is the peer, by its ids."""
    table = table_of(records[0])
    rows = execute(
        f"SELECT remote_id, r.external_key, {TAGS.format(table)} FROM link "
        "JOIN mirror ON mirror.record_id = link.local_id AND mirror.peer = link.peer "
        f"JOIN {table} r ON r.id = link.local_id AND r.deleted_at IS NULL "
        "WHERE link.peer = ? AND link.remote_id IN (SELECT value FROM json_each(?))",
        (peer.no, json.dumps([record.ref for record in records])),
    )
    return {ref: {(key,), *map(tuple, json.loads(tags))} for ref, key, tags in rows}
