"""Past positions: all assets at one moment, and the stays of one asset in a period.

History is stored by asset, so both use its primary key: one lookup per asset, or one range.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from operator import itemgetter
from typing import Any, NamedTuple

from edge.database.connection import column, execute
from edge.tracking import history_engine
from edge.tracking.board import BELOW, matches_text
from edge.tracking.past_levels import PAST_LEVELS, cells_at, past_cell, past_width
from edge.tracking.shown_positions import is_shown
from edge.validation import json_text

MOST_ROWS = 5000  # of history, per query


class PastFilter(NamedTuple):
    """`location_id` includes its present descendants. `sort` is a name in SORTS, with a minus for descending."""

    at: int
    q: str = ""
    location_id: int | None = None
    sort: str = "key"


SORTS = {
    "name": "a.name COLLATE NOCASE {0}",
    "key": "a.external_key {0}",
    "location": "l.name COLLATE NOCASE {0}, a.name COLLATE NOCASE",
    "seen": "p.last_seen_at {0}, a.name COLLATE NOCASE",
}
DEFAULT_SORT = "key"


class PastRow(NamedTuple):
    """Past position of an asset; `last_seen_at` is at or before that moment."""

    asset_id: int
    external_key: str
    name: str
    location_id: int
    location_key: str
    location_name: str
    location_is_live: bool
    arrived_at: int
    last_seen_at: int
    deleted_at: int | None


class Stay(NamedTuple):
    """One stay at a location with its number of sightings; `until` is the begin of the next stay."""

    observed_at: int
    until: int
    location_id: int
    location_key: str
    location_name: str
    location_is_live: bool
    last_seen_at: int
    sightings: int


# At a hub an asset has several tracks. With max(), SQLite takes the other columns from the row with the maximum. A
# track without a newer stay is where it was then, so its history is not read.
_THEN = """
SELECT t.asset_id, t.no, max(iif(t.row_at <= :at, t.row_at, h.observed_at)) AS observed_at,
       iif(t.row_at <= :at, t.row_seq, h.seq) AS seq, iif(t.row_at <= :at, t.location_id, s.location_id) AS location_id,
       min(:at, iif(t.row_at <= :at, t.last_seen_at, h.observed_at + h.seen_for)) AS last_seen_at
FROM {0}track t {1}
LEFT JOIN history h ON t.row_at > :at AND h.position_no = t.no AND (h.observed_at, h.seq) = (
    SELECT observed_at, seq FROM history
    WHERE position_no = t.no AND observed_at <= :at ORDER BY observed_at DESC, seq DESC LIMIT 1
)
LEFT JOIN source s ON s.no = h.source_no
WHERE t.organization_id = :organization_id AND (t.row_at <= :at OR h.observed_at IS NOT NULL) AND {2}
GROUP BY t.asset_id
"""
_OF_ALL = _THEN.format("", "NOT INDEXED", is_shown("t"))
_OF_SOME = _THEN.format("json_each(:of_assets) k CROSS JOIN ", "ON t.asset_id = k.value", is_shown("t"))
# The first row after the last one elsewhere. It may be old, so only the rows of the page are looked up.
_ARRIVED = """
(SELECT own.observed_at FROM history own WHERE own.position_no = shown.no AND (own.observed_at, own.seq) > (
     SELECT last.observed_at, last.seq FROM track CROSS JOIN history last ON last.position_no = track.no
         AND (last.observed_at, last.seq) = (
             SELECT other.observed_at, other.seq FROM history other JOIN source s ON s.no = other.source_no
             WHERE other.position_no = track.no AND other.observed_at <= shown.observed_at
               AND s.location_id <> shown.location_id
             ORDER BY other.observed_at DESC, other.seq DESC LIMIT 1)
     WHERE track.asset_id = shown.asset_id ORDER BY last.observed_at DESC, last.seq DESC LIMIT 1)
 ORDER BY own.observed_at, own.seq LIMIT 1)
"""
_FIRST = "(SELECT min(own.observed_at) FROM history own WHERE own.position_no = shown.no)"
_STAY = "json_array(shown.no, shown.observed_at, shown.location_id)"  # PostgreSQL finds the arrival of a whole page


def past_rows(rows: Sequence[tuple[Any, ...]]) -> list[PastRow]:
    """Convert rows of `past_statement`."""
    arrivals = _arrivals([row[8] for row in rows]) if history_engine.is_remote() else [row[8] for row in rows]
    return [
        PastRow._make((*row[1:7], bool(row[7]), arrived_at, *row[9:]))
        for row, arrived_at in zip(rows, arrivals, strict=True)
    ]


def _arrivals(stays_as_json: Sequence[str]) -> list[int | None]:
    """Return the arrivals of stays that PostgreSQL has; each text is a track, begin and location."""
    chosen = [json_text.decode(text) for text in stays_as_json]
    locations = json_text.text(sorted({location for _, _, location in chosen}))
    sources = execute(
        "SELECT location_id, no FROM source WHERE location_id IN (SELECT value FROM json_each(?))", (locations,)
    ).fetchall()
    tracks = execute(_TRACKS_OF, (json_text.text([track for track, _, _ in chosen]),)).fetchall()
    return history_engine.lent_rows.arrivals(chosen, tracks, sources) if chosen else []


# All tracks of the assets of some tracks, with their number in the list.
_TRACKS_OF = """
SELECT k.key, every.no FROM json_each(?) k CROSS JOIN track t ON t.no = k.value
CROSS JOIN track every ON every.asset_id = t.asset_id
"""


def then(organization_id: int, at: int, among: Among | None) -> AbstractContextManager[None]:
    """Provide the rows for `past_statement`: those that were the newest of their tracks, unless they still are."""

    def stored() -> Iterable[tuple[Any, ...]]:
        sql = "SELECT no FROM track WHERE organization_id = ? AND row_at > ?"
        if among is not None:
            sql += " AND asset_id IN (SELECT value FROM json_each(?))"
        chosen = () if among is None else (json_text.text(list(among.asset_ids)),)
        tracks = column(sql, (organization_id, at, *chosen))
        return history_engine.lent_rows.newest(tracks, 1, at + 1)

    return history_engine.lending(stored)


class Among(NamedTuple):
    """Some assets, and a condition on their past positions `p`."""

    asset_ids: Sequence[int]
    condition: str = "1"
    values: Mapping[str, Any] = {}


def past_statement(organization_id: int, filters: PastFilter, among: Among | None = None) -> tuple[str, dict[str, Any]]:
    """Return the rows as SQL, with the total count first, and the parameters except `limit` and `offset`.

    Without `among`, the rows are of all assets of the organization, and all positions are computed.
    """
    conditions = ["a.organization_id = :organization_id", "(a.deleted_at IS NULL OR a.deleted_at > :at)"]
    values: dict[str, Any] = {"organization_id": organization_id, "at": filters.at}
    positions = _OF_ALL
    if among is not None:
        positions = _OF_SOME
        conditions.append(among.condition)
        values |= {"of_assets": json_text.text(list(among.asset_ids)), **among.values}
    start = "WITH"
    arrived_at = _STAY if history_engine.is_remote() else f"ifnull({_ARRIVED}, {_FIRST})"
    if filters.q:
        matches, text_values = matches_text(organization_id, filters.q)
        conditions.append(matches)
        values |= text_values
    if filters.location_id is not None:
        start = f"{BELOW},"
        conditions.append("p.location_id IN (SELECT id FROM below)")
        values["location_id"] = filters.location_id
    return (
        f"{start} p AS MATERIALIZED ({positions}), shown AS ("
        "SELECT count(*) OVER () AS total, a.id AS id, a.external_key AS external_key, a.name AS name, "
        "l.external_key AS location_key, l.name AS location_name, l.deleted_at IS NULL AS is_live, a.deleted_at, p.* "
        "FROM p CROSS JOIN asset a ON a.id = p.asset_id JOIN location l ON l.id = p.location_id "
        f"WHERE {' AND '.join(conditions)} ORDER BY {order_of(filters.sort)}, a.id LIMIT :limit OFFSET :offset) "
        "SELECT total, id, external_key, name, location_id, location_key, location_name, is_live, "
        f"{arrived_at}, last_seen_at, deleted_at FROM shown"
    ), values


def order_of(sort: str) -> str:
    """Return the ORDER BY of a sort, without the last column, the id."""
    column = SORTS.get(sort.removeprefix("-"), SORTS[DEFAULT_SORT])
    return column.format("DESC" if sort.startswith("-") else "")


# Assets that may have been at a location, or seen last at a time: from the table `past_stay` or the indexes
# of PostgreSQL, and from the newest rows of tracks. `past_statement` computes whether they were.

_LEVELS = range(PAST_LEVELS)

_ADD = f"""
INSERT OR REPLACE INTO past_stay (cell, source_no, observed_at, track_no, seen_until, until)
SELECT {past_cell("observed_at", "until")}, source_no, observed_at, position_no, observed_at + seen_for, until
FROM ({{0}}) WHERE until > observed_at
"""
_ADD_ENDED = _ADD.format("""
    SELECT *, lead(observed_at) OVER (PARTITION BY position_no ORDER BY observed_at, seq) AS until
    FROM history WHERE position_no > ? AND position_no <= ?
""")


_NEXT_TRACKS = """
SELECT max(no) FROM (
    SELECT no, sum(history_rows) OVER (ORDER BY no) - history_rows AS before FROM (
        SELECT no, history_rows FROM track WHERE no > ?1 ORDER BY no LIMIT ?2
    )
) WHERE before < ?2
"""


def add_ended_stays(last_track: int, rows: int) -> int | None:
    """Add about this many stays of the tracks after this one to the table. Return the last track, None at the end."""
    until: int | None = execute(_NEXT_TRACKS, (last_track, rows)).fetchone()[0]
    if until is not None:
        execute(_ADD_ENDED, (last_track, until))
    return until


# Of changed rows (track, begin, and a source where the row is no longer): these stays, and the ones before, which end
# where these begin.
_CHANGED = """
WITH k AS MATERIALIZED (SELECT value ->> 0 AS track, value ->> 1 AS at, value ->> 2 AS source FROM json_each(:changed)),
begun AS MATERIALIZED (
    SELECT track, at FROM k UNION SELECT track, (
        SELECT observed_at FROM history WHERE position_no = track AND observed_at < at ORDER BY observed_at DESC LIMIT 1
    ) FROM k
)
"""
# The end of an entry is not known any more, but there is only one cell of each level.
_REMOVE_CHANGED = f"""
{_CHANGED}
DELETE FROM past_stay WHERE (cell, source_no, observed_at, track_no) IN (
    SELECT at / w.value * {PAST_LEVELS} + w.key, source, at, track FROM (
        SELECT track, at, source FROM k WHERE source IS NOT NULL
        UNION SELECT track, at, source_no FROM begun CROSS JOIN history ON position_no = track AND observed_at = at
    ) CROSS JOIN json_each(:widths) w
)
"""
_ADD_CHANGED = _CHANGED + _ADD.format("""
    SELECT h.*, (
        SELECT observed_at FROM history n WHERE n.position_no = h.position_no
        AND (n.observed_at, n.seq) > (h.observed_at, h.seq) ORDER BY n.observed_at, n.seq LIMIT 1
    ) AS until FROM begun CROSS JOIN history h ON h.position_no = track AND h.observed_at = at
""")


def renew_ended_stays(changed: Collection[tuple[int, int, int | None]]) -> None:
    """Bring stays in the table up to date after changes of history rows.

    Each is a track, the begin of the row, and if the row is no longer there its former source.
    """
    widths = [past_width(level) for level in _LEVELS]
    values = {"changed": json_text.text(list(changed)), "widths": json_text.text(widths)}
    execute(_REMOVE_CHANGED, values)
    execute(_ADD_CHANGED, values)


_OF_TRACKS = "SELECT t.asset_id FROM json_each(:tracks) k CROSS JOIN track t ON t.no = k.value"
_ENDED_AT = """
SELECT t.asset_id FROM json_each(:locations) l CROSS JOIN source s ON s.location_id = l.value
CROSS JOIN json_each(:cells) c CROSS JOIN past_stay p ON p.cell = c.value AND p.source_no = s.no
AND p.observed_at <= :at AND p.until > :at CROSS JOIN track t ON t.no = p.track_no
"""
_MAY_HAVE_BEEN_AT = """
SELECT DISTINCT asset_id FROM (
    {0}
    UNION ALL
    SELECT t.asset_id FROM json_each(:locations) l CROSS JOIN track t
    ON t.location_id = l.value AND t.is_newest = 1 AND t.row_at BETWEEN :begun_from AND :at
    UNION ALL
    SELECT t.asset_id FROM json_each(:locations) l CROSS JOIN track t
    ON t.location_id = l.value AND t.is_newest = 0 AND t.row_at <= :at
) LIMIT :limit
"""
_ALL_TIMES = -(2**62)


def may_have_been_at(location_ids: Sequence[int], at: int, limit: int) -> list[int]:
    """Return at most `limit` assets, among them all that were at these locations unless there are more."""
    locations = json_text.text(list(location_ids))
    values = {"locations": locations, "at": at, "begun_from": _ALL_TIMES, "limit": limit}
    if not history_engine.is_remote():
        cells = json_text.text([cell for cell, _ in cells_at(at)])
        return column(_MAY_HAVE_BEEN_AT.format(_ENDED_AT), {**values, "cells": cells})
    sources = _sources_at(locations)

    def ended(most: int) -> list[int]:
        return history_engine.lent_rows.tracks_at(sources, at, at + 1, most)

    return _assets_with(ended, _MAY_HAVE_BEEN_AT, values)


def may_have_been_between(location_ids: Sequence[int], since: int, until: int, *, begun_from: int) -> list[int] | None:
    """Return assets, among them all that were at these locations in a period; None for all, if this file has the stays.

    This includes those that left at its first moment. Those with a stay in progress are left out if it began before
    `begun_from`, except on older tracks, whose last stay may have ended at another site.
    """
    if not history_engine.is_remote():
        return None
    locations = json_text.text(list(location_ids))
    sources = _sources_at(locations)
    tracks = json_text.text(history_engine.lent_rows.tracks_at(sources, since - 1, until))
    values = {"locations": locations, "tracks": tracks, "at": until, "begun_from": begun_from, "limit": -1}
    return column(_MAY_HAVE_BEEN_AT.format(_OF_TRACKS), values)


def _sources_at(locations: str) -> list[int]:
    """Return the sources at locations, which are given as JSON."""
    return column("SELECT no FROM source WHERE location_id IN (SELECT value FROM json_each(?))", (locations,))


def _assets_with(ended: Callable[[int], list[int]], sql: str, values: dict[str, Any]) -> list[int]:
    """Run a statement with the tracks of ended stays that PostgreSQL has.

    An asset may have several tracks, so too few assets are found with as many tracks.
    """
    most: int = values["limit"]
    while True:
        tracks = ended(most)
        asset_ids = column(sql.format(_OF_TRACKS), {**values, "tracks": json_text.text(tracks)})
        if len(tracks) < most or len(asset_ids) >= values["limit"]:
            return asset_ids
        most *= 2


_ENDED_AROUND = """
SELECT t.asset_id FROM json_each(:cells) c CROSS JOIN past_stay p ON p.cell = c.value
AND p.seen_until >= :at AND p.until > :at AND p.observed_at <= :at CROSS JOIN track t ON t.no = p.track_no
"""
_MAY_HAVE_BEEN_SEEN = """
SELECT DISTINCT asset_id FROM (
    {0}
    UNION ALL
    SELECT asset_id FROM track
    WHERE organization_id = :organization_id AND is_newest = 1 AND last_seen_at >= :at AND row_at <= :at
    UNION ALL
    SELECT asset_id FROM track
    WHERE organization_id = :organization_id AND is_newest = 0 AND last_seen_at >= :at AND row_at <= :at
) LIMIT :limit
"""


def may_have_been_seen(organization_id: int, at: int, limit: int) -> list[int]:
    """Return at most `limit` assets, among them all that were seen before and after a moment at one location."""
    values = {"organization_id": organization_id, "at": at, "limit": limit}
    if history_engine.is_remote():
        return _assets_with(
            lambda most: history_engine.lent_rows.tracks_seen_around(at, most), _MAY_HAVE_BEEN_SEEN, values
        )
    cells = json_text.text([cell for cell, _ in cells_at(at)])
    return column(_MAY_HAVE_BEEN_SEEN.format(_ENDED_AROUND), {**values, "cells": cells})


_ENDED = """
SELECT p.seen_until, p.track_no FROM past_stay p
WHERE p.cell = ? AND p.seen_until > ? AND p.seen_until < ? AND p.until > ? AND p.observed_at <= ?
ORDER BY p.seen_until {0}
"""
_ENDED_NOW = """
SELECT last_seen_at, no FROM track WHERE organization_id = ? AND is_newest = {1} AND last_seen_at < ?
ORDER BY last_seen_at {0}
"""


def last_seen_before(organization_id: int, at: int, *, descending: bool) -> Iterator[tuple[int, int]]:
    """Yield the times before a moment when an asset may have been seen last, in order, each with its track."""
    order = "DESC" if descending else ""
    ended: list[Iterator[tuple[int, int]]]
    if history_engine.is_remote():
        ended = [history_engine.lent_rows.last_seen_before(at, level, descending=descending) for level in _LEVELS]
    else:
        ended = [execute(_ENDED.format(order), (cell, at - width, at, at, at)) for cell, width in cells_at(at)]
    now = [execute(_ENDED_NOW.format(order, is_newest), (organization_id, at)) for is_newest in (0, 1)]
    return heapq.merge(*ended, *now, key=itemgetter(0), reverse=descending)


def assets_of(tracks: Sequence[int]) -> list[int]:
    """Return the assets of tracks."""
    sql = "SELECT DISTINCT t.asset_id FROM json_each(?) k CROSS JOIN track t ON t.no = k.value"
    return column(sql, (json_text.text(list(tracks)),))


def is_larger_than(organization_id: int, count: int) -> bool:
    """Return whether more assets than this have a position."""
    sql = "SELECT count(*) FROM (SELECT 1 FROM track WHERE organization_id = ? AND is_newest = 1 LIMIT ?)"
    tracks: int = execute(sql, (organization_id, count + 1)).fetchone()[0]
    return tracks > count


_ROWS = f"""
SELECT l.id, l.external_key, l.name, l.deleted_at IS NULL, h.observed_at,
       iif(h.observed_at = t.row_at AND h.seq = t.row_seq, t.last_seen_at, h.observed_at + h.seen_for)
FROM track t
JOIN history h ON h.position_no = t.no
JOIN source s ON s.no = h.source_no
JOIN location l ON l.id = s.location_id
WHERE t.organization_id = :organization_id AND t.asset_id = :asset_id AND {is_shown("t")} AND h.observed_at < :until
  AND h.observed_at >= ifnull((
      SELECT observed_at FROM history WHERE position_no = t.no AND observed_at <= :since
      ORDER BY observed_at DESC LIMIT 1), :since)
ORDER BY h.observed_at DESC, h.seq DESC LIMIT :limit
"""


class Stays(NamedTuple):
    """Stays, oldest first; `is_cut` if earlier ones were left out."""

    rows: list[Stay]
    is_cut: bool


def stays(organization_id: int, asset_id: int, *, since: int, until: int) -> Stays:
    """Return the stays of an asset in a period, including the one in progress at its start.

    Consecutive rows at one location are one stay. The last one ends at `until`, which is not in the future.
    """
    values = {"organization_id": organization_id, "asset_id": asset_id, "since": since, "until": until}

    def stored() -> Iterable[tuple[Any, ...]]:
        tracks = execute(
            "SELECT no FROM track WHERE asset_id = :asset_id AND organization_id = :organization_id", values
        )
        return history_engine.lent_rows.of_period([no for (no,) in tracks], since, until, MOST_ROWS + 1)

    with history_engine.lending(stored):
        selected = execute(_ROWS, {**values, "limit": MOST_ROWS + 1}).fetchall()
    merged: list[Stay] = []
    for location_id, key, name, is_live, observed_at, seen_until in reversed(_in_period(selected[:MOST_ROWS], since)):
        seen_until = min(seen_until, until)
        if merged and merged[-1].location_id == location_id:
            last = merged[-1]
            seen_until = max(seen_until, last.last_seen_at)
            merged[-1] = last._replace(until=until, last_seen_at=seen_until, sightings=last.sightings + 1)
            continue
        if merged:
            merged[-1] = merged[-1]._replace(until=observed_at)
        merged.append(Stay(observed_at, until, location_id, key, name, bool(is_live), seen_until, 1))
    return Stays(merged, len(selected) > MOST_ROWS)


def _in_period(rows: Sequence[tuple[Any, ...]], since: int) -> Sequence[tuple[Any, ...]]:
    """Leave out stays that ended before a period. `rows`, newest first, have the last one of each track before it."""
    begun = next((row[4] for row in rows if row[4] <= since), since)
    return [row for row in rows if row[4] >= begun]
