"""Digests that compare the passages of a site with their copies at the hub.

Passages are summed up in buckets by the site's numbers. The door and the asset are excluded: a passage never changes
them. The sums find accidental differences only; whoever can write passages can also change them openly.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple

from edge.database.connection import execute
from edge.sync.store.digests import Digest, Scope
from edge.validation import json_text

BUCKET_BITS = 10  # passages in a bucket: 1,024
BUCKETS_AT_ONCE = 256  # about 0.3 s at a small box
FOREVER = 2**62  # µs

_PRIME = 2**31 - 1
_COLUMNS = ("at", "direction", "confidence", "inner_reads", "outer_reads", "since", "until", "decided_at", "revision")
# Weighted sums stay far below 2^63, where SQLite would continue with inexact numbers.
_WEIGHTED = " + ".join(f"({name} % {_PRIME}) * {weight}" for weight, name in enumerate(_COLUMNS, start=3))
_VALUE = f"(({_WEIGHTED}) % {_PRIME})"
_IN_PERIOD = "at >= ? AND max(at, decided_at) <= ?"


class Times(NamedTuple):
    """The passages to compare: at or after `since`, and neither at nor decided after `until` (µs)."""

    since: int
    until: int


class BucketPage(NamedTuple):
    """Digests by bucket, and the next bucket to ask for. None after the last one."""

    by_bucket: dict[int, Digest]
    following: int | None


def by_bucket(scope: Scope, times: Times, first: int) -> BucketPage:
    """Return the digests of the buckets from `first` on, of passages in a period."""
    number, of_box = _source(scope)
    begin, end = first << BUCKET_BITS, (first + BUCKETS_AT_ONCE) << BUCKET_BITS
    rows = execute(
        f"SELECT {number} >> {BUCKET_BITS}, count(*), sum({_VALUE} * (1 + {number} % 8191)) FROM passage "
        f"WHERE {of_box} AND {number} >= ? AND {number} < ? AND {_IN_PERIOD} GROUP BY 1",
        (*_values(scope), begin, end, *times),
    )
    digests = {bucket: (count, total) for bucket, count, total in rows}
    newest = execute(f"SELECT max({number}) FROM passage WHERE {of_box}", _values(scope)).fetchone()[0] or 0
    return BucketPage(digests, first + BUCKETS_AT_ONCE if newest >= end else None)


def in_buckets(scope: Scope, times: Times, buckets: Iterable[int]) -> dict[int, int]:
    """Return the sums of single passages by the site's number."""
    number, of_box = _source(scope)
    sums: dict[int, int] = {}
    for bucket in buckets:
        rows = execute(
            f"SELECT {number}, {_VALUE} FROM passage "
            f"WHERE {of_box} AND {number} >= ? AND {number} < ? AND {_IN_PERIOD}",
            (*_values(scope), bucket << BUCKET_BITS, (bucket + 1) << BUCKET_BITS, *times),
        )
        sums |= dict(rows.fetchall())
    return sums


def names(numbers: Collection[int]) -> dict[int, tuple[int, str]]:
    """Return the time (µs) and the external key of the asset of this machine's passages, by number."""
    rows = execute(
        "SELECT no, at, external_key FROM passage JOIN asset ON asset.id = asset_id "
        "WHERE no IN (SELECT value FROM json_each(?))",
        (json_text.text(sorted(numbers)),),
    )
    return {no: (at, key) for no, at, key in rows}


def _source(scope: Scope) -> tuple[str, str]:
    """Return the column with the site's numbers, and the condition for the passages of the scope."""
    if scope.site_no is None:
        return "no", "organization_id = ? AND site_no IS NULL"
    return "remote_no", "site_no = ?"  # a number that a restored site used again is negative, and in no bucket


def _values(scope: Scope) -> tuple[int, ...]:
    return (scope.organization_id,) if scope.site_no is None else (scope.site_no,)
