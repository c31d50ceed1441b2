"""Where things are, for people: the list of assets with their locations, and the movements of one asset."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import orjson

from edge import clock
from edge.database.connection import execute, reading
from edge.database.lists import Page
from edge.records import gs1, search


class BoardFilter(NamedTuple):
    """`location_id` includes everything below it; `unseen_hours` also finds what was never seen. `site_id` is the
    location that represents a site at a hub; `location_id` is more specific and takes precedence.

    `sort` is a name of SORTS, with a leading minus for descending. `retired` shows the deleted assets instead.
    """

    q: str = ""
    location_id: int | None = None
    unseen_hours: int = 0
    sort: str = "key"
    retired: bool = False
    site_id: int | None = None

    @property
    def branch_id(self) -> int | None:
        """The top of the part of the location tree to search in."""
        return self.location_id or self.site_id


# What was never seen comes last either way. The default is the key: keys keep their order while things move, and
# minted ones are numbers in the order of creation.
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
    area_name: str | None  # of the location's parent: "B03" alone says little
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


def board(organization_id: int, wanted: BoardFilter, *, limit: int, offset: int = 0) -> Page[BoardRow]:
    """Live assets, or the retired ones, in the wanted order."""
    with reading():
        where, values = _where(organization_id, wanted)
        total = execute(_counted(where, values, wanted), values).fetchone()[0]
        found = execute(_listed(where, wanted), {**values, "limit": limit, "offset": offset}).fetchall()
    return Page([BoardRow(*row) for row in found], total)


def board_statement(organization_id: int, wanted: BoardFilter) -> tuple[str, dict[str, Any]]:
    """The board's rows as SQL, and its parameters, without `limit` and `offset`."""
    where, values = _where(organization_id, wanted)
    return _listed(where, wanted), values


def _listed(where: str, wanted: BoardFilter) -> str:
    return (
        f"{_start(wanted)} SELECT {BOARD_COLUMNS} FROM asset a LEFT JOIN position p ON p.asset_id = a.id "
        "LEFT JOIN location l ON l.id = p.location_id AND l.deleted_at IS NULL "
        f"WHERE {where} ORDER BY {_order(wanted.sort)} LIMIT :limit OFFSET :offset"
    )


def _counted(where: str, values: Mapping[str, Any], wanted: BoardFilter) -> str:
    """Only what the filter asks for is looked at: positions, or assets at all, would be most of the work."""
    if wanted.branch_id is not None or wanted.unseen_hours:
        return f"{_start(wanted)} SELECT count(*) FROM asset a LEFT JOIN position p ON p.asset_id = a.id WHERE {where}"
    if "needle" in values and "ids" not in values and not values["gs1_key"]:
        is_deleted = "IS NOT NULL" if wanted.retired else "IS NULL"
        return f"SELECT count(*) FROM searchable s WHERE {search.IN_TEXT} AND s.deleted_at {is_deleted}"
    return f"SELECT count(*) FROM asset a WHERE {where}"


def _start(wanted: BoardFilter) -> str:
    return BELOW if wanted.branch_id is not None else ""


def count_unseen(organization_id: int, lengths: Sequence[int]) -> dict[int, int]:
    """How many live assets were not seen for so many hours, by hours; those never seen count in every number."""
    now = clock.now()
    columns = ", ".join("sum(p.last_seen_at IS NULL OR p.last_seen_at < ?)" for _ in lengths)
    found = execute(
        f"SELECT {columns} FROM asset a LEFT JOIN position p ON p.asset_id = a.id "
        "WHERE a.organization_id = ? AND a.deleted_at IS NULL",
        (*(now - hours * clock.HOUR for hours in lengths), organization_id),
    ).fetchone()
    return {hours: count or 0 for hours, count in zip(lengths, found, strict=True)}


def by_ids(organization_id: int, asset_ids: Sequence[int]) -> list[BoardRow]:
    """The live ones among them, by key."""
    sql = (
        f"SELECT {BOARD_COLUMNS} FROM asset a LEFT JOIN position p ON p.asset_id = a.id "
        "LEFT JOIN location l ON l.id = p.location_id AND l.deleted_at IS NULL "
        "WHERE a.organization_id = ? AND a.deleted_at IS NULL AND a.id IN (SELECT value FROM json_each(?)) "
        "ORDER BY a.external_key"
    )
    ids = orjson.dumps(list(asset_ids)).decode()
    return [BoardRow(*row) for row in execute(sql, (organization_id, ids))]


def whereabouts(organization_id: int, asset_id: int, *, include_retired: bool = False) -> BoardRow | None:
    """One asset and its location."""
    sql = (
        f"SELECT {BOARD_COLUMNS} FROM asset a LEFT JOIN position p ON p.asset_id = a.id "
        "LEFT JOIN location l ON l.id = p.location_id AND l.deleted_at IS NULL "
        f"WHERE a.organization_id = ? AND a.id = ?{'' if include_retired else ' AND a.deleted_at IS NULL'}"
    )
    row = execute(sql, (organization_id, asset_id)).fetchone()
    return BoardRow(*row) if row else None


def _where(organization_id: int, wanted: BoardFilter) -> tuple[str, dict[str, Any]]:
    parts = ["a.organization_id = :organization_id", f"a.deleted_at IS {'NOT ' if wanted.retired else ''}NULL"]
    values: dict[str, Any] = {"organization_id": organization_id}
    if wanted.q:
        fits, found = has_words(organization_id, wanted.q)
        parts.append(fits)
        values |= found
        if "ids" in found:
            parts[0] = f"+{parts[0]}"  # from the few to their rows, not over all of the organization's
    if wanted.branch_id is not None:
        parts.append("p.location_id IN (SELECT id FROM below)")
        values["location_id"] = wanted.branch_id
    if wanted.unseen_hours:
        parts.append("(p.last_seen_at IS NULL OR p.last_seen_at < :unseen_since)")
        values["unseen_since"] = clock.now() - wanted.unseen_hours * clock.HOUR
    return " AND ".join(parts), values


def has_words(organization_id: int, q: str) -> tuple[str, dict[str, Any]]:
    """The condition on an asset `a` that has `q` in its name, key or live tags, with its values."""
    found = search.match("asset", organization_id, q, descriptions=False)
    values = found.values | {"gs1_key": gs1.identity(q)}
    if found.ids is None:  # so many that a page of them is soon found
        fits = f"EXISTS (SELECT 1 FROM searchable s WHERE s.id = a.id AND {found.condition})"
    else:
        fits = "a.id IN (SELECT value FROM json_each(:ids))"
        values["ids"] = found.ids
    return (f"({fits} OR a.id IN ({_BY_GS1}))" if values["gs1_key"] else fits), values


def _order(sort: str) -> str:
    column = SORTS.get(sort.removeprefix("-"), SORTS[DEFAULT_SORT])
    return column.format("DESC" if sort.startswith("-") else "") + ", a.id"
