"""Who is safe in an open muster, from positions.

A person is safe while the newest position is at a muster point and its read was made after the start, by its own time.
Nobody becomes safe by a read that may be older: by one known at the start, at any time of the clock, or by one without
a time of its own from a reader that was away at the start and may send old messages first.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from edge.clock import SECOND
from edge.database.connection import execute
from edge.records import location_tree
from edge.tracking import report
from edge.tracking.report import Sighting
from edge.tracking.stays import Quality

CONNECTED = 60 * SECOND  # a reader that sent a message this long before the start was connected at the start
CONFIRMED = 60 * SECOND  # reads that may be old count if they go on for this long
SETTLED = 120.0  # seconds after the start of the service, in which the broker may still send old messages
_TRUSTED = frozenset({Quality.READER, Quality.CORRECTED, Quality.HANDHELD})
_began = time.monotonic()


class Person(NamedTuple):
    """A person of a muster. `result` is safe or missing; `how` is hand, point, left (was at a muster point, then read
    elsewhere), unsure (read at a muster point, perhaps earlier) or empty. `ticked_by` is the warden.
    """

    asset_id: int
    asset_key: str
    name: str
    result: str
    how: str
    place: str
    seen_at: int | None
    ticked_by: str | None = None
    ticked_at: int | None = None

    @property
    def is_safe(self) -> bool:
        return self.result == "safe"


class PointReader(NamedTuple):
    id: int
    name: str
    last_message_at: int | None
    is_reported_offline: bool
    has_clock: bool

    def is_offline(self, silent_for: int, now: int) -> bool:
        """Return True if it said so, or sent nothing for `silent_for` microseconds."""
        return self.is_reported_offline or self.last_message_at is None or self.last_message_at < now - silent_for


class Point(NamedTuple):
    """A muster point with the readers at it and below."""

    location_id: int
    name: str
    readers: Sequence[PointReader]


class Terms(NamedTuple):
    """Grounds on which the reads of a muster are judged. `scope`: the locations of reads that are at a muster point or
    below; `doubtful`: those with a reader whose reads may be old.
    """

    started_at: int
    scope: frozenset[int]
    doubtful: frozenset[int]


_READERS = """
WITH spot (reader_id, location_id) AS (
    SELECT id, location_id FROM reader WHERE organization_id = :organization_id
    UNION SELECT a.reader_id, a.location_id FROM antenna a JOIN reader r ON r.id = a.reader_id
    WHERE r.organization_id = :organization_id AND a.is_enabled = 1
)
SELECT spot.location_id, r.id, r.name, s.last_heard_at, ifnull(s.is_offline, 0),
       s.clock_offset IS NOT NULL AND s.clock_stands_at IS NULL AND r.clock_setting <> 'receipt'
FROM spot JOIN reader r ON r.id = spot.reader_id AND r.deleted_at IS NULL AND r.is_enabled = 1
LEFT JOIN reader_state s ON s.reader_id = r.id
ORDER BY r.name, r.id
"""


def points_at(organization_id: int, places: Sequence[tuple[int, str]]) -> list[Point]:
    """Return muster points with their readers, as they are now. `places`: ids and names."""
    rows = execute(_READERS, {"organization_id": organization_id}).fetchall()
    spots = {row[0] for row in rows if row[0] is not None}
    over = location_tree.tops_over(spots, frozenset(place_id for place_id, _ in places))
    readers: dict[int, dict[int, PointReader]] = {place_id: {} for place_id, _ in places}
    for location_id, reader_id, reader, last_message_at, is_offline, has_clock in rows:
        for place_id in over.get(location_id, ()):
            one = PointReader(reader_id, reader, last_message_at, bool(is_offline), bool(has_clock))
            readers[place_id][reader_id] = one
    return [Point(place_id, name, list(readers[place_id].values())) for place_id, name in places]


def connected_readers(points: Sequence[Point], now: int) -> set[int]:
    """Return the readers that are connected now: their reads from now on are not old."""
    if time.monotonic() - _began < SETTLED:
        return set()
    return {reader.id for point in points for reader in point.readers if not reader.is_offline(CONNECTED, now)}


_PEOPLE = """
SELECT asset_id, asset_key, name, seen_before, ticked_at, ticked_by FROM muster_person WHERE muster_id = ?
ORDER BY name, asset_id
"""


def people_now(muster_id: int, started_at: int, points: Sequence[Point], connected: set[int]) -> list[Person]:
    """Return all people of an open muster, by name. `connected`: the readers that were connected at its start."""
    rows = execute(_PEOPLE, (muster_id,)).fetchall()
    sightings = report.sightings([row[0] for row in rows])
    places = {place for seen in sightings.values() for place in (seen.location_id, seen.before_location_id) if place}
    over = location_tree.tops_over(places, frozenset(point.location_id for point in points))
    doubtful = {
        point.location_id
        for point in points
        if any(not reader.has_clock and reader.id not in connected for reader in point.readers)
    }
    scope, unsure = {place for place in over if over[place]}, {place for place in over if over[place] & doubtful}
    terms = Terms(started_at, frozenset(scope), frozenset(unsure))
    return [_person(row, terms, sightings) for row in rows]


def _person(
    row: tuple[int, str, str, int, int | None, str | None], terms: Terms, sightings: Mapping[int, Sighting]
) -> Person:
    asset_id, key, name, seen_before, ticked_at, ticked_by = row
    seen = sightings.get(asset_id)
    how = _how(seen, seen_before, terms) if seen else ""
    place, seen_at = (seen.location_name, seen.last_seen_at) if seen else ("", None)
    if ticked_at is not None:
        return Person(asset_id, key, name, "safe", "hand", place, seen_at, ticked_by, ticked_at)
    return Person(asset_id, key, name, "safe" if how == "point" else "missing", how, place, seen_at)


def _how(seen: Sighting, seen_before: int, terms: Terms) -> str:
    since = max(terms.started_at, seen_before + 1)
    if seen.last_seen_at < since:
        return ""
    if seen.location_id not in terms.scope:
        return "left" if _was_at_point(seen, terms, since) else ""
    is_dated = seen.quality in _TRUSTED and seen.row_at >= since
    if is_dated or (seen.quality != Quality.UNTRUSTED and seen.location_id not in terms.doubtful):
        return "point"
    return "point" if seen.last_seen_at - max(seen.row_at, since) >= CONFIRMED else "unsure"


def _was_at_point(seen: Sighting, terms: Terms, since: int) -> bool:
    return seen.before_location_id in terms.scope and (seen.before_until or 0) >= since
