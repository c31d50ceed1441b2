"""Digests that compare the hub's assets with their copies at a site.

They are summed up by range of the hub's ids and by home, so a hub computes them once for all sites: a site has copies
of all live assets except its own. Both ends store them, and triggers drop those of a range that changes.

Excluded are the name of the home and retired assets.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any

from edge.database.connection import column, execute, reading, writing
from edge.database.sliced_writing import write_in_slices
from edge.database.triggers import COPY_DIGESTS, COPY_RANGE_BITS
from edge.sync.store.digests import Digest, hash_of, install, sum_up
from edge.sync.store.record_copies import ASSET_COLUMNS, TAGS

RANGES = 1 << (53 - COPY_RANGE_BITS)
MOST_UNSETTLED = 5_000  # assets in conflict; with more, a hub compares nothing
Hashes = list[tuple[int, int, int]]  # the hub's id, its home, the hash
Read = Callable[[int, int, int], Hashes]  # organization, first and last id


def read_hub(organization_id: int, first: int, last: int) -> Hashes:
    """Return the hashes of the live assets of this hub in a range of ids."""
    rows = execute(_AT_HUB, (first, last, organization_id))
    return [(row[0], row[-1], _hash(row[:-2], json.loads(row[-2]))) for row in rows]


def read_site(organization_id: int, first: int, last: int) -> Hashes:
    """Return the hashes of the live copies at this site in a range of the hub's ids, with 0 as home.

    A copy in conflict is incomplete here, so its original counts.
    """
    kept = {
        ref: json.loads(record)
        for ref, record in execute(
            "SELECT remote_id, record FROM conflict WHERE peer = 0 AND kind = 2 AND remote_id BETWEEN ? AND ?",
            (first, last),
        )
    }
    rows = execute(_AT_SITE, (first, last, organization_id))
    hashes = [(row[0], 0, _hash(row[:-1], json.loads(row[-1]))) for row in rows if row[0] not in kept]
    for ref, record in kept.items():
        deleted_at, tags = record[10:12]
        if deleted_at is None:
            hashes.append((ref, 0, _hash((ref, *record[1:10]), tags)))
    return hashes


def by_range(
    organization_id: int, read: Read, first: int, without: Collection[int], except_home: int, seconds: float
) -> tuple[dict[int, Digest], int]:
    """Return the digests of the ranges from `first` on, and the last range. Call outside of a transaction.

    Computes and stores those that are missing, and ends early after `seconds`. Leaves out the assets `without` and
    those of one home.
    """
    install(COPY_DIGESTS, "copy_digest")
    ends_at = time.monotonic() + seconds
    reached = first - 1

    def steps() -> Iterator[None]:
        nonlocal reached
        stored = set(column(_STORED, (organization_id,)))
        for number in range(first, RANGES):
            if number not in stored:
                if time.monotonic() > ends_at and reached >= first:
                    return
                _store(organization_id, number, read)
                yield
            reached = number

    write_in_slices(steps())
    with reading():
        rows = execute(_TOTALS, (organization_id, first, reached)).fetchall()
        left_out = _hashes_of(organization_id, read, [one for one in without if first <= _range(one) <= reached])
    digests: dict[int, Digest] = {}
    for number, totals in rows:
        kept = [(count, total) for home, count, total in json.loads(totals) if home != except_home]
        digests[number] = (sum(count for count, _ in kept), sum(total for _, total in kept) % 2**53)
    for ref, home, value in left_out:
        if home != except_home and _range(ref) in digests:
            count, total = digests[_range(ref)]
            digests[_range(ref)] = (count - 1, (total - value) % 2**53)
    return digests, reached


def in_range(organization_id: int, read: Read, number: int) -> Hashes:
    """Return the hashes of all assets in a range."""
    return read(organization_id, number << COPY_RANGE_BITS, ((number + 1) << COPY_RANGE_BITS) - 1)


def check(organization_id: int, number: int, computed: Hashes) -> None:
    """Drop the stored digest of a range if it differs from the assets, for example after manual changes."""
    row = execute(_TOTALS, (organization_id, number, number)).fetchone()
    if row is not None and row[1] != _totals(computed):
        with writing():
            execute("DELETE FROM copy_digest WHERE organization_id = ? AND range = ?", (organization_id, number))


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
    return set(
        column(
            "SELECT remote_id FROM link "
            "WHERE peer = 0 AND created_at > ? AND remote_id IN (SELECT value FROM json_each(?))",
            (moment, json.dumps(list(refs))),
        )
    )


def forget(organization_id: int) -> None:
    """Drop the stored digests, so that they are computed again."""
    with writing():
        execute("DELETE FROM copy_digest WHERE organization_id = ?", (organization_id,))


def _hashes_of(organization_id: int, read: Read, asset_ids: Iterable[int]) -> Hashes:
    return [row for asset_id in asset_ids for row in read(organization_id, asset_id, asset_id)]


def _store(organization_id: int, number: int, read: Read) -> None:
    execute(
        "INSERT OR REPLACE INTO copy_digest (organization_id, range, totals) VALUES (?, ?, ?)",
        (organization_id, number, _totals(in_range(organization_id, read, number))),
    )


def _totals(hashes: Hashes) -> str:
    by_home = sum_up((home, value) for _, home, value in hashes)
    return json.dumps([(home, *digest) for home, digest in sorted(by_home.items())])


def _range(ref: int) -> int:
    return ref >> COPY_RANGE_BITS


def _hash(columns: Sequence[Any], tags: Iterable[Sequence[str]]) -> int:
    return hash_of(json.dumps([*columns, sorted(map(list, tags))]).encode())


_TAGS = TAGS.format("asset")
_AT_HUB = (
    f"SELECT r.id, {ASSET_COLUMNS}, r.created_at, r.updated_at, {_TAGS}, "
    "ifnull((SELECT peer FROM mirror WHERE record_id = r.id), 0) FROM asset r "
    "WHERE r.id BETWEEN ? AND ? AND +r.organization_id = ? AND r.deleted_at IS NULL"
)
_AT_SITE = (
    f"SELECT link.remote_id, {ASSET_COLUMNS}, ifnull(link.created_at, r.created_at), r.updated_at, {_TAGS} "
    "FROM link JOIN mirror ON mirror.record_id = link.local_id AND mirror.peer = 0 "
    "JOIN asset r ON r.id = link.local_id "
    "WHERE link.peer = 0 AND link.remote_id BETWEEN ? AND ? AND +r.organization_id = ? AND r.deleted_at IS NULL"
)
_STORED = "SELECT range FROM copy_digest WHERE organization_id = ?"
_TOTALS = "SELECT range, totals FROM copy_digest WHERE organization_id = ? AND range BETWEEN ? AND ?"
