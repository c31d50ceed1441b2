"""Passages for pages, downloads and events."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any, NamedTuple

from edge import clock
from edge.database.connection import execute, stream
from edge.doors.passage_rule import Direction, DoorRead
from edge.doors.passages import unpacked
from edge.errors import NotFound
from edge.tracking.shown_positions import is_asset_shown
from edge.validation import json_text


class PassageRow(NamedTuple):
    """A passage with the names of its door and asset. `site` is the site that recorded it, at a hub."""

    no: int
    organization_id: int
    door_id: int
    door_name: str
    location_id: int | None
    asset_id: int
    asset_key: str
    asset_name: str
    at: int
    direction: Direction
    confidence: float
    inner_reads: int
    outer_reads: int
    since: int
    until: int
    decided_at: int
    revision: int
    site: str | None


class Totals(NamedTuple):
    """Numbers of passages by direction."""

    inward: int
    outward: int
    turned_back: int
    unknown: int


_SELECT = """
SELECT p.no, p.organization_id, p.door_id, d.name, d.location_id, p.asset_id, a.external_key, a.name, p.at, p.direction,
       p.confidence, p.inner_reads, p.outer_reads, p.since, p.until, p.decided_at, p.revision, s.name
FROM passage p JOIN door d ON d.id = p.door_id JOIN asset a ON a.id = p.asset_id LEFT JOIN site s ON s.no = p.site_no
"""
_SHOWN = f"p.direction <> {int(Direction.WITHDRAWN)} AND {is_asset_shown('p.asset_id')}"


def _row(row: tuple[Any, ...]) -> PassageRow:
    return PassageRow._make([*row[:9], Direction(row[9]), row[10] / 1000, *row[11:]])


def passages_of_door(organization_id: int, door_id: int, limit: int, before: int | None = None) -> list[PassageRow]:
    """Return the passages of a door, newest first; with `before`, those that follow the passage with this number."""
    # Several passages may have the same time, so a page ends at a passage, not at a time.
    page = "" if before is None else "AND (p.at, p.no) < (SELECT at, no FROM passage WHERE no = :before) "
    return _newest(f"p.door_id = :key {page}", organization_id, door_id, limit, before)


def passages_of_asset(organization_id: int, asset_id: int, limit: int) -> list[PassageRow]:
    """Return the passages of an asset, newest first."""
    return _newest("p.asset_id = :key", organization_id, asset_id, limit)


def _newest(condition: str, organization_id: int, key: int, limit: int, before: int | None = None) -> list[PassageRow]:
    rows = execute(
        f"{_SELECT} WHERE {condition} AND p.organization_id = :organization_id AND {_SHOWN} "
        "ORDER BY p.at DESC, p.no DESC LIMIT :limit",
        {"key": key, "organization_id": organization_id, "before": before, "limit": limit},
    )
    return [_row(row) for row in rows]


def passages_numbered(numbers: Collection[int]) -> list[PassageRow]:
    """Return the passages with these numbers, withdrawn ones included. For events."""
    if not numbers:
        return []
    numbers_json = json_text.text(sorted(numbers))
    return [
        _row(row)
        for row in execute(f"{_SELECT} WHERE p.no IN (SELECT value FROM json_each(?)) ORDER BY p.no", (numbers_json,))
    ]


def find_passage(organization_id: int, no: int) -> tuple[PassageRow, list[DoorRead]]:
    """Return a passage and the reads behind it, which only the box of the door has. Raises NotFound."""
    row = execute(
        f"{_SELECT} WHERE p.no = ? AND p.organization_id = ? AND {is_asset_shown('p.asset_id')}", (no, organization_id)
    ).fetchone()
    if row is None:
        raise NotFound("no such passage")
    passage = _row(row)
    (packed,) = execute("SELECT reads FROM passage WHERE no = ?", (no,)).fetchone()
    return passage, unpacked(packed, passage.since)


def totals(organization_id: int, since: int) -> dict[int, Totals]:
    """Return the totals of each door with passages since a time."""
    rows = execute(
        "SELECT door_id, sum(direction = 1), sum(direction = 2), sum(direction = 3), sum(direction = 0) "
        "FROM passage AS p INDEXED BY passage_age "
        f"WHERE at >= ? AND organization_id = ? AND {_SHOWN} GROUP BY door_id",
        (since, organization_id),
    )
    return {door_id: Totals(*numbers) for door_id, *numbers in rows}


def by_hour(organization_id: int, since: int) -> dict[int, tuple[int, int]]:
    """Return the passages in and out of all doors in each hour since a time, counted from there."""
    rows = execute(
        "SELECT (at - :since) / :hour, sum(direction = 1), sum(direction = 2) "
        "FROM passage AS p INDEXED BY passage_age "
        f"WHERE at >= :since AND organization_id = :organization_id AND {_SHOWN} GROUP BY 1",
        {"organization_id": organization_id, "since": since, "hour": clock.HOUR},
    )
    return {hour: (inward, outward) for hour, inward, outward in rows}


def export_rows(
    organization_id: int, since: int, until: int, door_id: int | None = None, asset_id: int | None = None
) -> Iterator[PassageRow]:
    """Yield all passages of a time range, oldest first."""
    for row in stream(
        f"{_SELECT} WHERE p.organization_id = ?1 AND p.at >= ?2 AND p.at < ?3 AND {_SHOWN} "
        "AND (?4 IS NULL OR p.door_id = ?4) AND (?5 IS NULL OR p.asset_id = ?5) ORDER BY p.at, p.no",
        (organization_id, since, until, door_id, asset_id),
    ):
        yield _row(row)
