"""Do a site and its hub have the same history? Compared with two numbers for each day, then for each track of a day.

A digest is the number of rows and the sum of their hashes, so the order in which they are read does not matter. Both
sides hash the site's ids; people are left out, since they are sent with the handheld scans.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from hashlib import blake2b
from struct import Struct
from typing import NamedTuple

from edge import clock
from edge.database.connection import execute

Digest = tuple[int, int]  # rows, sum of their hashes

_ROW = Struct("<qqqqqqqqq")
_NO_RSSI = 2**62


class Days(NamedTuple):
    """Since the epoch (UTC), both included."""

    first: int
    last: int


ALL_DAYS = Days(-(10**6), 10**6)


class Of(NamedTuple):
    """Whose history: this box's own, or on a hub that of one of its sites."""

    organization_id: int
    site_no: int | None


def of_days(of: Of, days: Days) -> dict[int, Digest]:
    """By day."""
    until = (days.last + 1) * clock.DAY - 1
    return _add_up((row[1] // clock.DAY, row) for row in _rows(of, days.first * clock.DAY, until))


def of_tracks(of: Of, day: int) -> dict[int, Digest]:
    """By the site's number of the track, on one day."""
    return _add_up((row[0], row) for row in _rows(of, day * clock.DAY, (day + 1) * clock.DAY - 1))


def differing(ours: Mapping[int, Digest], theirs: Mapping[int, Digest]) -> list[int]:
    return sorted(key for key in {*ours, *theirs} if ours.get(key, (0, 0)) != theirs.get(key, (0, 0)))


def asset_names(tracks: Iterable[int]) -> dict[int, str]:
    """The keys of the assets of this box's tracks, for people."""
    found = execute(
        "SELECT t.no, a.external_key FROM track t JOIN asset a ON a.id = t.asset_id "
        "WHERE t.no IN (SELECT value FROM json_each(?))",
        (json.dumps(list(tracks)),),
    )
    return dict(found.fetchall())


Row = tuple[int, int, int, int, int, int, int, int, int | None]


def _add_up(rows: Iterable[tuple[int, Row]]) -> dict[int, Digest]:
    found: dict[int, Digest] = {}
    for key, (*numbers, rssi) in rows:
        packed = _ROW.pack(*numbers, _NO_RSSI if rssi is None else rssi)
        count, total = found.get(key, (0, 0))
        value = int.from_bytes(blake2b(packed, digest_size=6).digest())
        found[key] = (count + 1, (total + value) % 2**53)
    return found


def _rows(of: Of, since: int, until: int) -> Iterable[Row]:
    """Track by track, as history is stored; the origin of a row as one number."""
    origins = {no: _origin(facts) for no, *facts in execute(_ORIGINS, (of.site_no or 0, of.organization_id))}
    tracks = execute(_TRACKS, (of.organization_id, of.site_no)).fetchall()
    for no, remote_no in tracks:
        for at, seq, seen_for, source, delay, quality, rule, rssi in execute(_HISTORY, (no, since, until)):
            yield remote_no, at, seq, seen_for, origins[source], delay, quality, rule, rssi


def _origin(facts: list[int | None]) -> int:
    return int.from_bytes(blake2b(json.dumps(facts).encode(), digest_size=7).digest())


_ORIGINS = """
SELECT s.no,
       ifnull((SELECT min(remote_id) FROM link WHERE local_id = s.location_id AND peer = ?1), s.location_id),
       ifnull(s.reader_id, s.remote_reader), s.port
FROM source s WHERE s.organization_id = ?2
"""
_TRACKS = """
SELECT no, ifnull(remote_no, no) FROM track
WHERE organization_id = ?1 AND site_no IS ?2 AND ifnull(remote_no, 1) > 0
"""
_HISTORY = """
SELECT observed_at, seq, seen_for, source_no, delay, quality, rule, rssi FROM history
WHERE position_no = ? AND observed_at BETWEEN ? AND ?
"""
