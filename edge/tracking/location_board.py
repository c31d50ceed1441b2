"""Locations for display: the tree with the number of assets, and the assets at one location."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from edge.database.connection import execute, reading
from edge.database.lists import Page
from edge.tracking.board import BOARD_COLUMNS, BoardRow


class Branch(NamedTuple):
    """A live location in the tree, with the number of assets at it, and of those at it or below."""

    id: int
    external_key: str
    name: str
    is_active: bool
    parent_id: int | None
    depth: int
    here: int
    below: int
    children: int


_LOCATIONS = """
SELECT l.id, l.external_key, l.name, l.is_active, p.id
FROM location l LEFT JOIN location p ON p.id = l.parent_id AND p.deleted_at IS NULL
WHERE l.organization_id = ? AND l.deleted_at IS NULL ORDER BY l.name, l.id
"""
_COUNTS = """
SELECT position.location_id, count(*) FROM position JOIN asset ON asset.id = position.asset_id
WHERE position.organization_id = ? AND asset.deleted_at IS NULL GROUP BY position.location_id
"""


def tree(organization_id: int) -> list[Branch]:
    """Return all live locations depth first, siblings by name. Cycles (made by hand) are left out."""
    with reading():
        counts = dict(execute(_COUNTS, (organization_id,)).fetchall())
        rows = execute(_LOCATIONS, (organization_id,)).fetchall()
    by_parent: dict[int | None, list[tuple[int, str, str, int, int | None]]] = {}
    for row in rows:
        by_parent.setdefault(row[4], []).append(row)
    order, stack = [], [(row, 0) for row in reversed(by_parent.get(None, []))]
    while stack:
        row, depth = stack.pop()
        order.append((row, depth))
        stack += [(child, depth + 1) for child in reversed(by_parent.get(row[0], []))]
    below = {row[0]: counts.get(row[0], 0) for row, _ in order}
    for row, _ in reversed(order):
        if row[4] is not None:
            below[row[4]] += below[row[0]]
    return [
        Branch(key, code, name, bool(on), parent, depth, counts.get(key, 0), below[key], len(by_parent.get(key, ())))
        for (key, code, name, on, parent), depth in order
    ]


def names(organization_id: int) -> dict[int, str]:
    """Return the names of all live locations by id."""
    rows = execute("SELECT id, name FROM location WHERE organization_id = ? AND deleted_at IS NULL", (organization_id,))
    return dict(rows.fetchall())


def way_to(branches: Sequence[Branch], location_id: int) -> list[Branch]:
    """Return the path from the root to a location."""
    by_id = {branch.id: branch for branch in branches}
    way: list[Branch] = []
    step = by_id.get(location_id)
    while step is not None:
        way.append(step)
        step = by_id.get(step.parent_id or 0)
    return way[::-1]


def inside(branches: Sequence[Branch], location_id: int) -> list[Branch]:
    """Return a location and all its descendants, parents first."""
    ids = {location_id}
    for branch in branches:
        if branch.parent_id in ids:
            ids.add(branch.id)
    return [branch for branch in branches if branch.id in ids]


class LocationCodes(NamedTuple):
    """A location for scanning, with the codes that its labels may carry besides its key."""

    id: int
    name: str
    area: str | None
    external_key: str
    parent_id: int | None
    codes: tuple[str, ...]


_CODES = """
SELECT location_id, value FROM tag WHERE organization_id = ? AND location_id IS NOT NULL AND deleted_at IS NULL
"""


def with_codes(organization_id: int) -> list[LocationCodes]:
    """Return all active locations in the order of the tree."""
    branches = tree(organization_id)
    names = {branch.id: branch.name for branch in branches}
    codes: dict[int, list[str]] = {}
    for location_id, value in execute(_CODES, (organization_id,)):
        codes.setdefault(location_id, []).append(value)
    return [
        LocationCodes(
            row.id,
            row.name,
            names.get(row.parent_id or 0),
            row.external_key,
            row.parent_id,
            tuple(codes.get(row.id, ())),
        )
        for row in branches
        if row.is_active
    ]


_HERE = """
FROM position p JOIN asset a ON a.id = p.asset_id JOIN location l ON l.id = p.location_id
WHERE p.location_id = :location_id AND p.organization_id = :organization_id AND a.deleted_at IS NULL
"""


def here(organization_id: int, location_id: int, *, limit: int, offset: int = 0) -> Page[BoardRow]:
    """Return the assets at a location, sorted by name."""
    values = {"location_id": location_id, "organization_id": organization_id, "limit": limit, "offset": offset}
    with reading():
        total = execute(f"SELECT count(*) {_HERE}", values).fetchone()[0]
        sql = f"SELECT {BOARD_COLUMNS} {_HERE} ORDER BY a.name COLLATE NOCASE, a.id LIMIT :limit OFFSET :offset"
        return Page([BoardRow(*row) for row in execute(sql, values)], total)
