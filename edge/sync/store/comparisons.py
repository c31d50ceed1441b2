"""Digests that compare a site's records, its copies of the hub's assets, and its passages, as a table of kinds.

Both ends sum up the hashes of rows in buckets by the site's ids, or for copies the hub's. Then they compare the rows of
the buckets that differ. A record takes about 0.01 ms. For the history see `digests`.

Excluded are the name of the home, deleted copies, and the door and asset of a passage, which never change. The sums of
passages find accidental differences only; whoever can write passages can also change them openly.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from edge.database.change_log import Kind
from edge.database.connection import column, execute, reading, scalar
from edge.sync.store import record_lines
from edge.sync.store.digests import Digest, Scope, hash_of, sum_up
from edge.sync.store.exchange import HUB, AssetRecord, LocationRecord, Record
from edge.sync.store.record_copies import originals_in_conflicts
from edge.sync.store.record_lines import BY_LINK, Naming
from edge.validation import json_text

RECORDS, COPIES, PASSAGES = "records", "copies", "passages"
MOST_UNSETTLED = 5_000  # assets in conflict; with more, a hub compares no copies
FOREVER = 2**62  # µs
BUCKETS_OF_RECORDS = 64
RANGE_BITS = 45  # of an id within a bucket of copies
PASSAGE_BITS = 10  # of a number within a bucket of passages

Row = tuple[int, ...]  # id or number, for records the kind, and the hash


class Terms(NamedTuple):
    """What both ends agree on: columns besides those of version 1, ids that are left out, and the period of passages.

    These are at or after `since`, and neither at nor decided after `until` (µs).
    """

    columns: Sequence[str] = ()
    without: Collection[int] = ()
    since: int = 0
    until: int = FOREVER


class Compared(NamedTuple):
    """A kind: its last bucket, how many are read at once and in one answer, and the function that reads their rows."""

    last: int
    step: int
    page: int
    read: Callable[[Scope, str, Terms, int, int], Iterable[tuple[int, Row]]]


def by_bucket(
    of: str, scope: Scope, code: str, terms: Terms, first: int, last: int, seconds: float
) -> tuple[dict[int, Digest], int]:
    """Return the digests of some buckets, and the last bucket that was read in time.

    `code` is the site's, which begins the keys of its locations at a hub.
    """
    kind, digests, until = KINDS[of], dict[int, Digest](), first - 1
    ends_at, without = time.monotonic() + seconds, set(terms.without)
    with reading():
        while until < last and (until < first or time.monotonic() < ends_at):
            begin, until = until + 1, min(until + kind.step, last)
            rows = kind.read(scope, code, terms, begin, until)
            digests |= sum_up((bucket, row[-1]) for bucket, row in rows if row[0] not in without)
    return digests, until


def in_buckets(of: str, scope: Scope, code: str, terms: Terms, buckets: Collection[int]) -> list[Row]:
    """Return the rows of these buckets."""
    kind = KINDS[of]
    spans = [(0, kind.last)] if kind.step > kind.last else [(bucket, bucket) for bucket in buckets]
    with reading():
        rows = [pair for span in spans for pair in kind.read(scope, code, terms, *span)]
    return [row for bucket, row in rows if bucket in buckets]


def _records(scope: Scope, code: str, terms: Terms, *_: int) -> Iterator[tuple[int, Row]]:
    yield from _of_kind(AssetRecord, scope, code, terms)
    yield from _of_kind(LocationRecord, scope, code, terms)


def _of_kind(kind: type[Record], scope: Scope, code: str, terms: Terms) -> Iterator[tuple[int, Row]]:
    """Yield this machine's own records, or at a hub those of a site. A record may have several ids there."""
    table, number = record_lines.table_of(kind), Kind.ASSET if kind is AssetRecord else Kind.LOCATION
    kept: Mapping[int, Record] = {}
    if scope.site_no is None:
        found = record_lines.read(kind, Naming(), _OWN.format(table), (scope.organization_id,))
    else:
        naming = BY_LINK[kind]._replace(ref="min(link.remote_id)")
        found = record_lines.read(kind, naming, _OF_SITE.format(table), record_lines.of_site(scope.site_no, code))
        kept = originals_in_conflicts(scope.site_no, kind)
    for copy in found:
        record = kept.get(copy.ref, copy)
        line = [number, *record[: record._fields.index("tags")]]
        yield record.ref % BUCKETS_OF_RECORDS, (record.ref, number, _hash(record, line, terms))


def _copies(scope: Scope, _: str, terms: Terms, first: int, last: int) -> Iterator[tuple[int, Row]]:
    """Yield the assets of a hub except those of the site, or their copies at the site.

    A copy in conflict is incomplete there, so its original counts.
    """
    span = (first << RANGE_BITS, ((last + 1) << RANGE_BITS) - 1, scope.organization_id)
    if scope.site_no is not None:
        found = record_lines.read(AssetRecord, Naming(), _ASSETS_FOR_SITE, (*span, scope.site_no))
        records: Iterable[AssetRecord] = found
    else:
        copies = {one.ref: one for one in record_lines.read(AssetRecord, BY_LINK[AssetRecord], _COPIED, span)}
        records = (copies | originals_in_conflicts(HUB, AssetRecord, span[:2])).values()
    for record in records:
        if record.deleted_at is None:
            line = record[: record._fields.index("deleted_at")]
            yield record.ref >> RANGE_BITS, (record.ref, _hash(record, line, terms))


def _hash(record: Record, line: Sequence[object], terms: Terms) -> int:
    more = [record.more.get(name) for name in terms.columns]
    return hash_of(json.dumps([*line, sorted(map(list, record.tags)), *more]).encode())


def _passages(scope: Scope, _: str, terms: Terms, first: int, last: int) -> Iterator[tuple[int, Row]]:
    is_own = scope.site_no is None
    number = "no" if is_own else "remote_no"  # a number that a restored site used again is negative, and in no bucket
    rows = execute(
        f"SELECT {number} >> ?, {number}, {_SUM} * (1 + {number} % 8191) FROM passage WHERE "
        f"{'organization_id = ? AND site_no IS NULL' if is_own else 'site_no = ?'} "
        f"AND {number} >= ? AND {number} < ? AND at >= ? AND max(at, decided_at) <= ?",
        (
            *(PASSAGE_BITS, scope.organization_id if is_own else scope.site_no),
            *(first << PASSAGE_BITS, (last + 1) << PASSAGE_BITS, terms.since, terms.until),
        ),
    )
    yield from ((bucket, (no, value)) for bucket, no, value in rows)


_PRIME = 2**31 - 1
_SUMMED = ("at", "direction", "confidence", "inner_reads", "outer_reads", "since", "until", "decided_at", "revision")
# Weighted sums stay far below 2^63, where SQLite would continue with inexact numbers.
_WEIGHTED = " + ".join(f"({name} % {_PRIME}) * {weight}" for weight, name in enumerate(_SUMMED, start=3))
_SUM = f"(({_WEIGHTED}) % {_PRIME})"
_OWN = "FROM {0} r WHERE r.organization_id = ? AND NOT EXISTS (SELECT 1 FROM mirror WHERE record_id = r.id)"
_OF_SITE = (
    "FROM link JOIN mirror m ON m.record_id = link.local_id AND m.peer = :site_no JOIN {0} r ON r.id = link.local_id "
    "WHERE link.peer = :site_no AND link.remote_id > 0 GROUP BY r.id"
)
_ASSETS_FOR_SITE = (
    "FROM asset r WHERE r.id BETWEEN ? AND ? AND +r.organization_id = ? AND r.deleted_at IS NULL "
    "AND NOT EXISTS (SELECT 1 FROM mirror WHERE record_id = r.id AND peer = ?)"
)
_COPIED = (
    "FROM link JOIN mirror ON mirror.record_id = link.local_id AND mirror.peer = 0 "
    "JOIN asset r ON r.id = link.local_id "
    "WHERE link.peer = 0 AND link.remote_id BETWEEN ? AND ? AND +r.organization_id = ? AND r.deleted_at IS NULL"
)
KINDS = {
    RECORDS: Compared(BUCKETS_OF_RECORDS - 1, BUCKETS_OF_RECORDS, BUCKETS_OF_RECORDS, _records),
    COPIES: Compared((1 << (53 - RANGE_BITS)) - 1, 1, 1 << (53 - RANGE_BITS), _copies),
    PASSAGES: Compared(2**40, 256, 256, _passages),
}


def further_columns(of: str) -> list[str]:
    """Return the columns besides those of version 1 that this box can compare."""
    kinds: dict[str, tuple[type[Record], ...]] = {RECORDS: (AssetRecord, LocationRecord), COPIES: (AssetRecord,)}
    return sorted({name for kind in kinds.get(of, ()) for name in record_lines.further(kind)})


def last_bucket(of: str, scope: Scope) -> int:
    """Return the last bucket that this site has rows in, or may have."""
    if of != PASSAGES:
        return KINDS[of].last
    sql = "SELECT ifnull(max(no), 0) FROM passage WHERE organization_id = ? AND site_no IS NULL"
    return scalar(sql, (scope.organization_id,)) >> PASSAGE_BITS


def unsettled(organization_id: int) -> list[int]:
    """Return the assets of this hub in conflict, which are not sent to sites."""
    return column(
        "SELECT DISTINCT link.local_id FROM conflict JOIN link USING (peer, remote_id) "
        "JOIN asset ON asset.id = link.local_id AND asset.organization_id = ? LIMIT ?",
        (organization_id, MOST_UNSETTLED + 1),
    )


# Names and times of differing rows, at a site ----------------------------------------------------------------------


def keys_of(organization_id: int, ids: Iterable[int]) -> dict[int, tuple[str, int]]:
    """Return the external keys of this site's records and their creation times, by id. A time may be ahead."""
    sql = (
        "SELECT id, external_key, created_at FROM {0} "
        "WHERE +organization_id = ?1 AND id IN (SELECT value FROM json_each(?2))"
    )
    rows = execute(
        f"{sql.format('asset')} UNION ALL {sql.format('location')}", (organization_id, json.dumps(list(ids)))
    )
    return {record_id: (key, created_at) for record_id, key, created_at in rows}


def keys_of_copies(refs: Iterable[int]) -> dict[int, tuple[str, int]]:
    """Return the keys of this site's copies and the times of their creation, or 0, by the hub's ids."""
    rows = execute(
        "SELECT remote_id, external_key, ifnull(link.created_at, 0) FROM link JOIN asset ON asset.id = local_id "
        "WHERE peer = 0 AND remote_id IN (SELECT value FROM json_each(?))",
        (json.dumps(list(refs)),),
    )
    return {ref: (key, created_at) for ref, key, created_at in rows}


def passages(numbers: Collection[int]) -> dict[int, tuple[int, str]]:
    """Return the time (µs) and the external key of the asset of this site's passages, by number."""
    rows = execute(
        "SELECT no, at, external_key FROM passage JOIN asset ON asset.id = asset_id "
        "WHERE no IN (SELECT value FROM json_each(?))",
        (json_text.text(sorted(numbers)),),
    )
    return {no: (at, key) for no, at, key in rows}
