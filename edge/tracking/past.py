"""Past positions: all assets at one moment, and the stays of one asset in a period.

History is stored by asset, so both use its primary key: one lookup per asset, or one range.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from edge.database.connection import execute, reading
from edge.database.lists import Page
from edge.tracking.board import BELOW, matches_text

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


# At a hub an asset has several tracks. With max(), SQLite takes the other columns from the row with the maximum.
_THEN = """
SELECT t.asset_id, t.no, max(h.observed_at) AS observed_at, h.seq, s.location_id,
       min(:at, iif(h.observed_at = t.row_at AND h.seq = t.row_seq, t.last_seen_at, h.observed_at + h.seen_for))
           AS last_seen_at
FROM track t
CROSS JOIN history h ON h.position_no = t.no AND (h.observed_at, h.seq) = (
    SELECT observed_at, seq FROM history
    WHERE position_no = t.no AND observed_at <= :at ORDER BY observed_at DESC, seq DESC LIMIT 1
)
CROSS JOIN source s ON s.no = h.source_no
WHERE t.organization_id = :organization_id
GROUP BY t.asset_id
"""
# The first row after the last one elsewhere. It may be old, so only the rows of the page are looked up.
_ARRIVED = """
(SELECT own.observed_at FROM history own WHERE own.position_no = shown.no AND (own.observed_at, own.seq) > (
     SELECT other.observed_at, other.seq FROM history other JOIN source s ON s.no = other.source_no
     WHERE other.position_no = shown.no AND other.observed_at <= shown.observed_at
       AND s.location_id <> shown.location_id
     ORDER BY other.observed_at DESC, other.seq DESC LIMIT 1)
 ORDER BY own.observed_at, own.seq LIMIT 1)
"""
_FIRST = "(SELECT min(own.observed_at) FROM history own WHERE own.position_no = shown.no)"


def board_at(organization_id: int, filters: PastFilter, *, limit: int, offset: int = 0) -> Page[PastRow]:
    """Return all assets that had been seen by that moment and were not retired then."""
    with reading():
        sql, values = past_statement(organization_id, filters)
        rows = execute(sql, {**values, "limit": limit, "offset": offset}).fetchall()
    return Page([past_row(row) for row in rows], rows[0][0] if rows else 0)


def past_row(row: tuple[Any, ...]) -> PastRow:
    """Convert a row of `past_statement`."""
    _, *columns = row
    columns[6] = bool(columns[6])
    return PastRow(*columns)


def past_statement(organization_id: int, filters: PastFilter) -> tuple[str, dict[str, Any]]:
    """Return the rows as SQL, with the total count first, and the parameters except `limit` and `offset`."""
    conditions = ["a.organization_id = :organization_id", "(a.deleted_at IS NULL OR a.deleted_at > :at)"]
    values: dict[str, Any] = {"organization_id": organization_id, "at": filters.at}
    start = "WITH"
    if filters.q:
        matches, text_values = matches_text(organization_id, filters.q)
        conditions.append(matches)
        values |= text_values
    if filters.location_id is not None:
        start = f"{BELOW},"
        conditions.append("p.location_id IN (SELECT id FROM below)")
        values["location_id"] = filters.location_id
    order = SORTS.get(filters.sort.removeprefix("-"), SORTS[DEFAULT_SORT])
    return (
        f"{start} p AS MATERIALIZED ({_THEN}), shown AS ("
        "SELECT count(*) OVER () AS total, a.id AS id, a.external_key AS external_key, a.name AS name, "
        "l.external_key AS location_key, l.name AS location_name, l.deleted_at IS NULL AS is_live, a.deleted_at, p.* "
        "FROM p JOIN asset a ON a.id = p.asset_id JOIN location l ON l.id = p.location_id "
        f"WHERE {' AND '.join(conditions)} "
        f"ORDER BY {order.format('DESC' if filters.sort.startswith('-') else '')}, a.id LIMIT :limit OFFSET :offset) "
        "SELECT total, id, external_key, name, location_id, location_key, location_name, is_live, "
        f"ifnull({_ARRIVED}, {_FIRST}), last_seen_at, deleted_at FROM shown"
    ), values


_ROWS = """
SELECT l.id, l.external_key, l.name, l.deleted_at IS NULL, h.observed_at,
       iif(h.observed_at = t.row_at AND h.seq = t.row_seq, t.last_seen_at, h.observed_at + h.seen_for)
FROM track t
JOIN history h ON h.position_no = t.no
JOIN source s ON s.no = h.source_no
JOIN location l ON l.id = s.location_id
WHERE t.organization_id = :organization_id AND t.asset_id = :asset_id AND h.observed_at < :until
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
    selected = execute(_ROWS, {**values, "limit": MOST_ROWS + 1}).fetchall()
    merged: list[Stay] = []
    for location_id, key, name, is_live, observed_at, seen_until in reversed(selected[:MOST_ROWS]):
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
