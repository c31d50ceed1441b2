"""Arrivals, departures and stays over time, for charts, lists and the export."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from heapq import merge
from itertools import groupby, pairwise
from operator import itemgetter
from typing import Any, NamedTuple

from edge import clock
from edge.database.connection import column, execute, reading, stream
from edge.tracking import antenna_names, history_engine, past
from edge.tracking.board import BELOW
from edge.tracking.report import STAYS
from edge.tracking.shown_positions import is_shown
from edge.validation import json_text

MOST_REMOTE = 20_000  # assets
Lent = AbstractContextManager[None]
Row = tuple[int, int, int, int, int]  # asset, track, observed_at, seq, source
_EVER, _FOREVER = -(2**62), 2**62


def are_too_many(organization_id: int, since: int) -> bool:
    """Return True if the moves of all assets since a time take too long for a page that loads by itself.

    With the stays in PostgreSQL, they read some rows of each asset that has moved.
    """
    sql = "SELECT count(*) FROM (SELECT 1 FROM track WHERE organization_id = ? AND row_at >= ? LIMIT ?)"
    if not history_engine.is_remote():
        return False
    moved: int = execute(sql, (organization_id, since, MOST_REMOTE + 1)).fetchone()[0]
    return moved > MOST_REMOTE


class Span(NamedTuple):
    """One interval at a location. `asset_time` is the total time of all assets there, in microseconds."""

    since: int
    until: int
    arrived: int
    left: int
    present: int  # at the end of the span
    asset_time: int


_ALL_TRACKS = "track t INDEXED BY track_asset"
# The stay of each asset at the start, and every row since then, in index order to avoid sorting.
_ROWS = f"""
SELECT t.asset_id, t.no, h.observed_at, h.seq, h.source_no
FROM {{0}}
CROSS JOIN history h ON h.position_no = t.no AND h.observed_at < :until AND h.observed_at >= ifnull((
    SELECT observed_at FROM history WHERE position_no = t.no AND observed_at <= :since
    ORDER BY observed_at DESC LIMIT 1), :since)
WHERE t.organization_id = :organization_id AND {is_shown("t")}
ORDER BY t.asset_id
"""


def flow(organization_id: int, location_id: int, edges: Sequence[int]) -> list[Span]:
    """Return a span for each pair of neighboring `edges`, for a location and its present descendants.

    An asset is there until it is seen elsewhere. Moves within the subtree are not arrivals.
    """
    below, since, until = _ids_below(organization_id, location_id), edges[0], edges[-1]
    values = {"organization_id": organization_id, "since": since, "until": until}
    with reading():
        inside = set(column(_INSIDE, (below,)))
        chosen = past.may_have_been_between(json_text.decode(below), since, until, begun_from=_EVER)
        with _lent_of(organization_id, chosen, since, until):
            return _spans(_changes(_of_chosen(_ROWS, _ALL_TRACKS, chosen, values), inside), edges)


def _of_chosen(sql: str, every: str, chosen: Sequence[int] | None, values: dict[str, Any]) -> Iterable[tuple[Any, ...]]:
    """Run a statement about the tracks of some assets, or about those of `every` table expression."""
    tracks = every if chosen is None else "json_each(:of_assets) k CROSS JOIN track t ON t.asset_id = k.value"
    return execute(sql.format(tracks), {**values, "of_assets": json_text.text(chosen)})


def _lent(organization_id: int, since: int) -> Lent:
    """Provide the rows of all tracks since a time, and the one before them."""
    sql = "SELECT no FROM track WHERE organization_id = ?"
    return _lent_tracks((no for (no,) in stream(sql, (organization_id,))), since)


def _lent_of(organization_id: int, asset_ids: Sequence[int] | None, since: int, until: int = _FOREVER) -> Lent:
    """Provide the same of the tracks of some assets."""
    sql = "SELECT t.no FROM json_each(?) k CROSS JOIN track t ON t.asset_id = k.value WHERE t.organization_id = ?"
    return _lent_tracks((no for (no,) in stream(sql, (json_text.text(asset_ids), organization_id))), since, until)


def _lent_tracks(tracks: Iterable[int], since: int, until: int = _FOREVER) -> Lent:
    return history_engine.lending(lambda: history_engine.lent_rows.of_period(list(tracks), since, until))


class Stay(NamedTuple):
    """A stay of an asset; `until` is when it was last seen there."""

    asset_id: int
    since: int
    until: int
    location_id: int


_STAYS = f"""
SELECT t.asset_id, h.observed_at,
       iif(h.observed_at = t.row_at AND h.seq = t.row_seq, t.last_seen_at, h.observed_at + h.seen_for), s.location_id
FROM track t INDEXED BY track_asset
CROSS JOIN history h ON h.position_no = t.no AND h.observed_at >= ifnull((
    SELECT observed_at FROM history WHERE position_no = t.no AND observed_at <= :since
    ORDER BY observed_at DESC LIMIT 1), :since)
CROSS JOIN source s ON s.no = h.source_no
WHERE t.organization_id = :organization_id AND {is_shown("t")}
ORDER BY t.asset_id
"""


def stays_since(organization_id: int, since: int) -> Iterator[list[Stay]]:
    """Yield the stays of each asset since a time, oldest first, with the one in progress at that time."""
    with _lent(organization_id, since):
        rows = stream(_STAYS, {"organization_id": organization_id, "since": since})
        for _, own in groupby(rows, itemgetter(0)):
            yield sorted((Stay(*row) for row in own), key=itemgetter(1))


_INSIDE = "SELECT no FROM source WHERE location_id IN (SELECT value FROM json_each(?))"


def _changes(rows: Iterable[Row], inside: Container[int]) -> Iterator[tuple[int, bool]]:
    """Yield arrivals (True) and departures while reading: a busy month has a million rows."""
    for _, own in groupby(rows, itemgetter(0)):
        was_inside = False
        for _, _, at, _, source_no in _in_order(own):
            if (source_no in inside) != was_inside:
                was_inside = not was_inside
                yield at, was_inside


def _in_order(rows: Iterable[Row]) -> Iterable[Row]:
    """Return the rows of one asset in order. Several tracks, as on a hub, have to be merged."""
    moves = list(rows)
    return moves if moves[0][1] == moves[-1][1] else sorted(moves, key=itemgetter(2, 3))


def _spans(changes: Iterable[tuple[int, bool]], edges: Sequence[int]) -> list[Span]:
    """Sum up the changes. Those before the first edge give the initial number of assets."""
    arrived, left = [0] * (len(edges) - 1), [0] * (len(edges) - 1)
    gained = [0] * (len(edges) - 1)  # time within the span of assets that arrived or left in it
    at_first = 0
    for at, came in changes:
        sign = 1 if came else -1
        if at < edges[0]:
            at_first += sign
            continue
        span = bisect_right(edges, at) - 1
        (arrived if came else left)[span] += 1
        gained[span] += sign * (edges[span + 1] - at)
    spans, present = [], at_first
    for number, (since, until) in enumerate(pairwise(edges)):
        asset_time = present * (until - since) + gained[number]
        present += arrived[number] - left[number]
        spans.append(Span(since, until, arrived[number], left[number], present, asset_time))
    return spans


class Passage(NamedTuple):
    """An arrival at a location or a departure from it; `other_name` is the previous or next location."""

    at: int
    came: bool
    asset_id: int
    asset_name: str
    other_id: int | None
    other_name: str | None


# History is stored by asset, so this reads only the assets seen since then.
_PASSAGES = f"""
WITH since AS (
    SELECT t.asset_id, h.observed_at, h.seq, s.location_id,
           lag(s.location_id) OVER (PARTITION BY t.asset_id ORDER BY h.observed_at, h.seq) AS previous
    FROM {{0}}
    CROSS JOIN history h ON h.position_no = t.no AND h.observed_at >= :since
    CROSS JOIN source s ON s.no = h.source_no
    WHERE t.organization_id = :organization_id AND t.last_seen_at >= :since AND {is_shown("t")}
),
step AS MATERIALIZED (
    SELECT asset_id, observed_at, seq, location_id,
           ifnull(previous, (
               SELECT source.location_id FROM track CROSS JOIN history ON history.position_no = track.no
                   AND (history.observed_at, history.seq) = (
                       SELECT observed_at, seq FROM history WHERE position_no = track.no AND observed_at < :since
                       ORDER BY observed_at DESC, seq DESC LIMIT 1)
               CROSS JOIN source ON source.no = history.source_no
               WHERE track.asset_id = since.asset_id ORDER BY history.observed_at DESC, history.seq DESC LIMIT 1
           )) AS origin
    FROM since
)
SELECT step.observed_at, step.location_id = :location_id, asset.id, asset.name, other.id, other.name
FROM step
JOIN asset ON asset.id = step.asset_id AND asset.deleted_at IS NULL
LEFT JOIN location other ON other.id = iif(step.location_id = :location_id, step.origin, step.location_id)
WHERE step.location_id IS NOT step.origin AND (step.location_id = :location_id OR step.origin = :location_id)
ORDER BY step.observed_at DESC, step.seq DESC LIMIT :limit
"""


def passages(organization_id: int, location_id: int, since: int, limit: int = 100) -> list[Passage]:
    """Return arrivals at a location and departures from it, newest first."""
    values = {"organization_id": organization_id, "location_id": location_id, "since": since, "limit": limit}
    chosen = past.may_have_been_between([location_id], since, _FOREVER, begun_from=since)
    with _lent_of(organization_id, chosen, since - 1):
        rows = _of_chosen(_PASSAGES, "track t", chosen, values)
        return [Passage(at, bool(came), *rest) for at, came, *rest in rows]


class Moves(NamedTuple):
    """Moves since a time: their number by hour from then on, and by origin and location.

    The origin None is that of assets seen for the first time.
    """

    by_hour: list[int]
    by_way: Counter[tuple[int | None, int]]


# Tracks of assets with a row since then. On a hub an asset may have other tracks, which say where it came from.
_HAS_MOVED = """
(t.row_at >= :since OR t.asset_id IN (
    SELECT o.asset_id FROM track o WHERE o.organization_id = :organization_id AND o.is_newest = 0
    AND EXISTS (SELECT 1 FROM track m WHERE m.asset_id = o.asset_id AND m.row_at >= :since)))
"""
# Of each track also the stay in progress before that time. Python compares neighbors, because a window function of
# SQLite would sort the rows again.
_MOVED = f"""
SELECT t.asset_id, t.no, h.observed_at, h.seq, h.source_no
FROM track t INDEXED BY track_asset
CROSS JOIN history h ON h.position_no = t.no AND h.observed_at >= ifnull((
    SELECT observed_at FROM history WHERE position_no = t.no AND observed_at < :since
    ORDER BY observed_at DESC LIMIT 1), :since)
WHERE t.organization_id = :organization_id AND {_HAS_MOVED} AND t.is_retired = 0 AND {is_shown("t")}
ORDER BY t.asset_id
"""
_MOVED_TRACKS = f"SELECT t.no FROM track t WHERE t.organization_id = :organization_id AND {_HAS_MOVED}"


def moves_since(organization_id: int, since: int, hours: int) -> Moves:
    """Return the moves of live assets since a time. Later ones than the given hours count in the last hour."""
    moves = Moves([0] * hours, Counter())
    with reading():
        location_of = dict(
            execute("SELECT no, location_id FROM source WHERE organization_id = ?", (organization_id,)).fetchall()
        )
        values = {"organization_id": organization_id, "since": since}
        with _lent_tracks((no for (no,) in stream(_MOVED_TRACKS, values)), since - 1):
            rows = execute(_MOVED, values)
            for _, own in groupby(rows, itemgetter(0)):
                _count_moves(moves, _in_order(own), location_of, since)
    return moves


def _count_moves(moves: Moves, rows: Iterable[Row], location_of: Mapping[int, int], since: int) -> None:
    """Count the moves of one asset. Two counters are faster than one by hour and way, whose keys rarely repeat."""
    by_hour, by_way = moves
    origin: int | None = None
    for _, _, at, _, source_no in rows:
        location_id = location_of[source_no]
        if location_id != origin:
            if at >= since:
                by_hour[min((at - since) // clock.HOUR, len(by_hour) - 1)] += 1
                by_way[origin, location_id] += 1
            origin = location_id


class ExportRow(NamedTuple):
    """One stay of an asset, with the reader that saw it arrive.

    `left_at` is when it was seen elsewhere, None if not before the `end` of the period or of the asset.
    """

    asset_key: str
    asset_name: str
    location_key: str
    location_name: str
    since: int
    seen_until: int
    left_at: int | None
    end: int
    reader_name: str | None
    port: int | str | None  # a number, or the name of the antenna
    site_name: str | None  # on a hub
    sightings: int = 1

    @property
    def duration(self) -> int:
        """Microseconds until it left, or until the end."""
        return min(self.left_at or self.end, self.end) - self.since


# The tracks of each asset, in the order of the file. Each track is read in its stored order, because sorting would hold
# the whole history in memory.
_EXPORTED = f"""
SELECT json_group_array(t.no) FROM track t JOIN asset a ON a.id = t.asset_id
WHERE t.organization_id = :organization_id AND {is_shown("t")} AND (:asset_id IS NULL OR t.asset_id = :asset_id)
GROUP BY a.external_key ORDER BY a.external_key
"""
# When an asset was seen next, anywhere, before the end of the period.
_NEXT = f"""(
    SELECT min((
        SELECT observed_at FROM history n WHERE n.position_no = o.no AND (n.observed_at, n.seq) > (h.observed_at, h.seq)
            AND n.observed_at < :until ORDER BY n.observed_at, n.seq LIMIT 1))
    FROM track o WHERE o.asset_id = t.asset_id AND {is_shown("o")})
"""
_IDS_BELOW = f"{BELOW} SELECT json_group_array(id) FROM below"
_EXPORT = f"""
SELECT h.observed_at, h.seq, a.external_key, a.name, l.external_key, l.name, h.observed_at,
       min(iif(h.observed_at = t.row_at AND h.seq = t.row_seq, t.last_seen_at, h.observed_at + h.seen_for), :until),
       {_NEXT}, min(ifnull(a.deleted_at, :until), :until),
       ifnull(r.name, n.name), {antenna_names.SHOWN}, site.name
FROM {STAYS} JOIN asset a ON a.id = t.asset_id
WHERE t.no = :track AND t.organization_id = :organization_id
  AND h.observed_at < :until AND h.observed_at >= iif(:with_earlier, ifnull((
      SELECT observed_at FROM history WHERE position_no = :track AND observed_at <= :since
      ORDER BY observed_at DESC LIMIT 1), :since), :since)
  AND (:locations IS NULL OR s.location_id IN (SELECT value FROM json_each(:locations)))
ORDER BY h.observed_at, h.seq
"""


def _ids_below(organization_id: int, location_id: int) -> str:
    """Return a location with its descendants, as JSON."""
    ids: str = execute(_IDS_BELOW, {"organization_id": organization_id, "location_id": location_id}).fetchone()[0]
    return ids


def export_rows(
    organization_id: int, *, since: int, until: int, asset_id: int | None = None, location_id: int | None = None
) -> Iterator[ExportRow]:
    """Yield the stays that began in a period, asset by asset, oldest first. `until` is not in the future.

    For one asset, or one location with its descendants, this includes the stay in progress when the period begins.
    Consecutive rows at one location are one stay, as in `past.stays`.
    """
    below = None if location_id is None else _ids_below(organization_id, location_id)
    values = {
        "organization_id": organization_id,
        "locations": below,
        "since": since,
        "until": until,
        "with_earlier": asset_id is not None or location_id is not None,
    }
    for (numbers,) in list(stream(_EXPORTED, {"organization_id": organization_id, "asset_id": asset_id})):
        chosen = json_text.decode(numbers)
        with _lent_tracks(chosen, since, until):
            tracks = [stream(_EXPORT, {**values, "track": track}) for track in chosen]
            yield from _whole_stays(ExportRow(*row[2:]) for row in merge(*tracks, key=itemgetter(0, 1)))


def _whole_stays(rows: Iterator[ExportRow]) -> Iterator[ExportRow]:
    """Join the rows of one asset that follow each other at the same location."""
    stay = next(rows, None)
    for row in rows:
        if stay and (row.location_key, row.since) == (stay.location_key, stay.left_at):
            seen_until = max(stay.seen_until, row.seen_until)
            stay = stay._replace(seen_until=seen_until, left_at=row.left_at, sightings=stay.sightings + 1)
        elif stay:
            yield stay
            stay = row
    if stay:
        yield stay
