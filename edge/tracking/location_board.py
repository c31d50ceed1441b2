"""Locations for display: the tree with the number of assets, and the assets at one location."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from edge.database.connection import execute, reading, scalar
from edge.database.lists import Page
from edge.tracking.board import BOARD_COLUMNS, BoardRow
from edge.tracking.shown_positions import SHOWN


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


# A name up to a number of characters, None: in full.
_LOCATIONS = """
SELECT l.id, l.external_key, ifnull(substr(l.name, 1, ?2), l.name), l.is_active, p.id
FROM location l LEFT JOIN location p ON p.id = l.parent_id AND p.deleted_at IS NULL
WHERE l.organization_id = ?1 AND l.deleted_at IS NULL ORDER BY l.name, l.id
"""
_COUNTS = f"""
SELECT l.id, (SELECT count(*) FROM {SHOWN} t WHERE t.location_id = l.id AND t.is_retired = 0)
FROM location l WHERE l.organization_id = ?
"""


LONGEST_CHOICE = 80  # characters of a name in a list of all locations
DEEPEST_CHOICE = 8  # levels by which it is indented


class Choice(NamedTuple):
    """A live location in the tree, to choose from. A long name is cut, and a deep one less indented."""

    id: int
    name: str
    depth: int


def choices(organization_id: int) -> list[Choice]:
    """Return all live locations in the order of the tree, without the counts, which take longer."""
    rows = execute(_LOCATIONS, (organization_id, LONGEST_CHOICE + 1)).fetchall()
    return [Choice(row[0], _cut(row[2]), min(depth, DEEPEST_CHOICE)) for row, depth in _depth_first(_by_parent(rows))]


def _cut(name: str) -> str:
    return name if len(name) <= LONGEST_CHOICE else f"{name[: LONGEST_CHOICE - 1]}…"


def tree(organization_id: int) -> list[Branch]:
    """Return all live locations depth first, siblings by name. Cycles (made by hand) are left out."""
    with reading():
        counts = dict(execute(_COUNTS, (organization_id,)).fetchall())
        by_parent = _by_parent(execute(_LOCATIONS, (organization_id, None)).fetchall())
    order = _depth_first(by_parent)
    below = {row[0]: counts.get(row[0], 0) for row, _ in order}
    for row, _ in reversed(order):
        if row[4] is not None:
            below[row[4]] += below[row[0]]
    return [
        Branch(key, code, name, bool(on), parent, depth, counts.get(key, 0), below[key], len(by_parent.get(key, ())))
        for (key, code, name, on, parent), depth in order
    ]


class Oldest(NamedTuple):
    """The earliest arrival and the earliest last read among the assets at a location or below."""

    dwell_started_at: int
    last_seen_at: int


_OLDEST = f"""
SELECT location_id, min(dwell_started_at), min(last_seen_at) FROM {SHOWN}
WHERE organization_id = ? AND is_retired = 0 AND location_id IS NOT NULL GROUP BY location_id
"""


def oldest(organization_id: int, branches: Sequence[Branch]) -> dict[int, Oldest]:
    """Return the oldest stays by location, for those with assets. `branches` is the whole tree, parents first."""
    by_location = {row[0]: Oldest(*row[1:]) for row in execute(_OLDEST, (organization_id,))}
    for branch in reversed(branches):
        own = by_location.get(branch.id)
        if own is not None and branch.parent_id is not None:
            above = by_location.get(branch.parent_id, own)
            by_location[branch.parent_id] = Oldest(*map(min, own, above))
    return by_location


Row = tuple[int, str, str, int, int | None]


def _by_parent(rows: Sequence[Row]) -> dict[int | None, list[Row]]:
    by_parent: dict[int | None, list[Row]] = {}
    for row in rows:
        by_parent.setdefault(row[4], []).append(row)
    return by_parent


def _depth_first(by_parent: dict[int | None, list[Row]]) -> list[tuple[Row, int]]:
    order, stack = [], [(row, 0) for row in reversed(by_parent.get(None, []))]
    while stack:
        row, depth = stack.pop()
        order.append((row, depth))
        stack += [(child, depth + 1) for child in reversed(by_parent.get(row[0], []))]
    return order


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


MOST_CODES = 100_000  # of all locations: each can have 500 tags
_CODES = f"""
SELECT location_id, value FROM tag WHERE organization_id = ?1 AND location_id IS NOT NULL AND deleted_at IS NULL
UNION SELECT location_id, gs1_key FROM tag WHERE organization_id = ?1 AND location_id IS NOT NULL AND deleted_at IS NULL
AND gs1_key IS NOT NULL ORDER BY 1 LIMIT {MOST_CODES}
"""


def with_codes(organization_id: int) -> list[LocationCodes]:
    """Return all active locations in the order of the tree."""
    rows = [row for row, _ in _depth_first(_by_parent(execute(_LOCATIONS, (organization_id, None)).fetchall()))]
    names = {row[0]: row[2] for row in rows}
    codes: dict[int, list[str]] = {}
    for location_id, value in execute(_CODES, (organization_id,)):
        codes.setdefault(location_id, []).append(value)
    return [
        LocationCodes(key, name, names.get(parent or 0), code, parent, tuple(codes.get(key, ())))
        for key, code, name, is_active, parent in rows
        if is_active
    ]


# Names are kept with up to 4 bytes for each letter, and as JSON.
_MEMORY = f"""
SELECT 700 * count(*) + 6 * total(length(CAST(name AS BLOB))) + 500 * (
    SELECT min(count(*), {MOST_CODES}) FROM tag WHERE organization_id = ?1 AND location_id IS NOT NULL
) FROM location WHERE organization_id = ?1 AND deleted_at IS NULL
"""


def memory_of_codes(organization_id: int) -> int:
    """Return the bytes that the result of `with_codes` takes, with its text as JSON."""
    return int(scalar(_MEMORY, (organization_id,)))


_HERE = f"""
FROM {SHOWN} p CROSS JOIN asset a ON a.id = p.asset_id CROSS JOIN location l ON l.id = p.location_id
WHERE p.location_id = :location_id AND p.organization_id = :organization_id AND p.is_retired = 0
"""


def here(organization_id: int, location_id: int, *, limit: int, offset: int = 0) -> Page[BoardRow]:
    """Return the assets at a location, sorted by name."""
    values = {"location_id": location_id, "organization_id": organization_id, "limit": limit, "offset": offset}
    with reading():
        total = execute(f"SELECT count(*) {_HERE}", values).fetchone()[0]
        sql = f"SELECT {BOARD_COLUMNS} {_HERE} ORDER BY a.name COLLATE NOCASE, a.id LIMIT :limit OFFSET :offset"
        return Page([BoardRow(*row) for row in execute(sql, values)], total)
