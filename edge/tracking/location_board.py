"""Locations for display: the tree with the number of assets, and the assets at one location."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from edge.database.connection import execute, reading, scalar
from edge.database.lists import Page
from edge.memory_budget import hold_for_request
from edge.tracking.board import BOARD_COLUMNS, BoardRow
from edge.tracking.shown_positions import SHOWN
from edge.validation.values import MAX_NAME


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


# Keys and names up to a number of characters, None: in full.
_LOCATIONS = """
SELECT l.id, ifnull(substr(l.external_key, 1, ?2), l.external_key), ifnull(substr(l.name, 1, ?2), l.name),
       l.is_active, p.id
FROM location l LEFT JOIN location p ON p.id = l.parent_id AND p.deleted_at IS NULL
WHERE l.organization_id = ?1 AND l.deleted_at IS NULL ORDER BY l.name, l.id
"""
_NUMBER = "SELECT count(*) FROM location WHERE organization_id = ? AND deleted_at IS NULL"
_LETTERS = """
SELECT ifnull(sum(min(length(name), ?2) + min(length(external_key), ?2)), 0)
FROM location WHERE organization_id = ?1 AND deleted_at IS NULL
"""
_COUNTS = f"""
SELECT l.id, (SELECT count(*) FROM {SHOWN} t WHERE t.location_id = l.id AND t.is_retired = 0)
FROM location l WHERE l.organization_id = ?
"""


LONGEST_CHOICE = 80  # characters of a name in a list of all locations
DEEPEST_CHOICE = 8  # levels by which it is indented
LARGE, SHORT = 20_000, 30  # locations, beyond which keys and names in lists of all have at most so many characters
_BYTES, _BYTES_OF_LETTER, _BYTES_IN_PAGE = 600, 4, 12  # of one location, of its key and name, and in a list of all


class Choice(NamedTuple):
    """A live location in the tree, to choose from. A long name is cut, and a deep one less indented."""

    id: int
    name: str
    depth: int


def choices(organization_id: int) -> list[Choice]:
    """Return all live locations in the order of the tree, without the counts, which take longer. Raises Unavailable."""
    rows = _rows(organization_id, LONGEST_CHOICE, _BYTES_IN_PAGE)
    return [Choice(row[0], row[2], min(depth, DEEPEST_CHOICE)) for row, depth in _depth_first(_by_parent(rows))]


def _rows(organization_id: int, longest: int, of_letter: int = _BYTES_OF_LETTER) -> Iterator[Row]:
    """Return all live locations by name. Reserves their memory until the request ends; raises Unavailable."""
    number = scalar(
        "SELECT count(*) FROM location WHERE organization_id = ? AND deleted_at IS NULL", (organization_id,)
    )
    longest = longest if number <= LARGE else SHORT
    hold_for_request(_BYTES * number + of_letter * scalar(_LETTERS, (organization_id, longest)))
    for key, code, name, *rest in execute(_LOCATIONS, (organization_id, longest + 1)):
        yield key, code, name if len(name) <= longest else f"{name[: longest - 1]}…", *rest


def tree(organization_id: int) -> list[Branch]:
    """Return all live locations depth first, siblings by name, without cycles made by hand. Raises Unavailable."""
    with reading():
        counts = dict(execute(_COUNTS, (organization_id,)).fetchall())
        by_parent = _by_parent(_rows(organization_id, MAX_NAME))
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


def _by_parent(rows: Iterable[Row]) -> dict[int | None, list[Row]]:
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


def name_of(organization_id: int, location_id: int | None) -> str:
    """Return the name of a live location, "" without one."""
    sql = "SELECT name FROM location WHERE id = ? AND organization_id = ? AND deleted_at IS NULL"
    row = execute(sql, (location_id, organization_id)).fetchone()
    return row[0] if row else ""


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
    """Return all active locations in the order of the tree. Raises Unavailable."""
    hold_for_request(scalar(_MEMORY, (organization_id,)))
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


# Bytes of the result of `with_codes`, with its text as JSON. Names and keys take up to 4 bytes for each letter.
_MEMORY = f"""
SELECT 700 * count(*) + 6 * ifnull(sum(length(CAST(name || external_key AS BLOB))), 0) + 500 * (
    SELECT min(count(*), {MOST_CODES}) FROM tag WHERE organization_id = ?1 AND location_id IS NOT NULL
) FROM location WHERE organization_id = ?1 AND deleted_at IS NULL
"""


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
