"""Digests that compare the history of a site and its hub: first per day, then per track of a day.

A digest is the row count and the sum of the row hashes, so the order of reading does not matter. Both sides hash the
site's ids. People are excluded, since they are sent with the handheld scans.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from hashlib import blake2b
from struct import Struct
from typing import NamedTuple

from edge import clock
from edge.database.connection import execute
from edge.tracking import copies
from edge.tracking.copies import DigestRow

Digest = tuple[int, int]  # row count, sum of hashes

_ROW = Struct("<qqqqqqqqq")
_NO_RSSI = 2**62


class Days(NamedTuple):
    """Range of days since the epoch (UTC), inclusive."""

    first: int
    last: int


ALL_DAYS = Days(-(10**6), 10**6)


class Scope(NamedTuple):
    """The machine's own history, or on a hub the history of one site."""

    organization_id: int
    site_no: int | None


def by_day(scope: Scope, days: Days) -> dict[int, Digest]:
    """Return the digests by day."""
    until = (days.last + 1) * clock.DAY - 1
    return _add_up((row[1] // clock.DAY, row) for row in _rows(scope, days.first * clock.DAY, until))


def by_track(scope: Scope, day: int) -> dict[int, Digest]:
    """Return the digests of one day by the site's track number."""
    return _add_up((row[0], row) for row in _rows(scope, day * clock.DAY, (day + 1) * clock.DAY - 1))


def differing(ours: Mapping[int, Digest], theirs: Mapping[int, Digest]) -> list[int]:
    """Return the keys with different digests."""
    return sorted(key for key in {*ours, *theirs} if ours.get(key, (0, 0)) != theirs.get(key, (0, 0)))


def _add_up(rows: Iterable[tuple[int, DigestRow]]) -> dict[int, Digest]:
    digests: dict[int, Digest] = {}
    for key, (*numbers, rssi) in rows:
        packed = _ROW.pack(*numbers, _NO_RSSI if rssi is None else rssi)
        count, total = digests.get(key, (0, 0))
        value = int.from_bytes(blake2b(packed, digest_size=6).digest())
        digests[key] = (count + 1, (total + value) % 2**53)
    return digests


def _rows(scope: Scope, since: int, until: int) -> Iterable[DigestRow]:
    """Yield history rows in storage order, with the origin as one number."""
    origins = {no: _origin(columns) for no, *columns in execute(_ORIGINS, (scope.site_no or 0, scope.organization_id))}
    rows = copies.rows_for_digest(scope.organization_id, scope.site_no, since, until)
    for track, at, seq, seen_for, source, delay, quality, rule, rssi in rows:
        yield track, at, seq, seen_for, origins[source], delay, quality, rule, rssi


def _origin(columns: list[int | None]) -> int:
    return int.from_bytes(blake2b(json.dumps(columns).encode(), digest_size=7).digest())


_ORIGINS = """
SELECT s.no,
       ifnull((SELECT min(remote_id) FROM link WHERE local_id = s.location_id AND peer = ?1), s.location_id),
       ifnull(s.reader_id, s.remote_reader), s.port
FROM source s WHERE s.organization_id = ?2
"""
