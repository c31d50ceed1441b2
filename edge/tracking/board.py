"""Current locations for display: the list of assets with their locations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from edge import clock
from edge.database.connection import execute, reading
from edge.database.lists import Page
from edge.records import gs1, search
from edge.validation import json_text


class BoardFilter(NamedTuple):
    """Filter of the board. `location_id` includes descendants; `unseen_hours` includes assets never seen.

    `site_id` is the location that represents a site at a hub; `location_id` takes precedence. `sort` is a name in
    SORTS, with a leading minus for descending. `retired` selects deleted assets instead.
    """

    q: str = ""
    location_id: int | None = None
    unseen_hours: int = 0
    sort: str = "key"
    retired: bool = False
    site_id: int | None = None

    @property
    def branch_id(self) -> int | None:
        """Root of the subtree to search."""
        return self.location_id or self.site_id


# Assets never seen always come last. The default is the key, which is stable while assets move.
SORTS = {
    "name": "a.name COLLATE NOCASE {0}",
    "key": "a.external_key {0}",
    "location": "l.name IS NULL, l.name COLLATE NOCASE {0}, a.name COLLATE NOCASE",
    "since": "p.dwell_started_at IS NULL, p.dwell_started_at {0}, a.name COLLATE NOCASE",
    "seen": "p.last_seen_at IS NULL, p.last_seen_at {0}, a.name COLLATE NOCASE",
}
DEFAULT_SORT = "key"


class BoardRow(NamedTuple):
    asset_id: int
    external_key: str
    name: str
    is_active: bool
    location_id: int | None
    location_key: str | None
    location_name: str | None
    area_name: str | None  # of the location's parent
    last_seen_at: int | None
    dwell_started_at: int | None
    deleted_at: int | None


_BY_GS1 = """
SELECT asset_id FROM tag WHERE organization_id = :organization_id AND gs1_key = :gs1_key AND gs1_key IS NOT NULL
AND deleted_at IS NULL AND asset_id IS NOT NULL
"""
BELOW = """
WITH RECURSIVE below (id) AS (
    SELECT :location_id
    UNION
    SELECT location.id FROM below JOIN location ON location.parent_id = below.id AND location.deleted_at IS NULL
)
"""

BOARD_COLUMNS = (
    "a.id, a.external_key, a.name, a.is_active, l.id, l.external_key, l.name, "
    "(SELECT name FROM location WHERE id = l.parent_id AND deleted_at IS NULL), "
    "p.last_seen_at, p.dwell_started_at, a.deleted_at"
)


def board(organization_id: int, filters: BoardFilter, *, limit: int, offset: int = 0) -> Page[BoardRow]:
    """Return a page of live assets, or of retired ones, in the given order."""
    with reading():
        where, values = _where(organization_id, filters)
        total = execute(_counted(where, values, filters), values).fetchone()[0]
        rows = execute(_listed(where, filters), {**values, "limit": limit, "offset": offset}).fetchall()
    return Page([BoardRow(*row) for row in rows], total)


def board_statement(organization_id: int, filters: BoardFilter) -> tuple[str, dict[str, Any]]:
    """Return the board's rows as SQL with its parameters, except `limit` and `offset`."""
    where, values = _where(organization_id, filters)
    return _listed(where, filters), values


def _listed(where: str, filters: BoardFilter) -> str:
    return (
        f"{_start(filters)} SELECT {BOARD_COLUMNS} FROM asset a LEFT JOIN position p ON p.asset_id = a.id "
        "LEFT JOIN location l ON l.id = p.location_id AND l.deleted_at IS NULL "
        f"WHERE {where} ORDER BY {_order(filters.sort)} LIMIT :limit OFFSET :offset"
    )


def _counted(where: str, values: Mapping[str, Any], filters: BoardFilter) -> str:
    """Return the statement that counts the rows. It joins only tables that the filter needs, for speed."""
    if filters.branch_id is not None or filters.unseen_hours:
        return f"{_start(filters)} SELECT count(*) FROM asset a LEFT JOIN position p ON p.asset_id = a.id WHERE {where}"
    if "needle" in values and "ids" not in values and not values["gs1_key"]:
        is_deleted = "IS NOT NULL" if filters.retired else "IS NULL"
        return f"SELECT count(*) FROM searchable s WHERE {search.IN_TEXT} AND s.deleted_at {is_deleted}"
    return f"SELECT count(*) FROM asset a WHERE {where}"


def _start(filters: BoardFilter) -> str:
    return BELOW if filters.branch_id is not None else ""


def count_unseen(organization_id: int, lengths: Sequence[int]) -> dict[int, int]:
    """Return the number of live assets not seen for each of these lengths (hours), including assets never seen."""
    now = clock.now()
    columns = ", ".join("sum(p.last_seen_at IS NULL OR p.last_seen_at < ?)" for _ in lengths)
    counts = execute(
        f"SELECT {columns} FROM asset a LEFT JOIN position p ON p.asset_id = a.id "
        "WHERE a.organization_id = ? AND a.deleted_at IS NULL",
        (*(now - hours * clock.HOUR for hours in lengths), organization_id),
    ).fetchone()
    return {hours: count or 0 for hours, count in zip(lengths, counts, strict=True)}


def by_ids(organization_id: int, asset_ids: Sequence[int]) -> list[BoardRow]:
    """Return the live assets among these ids, sorted by key."""
    sql = (
        f"SELECT {BOARD_COLUMNS} FROM asset a LEFT JOIN position p ON p.asset_id = a.id "
        "LEFT JOIN location l ON l.id = p.location_id AND l.deleted_at IS NULL "
        "WHERE a.organization_id = ? AND a.deleted_at IS NULL AND a.id IN (SELECT value FROM json_each(?)) "
        "ORDER BY a.external_key"
    )
    ids = json_text.text(list(asset_ids))
    return [BoardRow(*row) for row in execute(sql, (organization_id, ids))]


def whereabouts(organization_id: int, asset_id: int, *, include_retired: bool = False) -> BoardRow | None:
    """Return one asset with its location."""
    sql = (
        f"SELECT {BOARD_COLUMNS} FROM asset a LEFT JOIN position p ON p.asset_id = a.id "
        "LEFT JOIN location l ON l.id = p.location_id AND l.deleted_at IS NULL "
        f"WHERE a.organization_id = ? AND a.id = ?{'' if include_retired else ' AND a.deleted_at IS NULL'}"
    )
    row = execute(sql, (organization_id, asset_id)).fetchone()
    return BoardRow(*row) if row else None


def _where(organization_id: int, filters: BoardFilter) -> tuple[str, dict[str, Any]]:
    conditions = ["a.organization_id = :organization_id", f"a.deleted_at IS {'NOT ' if filters.retired else ''}NULL"]
    values: dict[str, Any] = {"organization_id": organization_id}
    if filters.q:
        matches, text_values = matches_text(organization_id, filters.q)
        conditions.append(matches)
        values |= text_values
        if "ids" in text_values:
            conditions[0] = f"+{conditions[0]}"  # the plus makes SQLite start from the ids, not from the organization
    if filters.branch_id is not None:
        conditions.append("p.location_id IN (SELECT id FROM below)")
        values["location_id"] = filters.branch_id
    if filters.unseen_hours:
        conditions.append("(p.last_seen_at IS NULL OR p.last_seen_at < :unseen_since)")
        values["unseen_since"] = clock.now() - filters.unseen_hours * clock.HOUR
    return " AND ".join(conditions), values


def matches_text(organization_id: int, q: str) -> tuple[str, dict[str, Any]]:
    """Return the condition that an asset `a` has `q` in its name, key or live tags, with its values."""
    matched = search.match("asset", organization_id, q, has_descriptions=False)
    values = matched.values | {"gs1_key": gs1.identity(q)}
    if matched.ids is None:  # too many ids: scan until the page is full
        matches = f"EXISTS (SELECT 1 FROM searchable s WHERE s.id = a.id AND {matched.condition})"
    else:
        matches = "a.id IN (SELECT value FROM json_each(:ids))"
        values["ids"] = matched.ids
    return (f"({matches} OR a.id IN ({_BY_GS1}))" if values["gs1_key"] else matches), values


def _order(sort: str) -> str:
    column = SORTS.get(sort.removeprefix("-"), SORTS[DEFAULT_SORT])
    return column.format("DESC" if sort.startswith("-") else "") + ", a.id"
