"""A batch of a site in one transaction of PostgreSQL: its stays, and how far the site is.

The hub's own database is written before (records, tracks, sources) and after it (the cursor, counts of rows). What is
to be written afterwards commits with the stays, so a hub that dies in between does it later, once.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from psycopg.types.json import Jsonb

from edge import clock
from edge.tracking.postgres import pool, writers
from edge.tracking.postgres.bounded import Connection
from edge.tracking.postgres.pool import connected
from edge.tracking.postgres.replaced import Key, Replaced


class Effects(NamedTuple):
    """What the database of the hub has to do after a batch."""

    more_rows: Mapping[int, int]  # by track, which may be 0
    row_counts: Mapping[int, int]  # by track, of those that were counted
    gone_tracks: Sequence[int]
    days: Sequence[int]  # with changed rows
    replaced: Sequence[str] | None = None  # texts of `replaced`, if they were noted


class Committed(NamedTuple):
    """The last committed batch of a site. The cursors are in the form of `Cursor`, with the chain in hex."""

    base: list[Any]
    done: list[Any]
    horizon: int
    effects: Effects


class _Batch(threading.local):
    connection: Connection | None = None

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        self.more_rows: Counter[int] = Counter()
        self.counted: set[int] = set()
        self.days: set[int] = set()
        self.gone: list[int] = []
        self.replaced: Replaced | None = None


_batch = _Batch()


@contextmanager
def transaction(*, checks_writer: bool = True) -> Iterator[None]:
    """Run the functions below in one transaction, which `commit` commits.

    It checks first that this machine writes, unless it begins with the lock of a site, which does that.
    """
    pool.check_confirmed()
    with connected() as connection:
        connection.autocommit = False
        _batch.connection = connection
        _batch.begin()
        try:
            if checks_writer:
                writers.hold(connection)
            yield
        finally:
            _batch.connection = None
            if not connection.closed:
                connection.rollback()
                connection.autocommit = True


def note_replaced() -> None:
    """Keep with this batch which rows it changes, for the open feed and webhooks with EPCIS."""
    _batch.replaced = Replaced()


def _begun() -> Connection:
    if _batch.connection is None:
        raise RuntimeError("no batch is begun")
    return _batch.connection


def _run(sql: str, values: Mapping[str, Any] | None = None) -> list[tuple[Any, ...]]:
    """Run a statement within the batch, or on its own."""
    if _batch.connection is not None:
        cursor = _batch.connection.execute(sql.encode(), values)
        return cursor.fetchall() if cursor.description else []
    with connected() as connection:
        cursor = connection.execute(sql.encode(), values)
        return cursor.fetchall() if cursor.description else []


def _change(sql: str, values: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    """Run a statement that writes within the batch, or in a transaction of its own."""
    if _batch.connection is not None:
        return _run(sql, values)
    with transaction():
        rows = _run(sql, values)
        commit_rows()
    return rows


_WITHIN = """
SELECT s.track, s.observed_at, s.seq, s.observed_at + s.seen_for
FROM unnest(%(tracks)s::bigint[], %(since)s::bigint[], %(until)s::bigint[]) AS r(track, since, until)
CROSS JOIN LATERAL (
    SELECT * FROM stay WHERE track = r.track AND observed_at BETWEEN r.since AND r.until
) s
"""


def _ranges(ranges: Sequence[tuple[int, int, int]]) -> dict[str, str]:
    return {name: _array(one[column] for one in ranges) for column, name in enumerate(("tracks", "since", "until"))}


def _array(numbers: Iterable[int | None]) -> str:
    """Return an array as text, because psycopg looks for special characters in each number of a list."""
    return f"{{{str([*numbers])[1:-1].replace('None', 'NULL')}}}"


def keys_within(ranges: Sequence[tuple[int, int, int]], ended_from: int, most: int) -> set[Key] | None:
    """Return the keys of rows that begin in these ranges and end at or after `ended_from`.

    Returns None if at least `most` begin in these ranges.
    """
    rows = _run(f"{_WITHIN} LIMIT %(most)s", {**_ranges(ranges), "most": most})
    return None if len(rows) >= most else {(track, at, seq) for track, at, seq, end in rows if end >= ended_from}


def keys_after(track: int, after: tuple[int, int], until: int, limit: int) -> list[tuple[int, int, int]]:
    rows = _run(
        "SELECT observed_at, seq, observed_at + seen_for FROM stay WHERE track = %(track)s "
        "AND (observed_at, seq) > (%(at)s, %(seq)s) AND observed_at <= %(until)s ORDER BY observed_at, seq "
        "LIMIT %(limit)s",
        {"track": track, "at": after[0], "seq": after[1], "until": until, "limit": limit},
    )
    return [(at, seq, end) for at, seq, end in rows]


_DELETE = """
DELETE FROM stay s USING unnest(%(tracks)s::bigint[], %(times)s::bigint[], %(numbers)s::int[]) AS k(track, at, seq)
WHERE s.track = k.track AND s.observed_at = k.at AND s.seq = k.seq
"""
_NEXT = """
(SELECT observed_at FROM stay WHERE track = {0}.track AND (observed_at, seq) > ({0}.observed_at, {0}.seq)
 ORDER BY observed_at, seq LIMIT 1)
"""
# Arrays, because a COPY to a staging table takes a third more time for 2,000 rows, and twice as much for four.
_MERGE = f"""
WITH new (track, observed_at, seq, seen_for, source, delay, quality, rule, rssi) AS (
    SELECT * FROM unnest(
        %(tracks)s::bigint[], %(times)s::bigint[], %(numbers)s::int[], %(seen)s::bigint[], %(sources)s::bigint[],
        %(delays)s::bigint[], %(qualities)s::smallint[], %(rules)s::smallint[], %(rssi)s::smallint[])
)
INSERT INTO stay AS s (track, observed_at, seq, seen_for, source, delay, until, quality, rule, rssi)
SELECT track, observed_at, seq, seen_for, source, delay,
       least(lead(observed_at) OVER (PARTITION BY track ORDER BY observed_at, seq), {_NEXT.format("k")}),
       quality, rule, rssi
FROM new k
ON CONFLICT (track, observed_at, seq) DO UPDATE SET seen_for = excluded.seen_for, source = excluded.source,
    delay = excluded.delay, until = excluded.until, quality = excluded.quality, rule = excluded.rule,
    rssi = excluded.rssi
WHERE (s.seen_for, s.source, s.delay, s.until, s.quality, s.rule, s.rssi) IS DISTINCT FROM
    (excluded.seen_for, excluded.source, excluded.delay, excluded.until, excluded.quality, excluded.rule, excluded.rssi)
"""
_BEFORE = """
(SELECT * FROM stay WHERE track = k.track AND (observed_at, seq) < (k.observed_at, k.seq)
 ORDER BY observed_at DESC, seq DESC LIMIT 1) p
"""
# A stay ends where the next row of its track begins, so a row also changes the one before.
_END = """
UPDATE stay s SET until = e.until FROM ({0}) e
WHERE s.track = e.track AND s.observed_at = e.observed_at AND s.seq = e.seq
"""
# Usually there are none, and an update of no row takes PostgreSQL 1 ms, because it begins in each partition.
_OTHER_ENDS = f"""
SELECT p.track, p.observed_at, p.seq, k.observed_at
FROM unnest(%(tracks)s::bigint[], %(times)s::bigint[], %(numbers)s::int[]) AS k(track, observed_at, seq)
CROSS JOIN LATERAL {_BEFORE}
WHERE p.until IS DISTINCT FROM k.observed_at
"""
_SET_ENDS = _END.format("""
    SELECT * FROM unnest(%(tracks)s::bigint[], %(times)s::bigint[], %(numbers)s::int[], %(ends)s::bigint[])
        AS k(track, observed_at, seq, until)
""")
_END_BEFORE_GONE = _END.format(f"""
    SELECT DISTINCT p.track, p.observed_at, p.seq, {_NEXT.format("p")} AS until
    FROM unnest(%(tracks)s::bigint[], %(times)s::bigint[], %(numbers)s::int[]) AS k(track, observed_at, seq)
    CROSS JOIN LATERAL {_BEFORE}
""")


def replace_rows(gone: Iterable[Key], new_rows: Mapping[Key, tuple[int | None, ...]]) -> None:
    """Delete rows, and insert or replace others, with one merge. Call within `transaction`."""
    keys = list(gone)
    for track, at, _ in (*keys, *new_rows):
        _batch.more_rows[track] += 0
        _batch.days.add(at // clock.DAY)
    if _batch.replaced is not None:
        new = {key: (source or 0, delay or 0) for key, (_, source, delay, *_) in new_rows.items()}
        _batch.replaced.add(keys, new, _origins({*keys, *new}))
    if keys:
        _run(_DELETE, _keys(keys))
    if new_rows:
        of_keys = _keys(new_rows)
        columns = zip(*new_rows.values(), strict=True)
        names = ("seen", "sources", "delays", "qualities", "rules", "rssi")
        _run(_MERGE, of_keys | {name: _array(column) for name, column in zip(names, columns, strict=True)})
        if before := _run(_OTHER_ENDS, of_keys):
            _run(_SET_ENDS, _keys(before) | {"ends": _array(end for *_, end in before)})
    if keys:
        _run(_END_BEFORE_GONE, _keys(keys))


_ORIGINS = """
SELECT s.track, s.observed_at, s.seq, s.source, s.delay
FROM unnest(%(tracks)s::bigint[], %(times)s::bigint[], %(numbers)s::int[]) AS k(track, at, seq)
JOIN stay s ON s.track = k.track AND s.observed_at = k.at AND s.seq = k.seq
"""


def _origins(keys: Collection[Key]) -> dict[Key, tuple[int, int]]:
    """Return source and delay of those of these rows that exist."""
    return {(track, at, seq): (source, delay) for track, at, seq, source, delay in _run(_ORIGINS, _keys(keys))}


def _keys(keys: Collection[tuple[int, ...]]) -> dict[str, str]:
    return {name: _array(key[column] for key in keys) for column, name in enumerate(("tracks", "times", "numbers"))}


def count_rows(more: Mapping[int, int]) -> None:
    """Add to the row counts of tracks with this batch."""
    _batch.more_rows.update(more)


def recount(tracks: Collection[int]) -> None:
    """Count the rows of these tracks again with this batch. It reads all of them."""
    _batch.counted.update(tracks)


def delete_track(track: int) -> None:
    """Let the hub delete a track after this batch."""
    _batch.gone.append(track)


_CURSOR = "SELECT done, writer FROM site_cursor WHERE site = %(site)s FOR UPDATE"
_NO_CURSOR = """
WITH own AS (SELECT mark FROM hub_writer FOR SHARE)
INSERT INTO site_cursor (site, base, done, horizon, effects, writer)
SELECT %(site)s, 'null', 'null', 0, 'null', mark FROM own ON CONFLICT (site) DO NOTHING
"""


def lock_site(site_no: int) -> list[Any] | None:
    """Wait for other transactions of the site, such as one that waits for a standby, and return the site's cursor.

    The lock is that of a row, because every role of the database may hold advisory locks, also one that only reads.
    `commit` replaces the row that is added here. Raises writers.Replaced if another machine writes as this hub.
    """
    rows = _run(_CURSOR, {"site": site_no})
    if not rows:
        _run(_NO_CURSOR, {"site": site_no})
        rows = _run(_CURSOR, {"site": site_no})
    if not rows:
        return None
    done, writer = rows[0]
    writers.check(writer)
    cursor: list[Any] | None = done
    return cursor


def commit(site_no: int, base: list[Any], done: list[Any], horizon: int) -> Effects:
    """Commit the stays with the site's cursor. Returns the work of the hub that remains."""
    connection = _begun()
    replaced = None if _batch.replaced is None else _batch.replaced.texts()
    counted = row_counts(_batch.counted)
    effects = Effects(_batch.more_rows, counted, _batch.gone, sorted(_batch.days), replaced)
    more, counts = sorted(effects.more_rows.items()), sorted(effects.row_counts.items())
    noted = [] if replaced is None else [None, None, replaced]  # earlier releases had other texts at these places
    _run(
        "INSERT INTO site_cursor (site, base, done, horizon, effects) "
        "VALUES (%(site)s, %(base)s, %(done)s, %(horizon)s, %(effects)s) ON CONFLICT (site) DO UPDATE "
        "SET base = excluded.base, done = excluded.done, horizon = excluded.horizon, effects = excluded.effects",
        {
            "site": site_no,
            "base": Jsonb(base),
            "done": Jsonb(done),
            "horizon": horizon,
            "effects": Jsonb([more, counts, effects.gone_tracks, effects.days, *noted]),
        },
    )
    pool.commit(connection)
    return effects


def committed(site_no: int) -> Committed | None:
    """Return the last batch of a site that PostgreSQL has, confirmed by the synchronous standby.

    It may have been committed without. The standby confirms this update only after everything before it.
    """
    with transaction(checks_writer=False):
        rows = _run(
            "UPDATE site_cursor SET horizon = horizon WHERE site = %(site)s "
            "RETURNING base, done, horizon, effects, writer",
            {"site": site_no},
        )
        for *_, writer in rows:
            writers.check(writer)
        pool.commit(_begun())
    for base, done, horizon, (more, counts, gone, days, *noted), _ in rows:
        replaced = noted[2] if len(noted) > 2 else None
        return Committed(base, done, horizon, Effects(dict(more), dict(counts), gone, days, replaced))
    return None


def commit_rows() -> None:
    """Commit rows that are of no batch."""
    pool.commit(_begun())


def note_cursor(site_no: int, cursor: list[Any]) -> None:
    """Record that a site is at this cursor in both databases."""
    _change(
        "INSERT INTO site_cursor (site, base, done, horizon, effects, writer) "
        "SELECT %(site)s, %(at)s, %(at)s, 0, %(none)s, mark FROM hub_writer "
        "ON CONFLICT (site) DO UPDATE SET base = excluded.base, done = excluded.done, effects = excluded.effects",
        {"site": site_no, "at": Jsonb(cursor), "none": Jsonb([[], [], [], []])},
    )


_DROP_NEWER = """
WITH known AS MATERIALIZED (
    SELECT * FROM unnest(%(tracks)s::bigint[], %(times)s::bigint[], %(numbers)s::int[]) AS k(no, at, seq)
), newest AS MATERIALIZED (
    SELECT known.no, known.at, known.seq, s.observed_at AS newest_at, s.seq AS newest_seq,
           EXISTS (SELECT 1 FROM stay WHERE stay.track = known.no AND observed_at = known.at AND stay.seq = known.seq)
               AS is_there
    FROM known CROSS JOIN LATERAL (
        SELECT observed_at, seq FROM stay WHERE stay.track = known.no
        ORDER BY observed_at DESC, seq DESC LIMIT 1
    ) s
)
DELETE FROM stay USING newest n WHERE stay.track = n.no AND (n.newest_at, n.newest_seq) <> (n.at, n.seq)
    AND ((stay.observed_at, stay.seq) > (n.at, n.seq)
         OR NOT n.is_there AND (stay.observed_at, stay.seq) = (n.newest_at, n.newest_seq))
RETURNING stay.track, stay.observed_at, stay.seq
"""


def drop_newer(positions: Sequence[Key]) -> tuple[dict[int, int], set[int]]:
    """Delete rows that are newer than the newest one that the hub knows (track, begin, number).

    If it does not exist any more, the row before it is deleted, too. Returns the counts of rows left of the tracks that
    were changed, and the tracks without rows.
    """
    tracks, times, numbers = ([key[column] for key in positions] for column in range(3))
    with transaction():
        dropped = _run(_DROP_NEWER, {"tracks": tracks, "times": times, "numbers": numbers})
        _run(_END_BEFORE_GONE, _keys(dropped))
        commit_rows()
    counts, changed = row_counts(tracks), {track for track, _, _ in dropped}
    return {no: counts[no] for no in changed if counts[no]}, {no for no, count in counts.items() if not count}


def tracks_above(number: int) -> set[int]:
    """Return the tracks with rows and a number above this one."""
    return {no for (no,) in _run("SELECT DISTINCT track FROM stay WHERE track > %(no)s", {"no": number})}


def drop_tracks(tracks: Collection[int]) -> None:
    """Delete all rows of these tracks."""
    _change("DELETE FROM stay WHERE track = ANY(%(tracks)s)", {"tracks": list(tracks)})


_ENDED = """
SELECT t.no FROM unnest(%(tracks)s::bigint[]) AS t(no) CROSS JOIN LATERAL (
    SELECT observed_at + seen_for AS ended_at, lead(observed_at) OVER (ORDER BY observed_at, seq) AS following
    FROM stay WHERE track = t.no ORDER BY observed_at, seq LIMIT 2
) s WHERE s.ended_at < %(before)s AND s.following IS NOT NULL LIMIT %(limit)s
"""


def tracks_ended_before(tracks: Sequence[int], before: int, limit: int) -> list[int]:
    """Return those of these tracks that have several rows, the oldest of which ended before a time."""
    return [no for (no,) in _run(_ENDED, {"tracks": list(tracks), "before": before, "limit": limit})]


# The first row that stays is the newest one or has not ended. Those after it stay, too, though a site may have sent one
# that ended earlier: the first one ends where the next begins. The newest one is locked, since a batch may be deleting
# it, which would leave a track without rows.
_DELETE_BEFORE = """
WITH newest AS (
    SELECT observed_at, seq FROM stay WHERE track = %(track)s ORDER BY observed_at DESC, seq DESC LIMIT 1 FOR SHARE
), kept AS (
    SELECT * FROM newest
    UNION ALL
    SELECT observed_at, seq FROM (
        SELECT * FROM stay WHERE track = %(track)s ORDER BY observed_at, seq LIMIT %(limit)s
    ) oldest WHERE observed_at + seen_for >= %(before)s
)
DELETE FROM stay WHERE track = %(track)s AND (observed_at, seq) IN (
    SELECT observed_at, seq FROM stay WHERE track = %(track)s AND observed_at + seen_for < %(before)s
      AND (observed_at, seq) < (SELECT observed_at, seq FROM kept ORDER BY observed_at, seq LIMIT 1)
    ORDER BY observed_at, seq LIMIT %(limit)s)
RETURNING 1
"""


def drop_before(tracks: Sequence[int], before: int, limit: int) -> int:
    """Delete rows that ended before a time, oldest first, never the newest of a track. Returns their number.

    `dropped_tracks` returns these tracks until `forget_dropped` is called.
    """
    deleted, done = 0, []
    with transaction():
        for track in tracks:
            if deleted >= limit:
                break
            deleted += len(_run(_DELETE_BEFORE, {"track": track, "before": before, "limit": limit - deleted}))
            done.append(track)
        _run("UPDATE edge_history SET dropped = dropped || %(tracks)s::bigint[]", {"tracks": done})
        commit_rows()
    return deleted


def dropped_tracks() -> list[int]:
    """Return the tracks that lost rows since the last `forget_dropped`."""
    tracks: list[int] = _run("SELECT dropped FROM edge_history")[0][0]
    return tracks


def forget_dropped(tracks: Sequence[int]) -> None:
    sql = "UPDATE edge_history SET dropped = ARRAY(SELECT unnest(dropped) EXCEPT SELECT unnest(%(tracks)s::bigint[]))"
    _change(sql, {"tracks": list(tracks)})


def cursors() -> dict[int, list[Any]]:
    """Return the cursor of each site."""
    return dict(_run("SELECT site, done FROM site_cursor"))


def row_counts(tracks: Collection[int]) -> dict[int, int]:
    """Return the number of rows of each of these tracks."""
    counted = "SELECT track, count(*) FROM stay WHERE track = ANY(%(tracks)s) GROUP BY track"
    if not tracks:
        return {}
    return dict.fromkeys(tracks, 0) | dict(_run(counted, {"tracks": list(tracks)}))
