"""Rows of PostgreSQL, lent to statements of the database file.

A list of stays joins records, which are in the file. So the stays that it needs are copied to a temporary table of the
same name as the empty one of the file, for as long as the statement runs. SQLite prefers temporary tables.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from edge.database.connection import execute, execute_many
from edge.errors import HistoryUnavailable
from edge.memory_budget import WORK
from edge.tracking.past_levels import PAST_LEVELS, past_width
from edge.tracking.postgres.pool import PART, fetch, fetch_in_parts

Row = tuple[Any, ...]

_TABLE = """
CREATE TEMP TABLE IF NOT EXISTS history (
    position_no INTEGER NOT NULL, observed_at INTEGER NOT NULL, seq INTEGER NOT NULL, seen_for INTEGER NOT NULL,
    source_no INTEGER NOT NULL, delay INTEGER NOT NULL, quality INTEGER NOT NULL, rule INTEGER NOT NULL, rssi INTEGER,
    PRIMARY KEY (position_no, observed_at, seq)
) WITHOUT ROWID
"""
_COLUMNS = "s.track, s.observed_at, s.seq, s.seen_for, s.source, s.delay, s.quality, s.rule, s.rssi"
EARLIEST, LATEST = -(2**62), 2**62


MOST_LENT = 1_000_000  # rows
BYTES_OF_ROW = 50
TOO_MANY = f"The history is in PostgreSQL, and this is about more than {MOST_LENT:,} stays. Choose a shorter period"
BUSY = "The history is in PostgreSQL, and others are reading much of it. Try again"


@contextmanager
def lent(rows: Iterable[Row]) -> Iterator[None]:
    """Lend rows to the statements of this thread. They count toward the memory budget.

    Raises HistoryUnavailable if there are too many.
    """
    execute("PRAGMA temp.auto_vacuum = 1")  # returns the memory, which each thread would keep otherwise
    execute(_TABLE)
    reserved: list[int] = []
    try:
        execute_many("INSERT INTO temp.history VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", _within_budget(rows, reserved))
        yield
    finally:
        execute("DELETE FROM temp.history")
        WORK.give_back(sum(reserved))


def _within_budget(rows: Iterable[Row], reserved: list[int]) -> Iterator[Row]:
    """Yield the rows, and reserve memory for each part of them."""
    for number, row in enumerate(rows):
        if number and number % PART == 0:
            if number >= MOST_LENT:
                raise HistoryUnavailable(TOO_MANY)
            if not WORK.take(PART * BYTES_OF_ROW):
                raise HistoryUnavailable(BUSY)
            reserved.append(PART * BYTES_OF_ROW)
        yield row


def count_partitions() -> int:
    """Return the number of partitions of the stays, which shows that PostgreSQL answers."""
    number: int = fetch("SELECT count(*) FROM pg_inherits WHERE inhparent = 'stay'::regclass", {})[0][0]
    return number


def has_none() -> bool:
    """Return whether there are no rows at all."""
    return not fetch("SELECT 1 FROM stay LIMIT 1", {})


_PERIOD = f"""
SELECT {_COLUMNS} FROM unnest(%(tracks)s::bigint[]) AS t(no) CROSS JOIN LATERAL (
    SELECT * FROM stay WHERE track = t.no AND observed_at < %(until)s AND observed_at >= coalesce((
        SELECT observed_at FROM stay WHERE track = t.no AND observed_at <= %(since)s
        ORDER BY observed_at DESC LIMIT 1), %(since)s)
    ORDER BY observed_at DESC, seq DESC LIMIT %(most)s
) s
"""


def of_period(tracks: Collection[int], since: int, until: int = LATEST, most: int | None = None) -> Iterator[Row]:
    """Yield the rows of tracks that began in a period, with the one in progress when it begins.

    With `most`, only the newest ones of each track.
    """
    return fetch_in_parts(_PERIOD, {"tracks": list(tracks), "since": since, "until": until, "most": most})


_NEWEST = f"""
SELECT {_COLUMNS} FROM unnest(%(tracks)s::bigint[]) AS t(no) CROSS JOIN LATERAL (
    SELECT * FROM stay WHERE track = t.no AND observed_at < %(before)s
    ORDER BY observed_at DESC, seq DESC LIMIT %(most)s
) s
"""


def newest(tracks: Collection[int], most: int | None, before: int = LATEST) -> Iterator[Row]:
    """Yield the newest rows of each track that began before a moment, all if `most` is None."""
    return fetch_in_parts(_NEWEST, {"tracks": list(tracks), "most": most, "before": before})


_COUNT = "SELECT count(*) FROM stay WHERE track = ANY(%(tracks)s) AND observed_at BETWEEN %(since)s AND %(until)s"
_PAGE = f"""
SELECT {_COLUMNS} FROM stay s WHERE track = ANY(%(tracks)s) AND observed_at BETWEEN %(since)s AND %(until)s
ORDER BY observed_at {{0}}, seq {{0}} LIMIT %(limit)s OFFSET %(offset)s
"""
_BEFORE = f"""
SELECT {_COLUMNS} FROM stay s WHERE track = ANY(%(tracks)s) AND (observed_at, seq) < (%(at)s, %(seq)s)
ORDER BY observed_at DESC, seq DESC LIMIT 1
"""


def count(tracks: Sequence[int], since: int | None, until: int | None) -> int:
    """Return the number of rows that began in a period, both ends included."""
    number: int = fetch(_COUNT, {"tracks": list(tracks), **_bounds(since, until)})[0][0]
    return number


def page(
    tracks: Sequence[int], since: int | None, until: int | None, limit: int, offset: int, *, newest_first: bool
) -> list[Row]:
    """Return a page of the rows that began in a period, and the row before its oldest one."""
    values = {"tracks": list(tracks), **_bounds(since, until), "limit": limit, "offset": offset}
    rows = fetch(_PAGE.format("DESC" if newest_first else "ASC"), values)
    if rows:
        oldest = rows[-1] if newest_first else rows[0]
        rows += fetch(_BEFORE, {"tracks": list(tracks), "at": oldest[1], "seq": oldest[2]})
    return rows


def _bounds(since: int | None, until: int | None) -> dict[str, int]:
    return {"since": EARLIEST if since is None else since, "until": LATEST if until is None else until}


_OF_TRACKS = f"""
SELECT {_COLUMNS} FROM stay s WHERE track = ANY(%(tracks)s) AND observed_at >= %(since)s AND observed_at < %(until)s
  AND (track, observed_at, seq) > (%(track)s, %(at)s, %(seq)s)
ORDER BY track, observed_at, seq LIMIT %(limit)s
"""


def of_tracks(
    tracks: Sequence[int], after: tuple[int, int, int], limit: int, since: int = EARLIEST, until: int = LATEST
) -> list[Row]:
    """Return the next rows of these tracks that began in a period, by key: track, begin, number."""
    if not tracks:
        return []
    values = {"tracks": list(tracks), "track": after[0], "at": after[1], "seq": after[2]}
    return fetch(_OF_TRACKS, {**values, "since": since, "until": until, "limit": limit})


_SHORT_PERIOD = f"""
SELECT {_COLUMNS} FROM stay s
WHERE to_timestamp(observed_at / 1000000.0) >= to_timestamp(%(since)s / 1000000.0)
  AND to_timestamp(observed_at / 1000000.0) <= to_timestamp(%(until)s / 1000000.0)
  AND observed_at >= %(since)s AND observed_at < %(until)s LIMIT %(limit)s
"""
_EARLIEST_TIME, _LATEST_TIME = -(10**16), 10**17  # that PostgreSQL can convert


def of_short_period(since: int, until: int, most: int) -> list[Row] | None:
    """Return the rows of all tracks that began in a period, in any order; None if they are more than `most`."""
    values = {"since": max(since, _EARLIEST_TIME), "until": min(until, _LATEST_TIME), "limit": most + 1}
    rows = fetch(_SHORT_PERIOD, values)
    return rows if len(rows) <= most else None


_OLDEST = f"""
SELECT {_COLUMNS} FROM unnest(%(tracks)s::bigint[]) AS t(no) CROSS JOIN LATERAL (
    SELECT * FROM stay WHERE track = t.no AND observed_at > %(after)s ORDER BY observed_at, seq LIMIT %(most)s
) s
"""


def oldest(tracks: Sequence[int], most: int, after: int = EARLIEST) -> list[Row]:
    """Return the first rows of each track that began after a moment."""
    return fetch(_OLDEST, {"tracks": list(tracks), "most": most, "after": after}) if tracks else []


_WITHIN = f"""
SELECT {_COLUMNS} FROM unnest(%(tracks)s::bigint[], %(since)s::bigint[], %(until)s::bigint[]) AS k(track, since, until)
CROSS JOIN LATERAL (SELECT * FROM stay WHERE track = k.track AND observed_at BETWEEN k.since AND k.until) s
"""


def within(ranges: Sequence[tuple[int, int, int]]) -> list[Row]:
    """Return the rows that began in these ranges, which do not overlap: track, first time, last time."""
    if not ranges:
        return []
    tracks, since, until = ([one[column] for one in ranges] for column in range(3))
    return fetch(_WITHIN, {"tracks": tracks, "since": since, "until": until})


# The rows at an instant, at the instant before, and the one after, which says whether they are the newest.
_AROUND = f"""
SELECT DISTINCT {_COLUMNS}
FROM unnest(%(tracks)s::bigint[], %(times)s::bigint[]) AS k(track, at) CROSS JOIN LATERAL (
    SELECT * FROM stay WHERE track = k.track AND observed_at = k.at
    UNION ALL
    SELECT * FROM stay WHERE track = k.track AND observed_at = (
        SELECT observed_at FROM stay WHERE track = k.track AND observed_at < k.at ORDER BY observed_at DESC LIMIT 1)
    UNION ALL
    (SELECT * FROM stay WHERE track = k.track AND observed_at > k.at ORDER BY observed_at, seq LIMIT 1)
) s
"""


def around(instants: Sequence[Sequence[int]]) -> list[Row]:
    """Return the rows that began at these instants (track, time), at the instants before them, and their next rows."""
    if not instants:
        return []
    return fetch(_AROUND, {"tracks": [track for track, _ in instants], "times": [at for _, at in instants]})


_LASTING = """
SELECT {0} s.track FROM unnest(%(places)s::bigint[], %(since)s::bigint[], %(until)s::bigint[]) AS r(place, since, until)
CROSS JOIN LATERAL (
    SELECT track FROM stay WHERE source * {1} + level = r.place AND observed_at > r.since AND observed_at < r.until
      AND until > %(after)s
) s LIMIT %(most)s
"""
_SEEN_LATER = """
SELECT s.track FROM unnest(%(levels)s::int[], %(until)s::bigint[]) AS r(level, until) CROSS JOIN LATERAL (
    SELECT track FROM stay WHERE stay.level = r.level AND observed_at + seen_for >= %(at)s
      AND observed_at + seen_for <= r.until AND observed_at <= %(at)s AND until > %(at)s
) s LIMIT %(most)s
"""


def tracks_at(sources: Collection[int], since: int, until: int, most: int | None = None) -> list[int]:
    """Return tracks with an ended stay at these sources that began before `until` and lasted beyond `since`.

    A track is returned once if `most` is None.
    """
    pairs = [(source, level) for source in sources for level in range(PAST_LEVELS)]
    values = {
        "places": [source * PAST_LEVELS + level for source, level in pairs],
        "since": [since - past_width(level) for _, level in pairs],
        "until": [until] * len(pairs),
        "after": since,
        "most": most,
    }
    return [no for (no,) in fetch(_LASTING.format("DISTINCT" if most is None else "", PAST_LEVELS), values)]


def tracks_seen_around(at: int, most: int) -> list[int]:
    """Return at most this many tracks with an ended stay that was seen both before and after a moment."""
    levels = list(range(PAST_LEVELS))
    values = {"levels": levels, "until": [at + past_width(level) for level in levels], "at": at, "most": most}
    return [no for (no,) in fetch(_SEEN_LATER, values)]


_SEEN_BEFORE = """
SELECT observed_at + seen_for, track FROM stay WHERE level = %(level)s
  AND observed_at + seen_for > %(after)s AND observed_at + seen_for < %(before)s
  AND observed_at <= %(at)s AND until > %(at)s
ORDER BY observed_at + seen_for {0} FETCH FIRST %(rows)s ROWS WITH TIES
"""
_FIRST_PAGE = 50  # rows


def last_seen_before(at: int, level: int, *, descending: bool) -> Iterator[tuple[int, int]]:
    """Yield when stays of a level that lasted at a moment had been seen last before it, in order, with their tracks."""
    after, before, rows = at - past_width(level), at, _FIRST_PAGE
    sql = _SEEN_BEFORE.format("DESC" if descending else "")
    while True:
        page = fetch(sql, {"level": level, "after": after, "before": before, "at": at, "rows": rows})
        yield from page
        if len(page) < rows:
            return
        after, before = (after, page[-1][0]) if descending else (page[-1][0], before)
        rows = min(rows * 4, PART)


OF_NUMBERS = f"SELECT {_COLUMNS} FROM stay s WHERE track BETWEEN %(first)s AND %(last)s"

_EXTENT = """
SELECT min(first.observed_at), max(last.observed_at) FROM unnest(%(tracks)s::bigint[]) AS t(no)
CROSS JOIN LATERAL (SELECT observed_at FROM stay WHERE track = t.no ORDER BY observed_at LIMIT 1) first
CROSS JOIN LATERAL (SELECT observed_at FROM stay WHERE track = t.no ORDER BY observed_at DESC LIMIT 1) last
"""


def extent(tracks: Collection[int]) -> tuple[int, int] | None:
    """Return the begin of the oldest and of the newest row of these tracks."""
    oldest, newest_at = fetch(_EXTENT, {"tracks": list(tracks)})[0]
    return None if oldest is None else (oldest, newest_at)


# The first row after the last one elsewhere. `place` has the sources at each location.
_ARRIVALS = """
WITH place AS MATERIALIZED (
    SELECT * FROM unnest(%(places)s::bigint[], %(sources)s::bigint[]) AS p(location, source)
)
SELECT (SELECT own.observed_at FROM stay own WHERE own.track = k.track AND (own.observed_at, own.seq) > (
           coalesce(elsewhere.observed_at, %(earliest)s), coalesce(elsewhere.seq, 0))
        ORDER BY own.observed_at, own.seq LIMIT 1)
FROM unnest(%(tracks)s::bigint[], %(times)s::bigint[], %(locations)s::bigint[])
    WITH ORDINALITY AS k(track, at, location, number)
LEFT JOIN LATERAL (
    SELECT last.observed_at, last.seq
    FROM unnest(%(numbers)s::bigint[], %(every)s::bigint[]) AS own(number, track)
    CROSS JOIN LATERAL (
        SELECT other.observed_at, other.seq FROM stay other
        WHERE other.track = own.track AND other.observed_at <= k.at
          AND NOT EXISTS (SELECT 1 FROM place p WHERE p.location = k.location AND p.source = other.source)
        ORDER BY other.observed_at DESC, other.seq DESC LIMIT 1
    ) last
    WHERE own.number = k.number - 1 ORDER BY last.observed_at DESC, last.seq DESC LIMIT 1
) elsewhere ON true
ORDER BY k.number
"""


def arrivals(
    stays: Sequence[tuple[int, int, int]], tracks: Sequence[tuple[int, int]], sources: Sequence[tuple[int, int]]
) -> list[int | None]:
    """Return when the assets of these stays (track, begin, location) arrived.

    `tracks`: (index of the stay, each track of its asset). `sources`: (location, source).
    """
    values = {
        "tracks": [track for track, _, _ in stays],
        "times": [at for _, at, _ in stays],
        "locations": [location for _, _, location in stays],
        "numbers": [number for number, _ in tracks],
        "every": [track for _, track in tracks],
        "places": [location for location, _ in sources],
        "sources": [source for _, source in sources],
        "earliest": EARLIEST,
    }
    return [at for (at,) in fetch(_ARRIVALS, values)]
