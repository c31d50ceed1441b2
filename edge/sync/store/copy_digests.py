"""Digests that compare the hub's assets with their copies at a site.

They are summed up by range of the hub's ids. Both ends compute them at each comparison, about 0.01 ms an asset.

Excluded are the name of the home and retired assets.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

from edge.database.connection import column, execute, reading
from edge.sync.store.digests import Digest, hash_of, sum_up
from edge.sync.store.record_copies import ASSET_COLUMNS, TAGS

RANGE_BITS = 45  # bits of an id within a range
RANGES = 1 << (53 - RANGE_BITS)
MOST_UNSETTLED = 5_000  # assets in conflict; with more, a hub compares nothing
Hashes = dict[int, int]  # by the hub's id
Read = Callable[[int], Hashes]  # of one range


def at_hub(organization_id: int, except_home: int, number: int) -> Hashes:
    """Return the hashes of the live assets of this hub in a range, except those of one site."""
    rows = execute(_AT_HUB, (*_ids(number), organization_id, except_home))
    return {row[0]: _hash(row[:-1], json.loads(row[-1])) for row in rows}


def at_site(organization_id: int, number: int) -> Hashes:
    """Return the hashes of the live copies at this site in a range.

    A copy in conflict is incomplete here, so its original counts.
    """
    rows = execute(_AT_SITE, (*_ids(number), organization_id))
    hashes = {row[0]: _hash(row[:-1], json.loads(row[-1])) for row in rows}
    for ref, text in execute(_IN_CONFLICT, _ids(number)):
        record = json.loads(text)
        deleted_at, tags = record[10:12]
        hashes.pop(ref, None)
        if deleted_at is None:
            hashes[ref] = _hash((ref, *record[1:10]), tags)
    return hashes


def by_range(read: Read, first: int, without: Collection[int], seconds: float) -> tuple[dict[int, Digest], int]:
    """Return the digests of the ranges from `first` on without some assets, and the last range read in `seconds`."""
    ends_at, digests = time.monotonic() + seconds, dict[int, Digest]()
    with reading():
        for number in range(first, RANGES):
            digests |= sum_up((number, value) for ref, value in read(number).items() if ref not in without)
            if time.monotonic() > ends_at:
                return digests, number
    return digests, RANGES - 1


def unsettled(organization_id: int) -> list[int]:
    """Return the assets of this hub in conflict, which are not sent to sites."""
    return column(
        "SELECT DISTINCT link.local_id FROM conflict JOIN link USING (peer, remote_id) "
        "JOIN asset ON asset.id = link.local_id AND asset.organization_id = ? LIMIT ?",
        (organization_id, MOST_UNSETTLED + 1),
    )


def keys_of_copies(refs: Iterable[int]) -> dict[int, str]:
    """Return the keys of this site's copies, by the hub's ids."""
    rows = execute(
        "SELECT remote_id, external_key FROM link JOIN asset ON asset.id = local_id "
        "WHERE peer = 0 AND remote_id IN (SELECT value FROM json_each(?))",
        (json.dumps(list(refs)),),
    )
    return dict(rows.fetchall())


def created_after(refs: Iterable[int], moment: int) -> set[int]:
    """Return the hub's ids of the copies created after a time. Here they are valid from the time of receipt."""
    sql = (
        "SELECT remote_id FROM link WHERE peer = 0 AND created_at > ? AND remote_id IN (SELECT value FROM json_each(?))"
    )
    return set(column(sql, (moment, json.dumps(list(refs)))))


def _ids(number: int) -> tuple[int, int]:
    """Return the first and the last id of a range."""
    return number << RANGE_BITS, ((number + 1) << RANGE_BITS) - 1


def _hash(columns: Sequence[Any], tags: Iterable[Sequence[str]]) -> int:
    return hash_of(json.dumps([*columns, sorted(map(list, tags))]).encode())


_TAGS = TAGS.format("asset")
_AT_HUB = (
    f"SELECT r.id, {ASSET_COLUMNS}, r.created_at, r.updated_at, {_TAGS} FROM asset r "
    "WHERE r.id BETWEEN ? AND ? AND +r.organization_id = ? AND r.deleted_at IS NULL "
    "AND NOT EXISTS (SELECT 1 FROM mirror WHERE record_id = r.id AND peer = ?)"
)
_AT_SITE = (
    f"SELECT link.remote_id, {ASSET_COLUMNS}, ifnull(link.created_at, r.created_at), r.updated_at, {_TAGS} "
    "FROM link JOIN mirror ON mirror.record_id = link.local_id AND mirror.peer = 0 "
    "JOIN asset r ON r.id = link.local_id "
    "WHERE link.peer = 0 AND link.remote_id BETWEEN ? AND ? AND +r.organization_id = ? AND r.deleted_at IS NULL"
)
_IN_CONFLICT = "SELECT remote_id, record FROM conflict WHERE peer = 0 AND kind = 2 AND remote_id BETWEEN ? AND ?"
