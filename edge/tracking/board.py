"""Current locations for display: the list of assets with their locations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from edge import clock
from edge.database.connection import execute, reading
from edge.database.lists import Page
from edge.records import gs1, loans, search
from edge.records.loans import LoanFilter
from edge.tracking.shown_positions import SHOWN
from edge.validation import json_text
from edge.validation.values import MAX_INT64


class BoardFilter(NamedTuple):
    """Filter of the board. `location_id` includes descendants; `unseen_hours` includes assets never seen.

    `site_id` is the location that represents a site at a hub; `location_id` takes precedence. `sort` is a name in
    SORTS, with a leading minus for descending. `retired` selects deleted assets instead. `loan` selects lent assets.
    """

    q: str = ""
    location_id: int | None = None
    unseen_hours: int = 0
    sort: str = "key"
    retired: bool = False
    site_id: int | None = None
    loan: LoanFilter | None = None

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
    SELECT id FROM location WHERE id = :location_id AND organization_id = :organization_id
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
        values |= {"limit": limit, "offset": offset}
        total = _count(organization_id, where, values, filters)
        if limit == 0:
            return Page([], total)
        if filters.q or filters.retired or filters.loan:
            rows = execute(_listed(where, filters), values).fetchall()
        elif filters.branch_id is not None and total <= MOST_SORTED:
            rows = execute(_of_branch(filters), values).fetchall()
        elif filters.sort.removeprefix("-") in _SEEN_FIRST:
            rows = _seen_first(filters, values)
        elif filters.branch_id is None and not filters.unseen_hours:
            rows = execute(_of_all(filters), values).fetchall()
        else:
            rows = execute(_listed(where, filters), values).fetchall()
    return Page([BoardRow(*row) for row in rows], total)


MOST_SORTED = 20_000  # assets of one branch; larger ones are read in the order of an index
_LIVE = "p.organization_id = :organization_id AND p.is_retired = 0"
_ASSET = "CROSS JOIN asset a ON a.id = p.asset_id"
_LOCATION = "LEFT JOIN location l ON l.id = p.location_id AND l.deleted_at IS NULL"
_ASSETS = f"asset a LEFT JOIN {SHOWN} p ON p.asset_id = a.id {_LOCATION}"
# The assets that have a value in the sorted column, to be read in the order of an index.
_SEEN_FIRST = {
    "location": f"location l CROSS JOIN {SHOWN} p ON p.location_id = l.id AND l.organization_id = :organization_id "
    f"AND l.deleted_at IS NULL {_ASSET} WHERE {_LIVE}",
    "since": f"{SHOWN} p {_ASSET} {_LOCATION} WHERE {_LIVE}",
    "seen": f"{SHOWN} p {_ASSET} {_LOCATION} WHERE {_LIVE}",
}
_SEEN_ORDER = {
    "location": "l.name COLLATE NOCASE {0}, a.name COLLATE NOCASE, a.id",
    "since": "p.dwell_started_at {0}, a.name COLLATE NOCASE, a.id",
    "seen": "p.last_seen_at {0}, a.name COLLATE NOCASE, a.id",
}
# The others, which come last.
_HAS_TRACK = f"EXISTS (SELECT 1 FROM {SHOWN} t WHERE t.asset_id = a.id)"
_REST = {
    "location": f"NOT EXISTS (SELECT 1 FROM {SHOWN} t JOIN location l ON l.id = t.location_id "
    "AND l.deleted_at IS NULL WHERE t.asset_id = a.id)",
    "since": f"NOT {_HAS_TRACK}",
    "seen": f"NOT {_HAS_TRACK}",
}


def _seen_first(filters: BoardFilter, values: dict[str, Any]) -> list[Any]:
    """Return a page in the order of a column that only assets with a location have."""
    column, order = filters.sort.removeprefix("-"), "DESC" if filters.sort.startswith("-") else ""
    conditions = ""
    if filters.branch_id is not None:
        conditions += " AND p.location_id IN (SELECT id FROM below)"
    if filters.unseen_hours:
        conditions += " AND p.last_seen_at < :unseen_since"
    seen = f"FROM {_SEEN_FIRST[column]}{conditions}"
    rows = execute(
        f"{_start(filters)} SELECT {BOARD_COLUMNS} {seen} "
        f"ORDER BY {_SEEN_ORDER[column].format(order)} LIMIT :limit OFFSET :offset",
        values,
    ).fetchall()
    if len(rows) == values["limit"] or (filters.branch_id is not None and column != "location"):
        return rows
    offset = values["offset"]
    if not rows and offset:
        offset -= execute(f"{_start(filters)} SELECT count(*) {seen}", values).fetchone()[0]
    rest = values | {"limit": values["limit"] - len(rows), "offset": max(offset, 0) if not rows else 0}
    unseen = " AND (p.last_seen_at IS NULL OR p.last_seen_at < :unseen_since)" if filters.unseen_hours else ""
    in_branch = " AND p.location_id IN (SELECT id FROM below)" if filters.branch_id is not None else ""
    others = execute(
        f"{_start(filters)} SELECT {BOARD_COLUMNS} FROM {_ASSETS} WHERE a.organization_id = :organization_id "
        f"AND a.deleted_at IS NULL AND {_REST[column]}{unseen}{in_branch} "
        "ORDER BY a.name COLLATE NOCASE, a.id LIMIT :limit OFFSET :offset",
        rest,
    ).fetchall()
    return rows + others


def _of_all(filters: BoardFilter) -> str:
    """Return the statement in the order of an index of all assets, which passes over rows without reading them."""
    return (
        f"SELECT {BOARD_COLUMNS} FROM {_ASSETS} "
        "WHERE a.id IN (SELECT a.id FROM asset a WHERE a.organization_id = :organization_id AND a.deleted_at IS NULL "
        f"ORDER BY {_order(filters.sort)} LIMIT :limit OFFSET :offset) ORDER BY {_order(filters.sort)}"
    )


def _of_branch(filters: BoardFilter) -> str:
    """Return the statement that begins with the locations of a branch, for few assets."""
    unseen = " AND p.last_seen_at < :unseen_since" if filters.unseen_hours else ""
    return (
        f"{BELOW} SELECT {BOARD_COLUMNS} FROM below CROSS JOIN {SHOWN} p ON p.location_id = below.id {_ASSET} "
        f"{_LOCATION} WHERE {_LIVE}{unseen} ORDER BY {_order(filters.sort)} LIMIT :limit OFFSET :offset"
    )


def _count(organization_id: int, where: str, values: Mapping[str, Any], filters: BoardFilter) -> int:
    """Return the number of all rows. Without a search, it is counted by indexes alone where possible."""
    if filters.q or filters.retired or filters.loan:
        counted = execute(_counted(where, values, filters), values).fetchone()[0]
    elif filters.branch_id is not None:
        unseen = " AND p.last_seen_at < :unseen_since" if filters.unseen_hours else ""
        counted = execute(
            f"{BELOW} SELECT count(*) FROM below CROSS JOIN {SHOWN} p ON p.location_id = below.id "
            f"WHERE p.is_retired = 0{unseen}",
            values,
        ).fetchone()[0]
    elif filters.unseen_hours:
        return count_unseen(organization_id, [filters.unseen_hours])[filters.unseen_hours]
    else:
        counted = execute(_LIVE_ASSETS, (organization_id,)).fetchone()[0]
    total: int = counted
    return total


_LIVE_ASSETS = "SELECT count(*) FROM asset WHERE organization_id = ? AND deleted_at IS NULL"


def board_statement(organization_id: int, filters: BoardFilter) -> tuple[str, dict[str, Any]]:
    """Return the board's rows as SQL with its parameters, except `limit` and `offset`."""
    where, values = _where(organization_id, filters)
    return _listed(where, filters), values


def _listed(where: str, filters: BoardFilter) -> str:
    return (
        f"{_start(filters)} SELECT {BOARD_COLUMNS} FROM {_ASSETS} "
        f"WHERE {where} ORDER BY {_order(filters.sort)} LIMIT :limit OFFSET :offset"
    )


def _counted(where: str, values: Mapping[str, Any], filters: BoardFilter) -> str:
    """Return the statement that counts the rows. It joins only tables that the filter needs, for speed."""
    if filters.branch_id is not None or filters.unseen_hours:
        return f"{_start(filters)} SELECT count(*) FROM asset a LEFT JOIN {SHOWN} p ON p.asset_id = a.id WHERE {where}"
    if "needle" in values and "ids" not in values and not values["gs1_key"] and not filters.loan:
        is_deleted = "IS NOT NULL" if filters.retired else "IS NULL"
        return f"SELECT count(*) FROM searchable s WHERE {search.IN_TEXT} AND s.deleted_at {is_deleted}"
    return f"SELECT count(*) FROM asset a WHERE {where}"


def _start(filters: BoardFilter) -> str:
    return BELOW if filters.branch_id is not None else ""


def count_unseen(organization_id: int, lengths: Sequence[int]) -> dict[int, int]:
    """Return the number of live assets not seen for each of these lengths (hours), including assets never seen."""
    now = clock.now()
    moments = {hours: now - hours * clock.HOUR for hours in lengths}
    total = execute(_LIVE_ASSETS, (organization_id,)).fetchone()[0]
    unseen, seen, until = {}, 0, MAX_INT64
    for hours, since in sorted(moments.items(), key=lambda item: -item[1]):
        seen += execute(_SEEN_BETWEEN, (organization_id, since, until)).fetchone()[0]
        unseen[hours], until = total - seen, since
    return {hours: unseen[hours] for hours in lengths}


_SEEN_BETWEEN = (
    f"SELECT count(*) FROM {SHOWN} "
    "WHERE organization_id = ? AND is_retired = 0 AND last_seen_at >= ? AND last_seen_at < ?"
)


def by_ids(organization_id: int, asset_ids: Sequence[int], *, are_retired: bool = False) -> list[BoardRow]:
    """Return the live assets among these ids, or the retired ones, sorted by key."""
    sql = (
        f"SELECT {BOARD_COLUMNS} FROM {_ASSETS} "
        f"WHERE +a.organization_id = ? AND a.deleted_at IS {'NOT ' if are_retired else ''}NULL "
        "AND a.id IN (SELECT value FROM json_each(?)) "
        "ORDER BY a.external_key"
    )
    ids = json_text.text(list(asset_ids))
    return [BoardRow(*row) for row in execute(sql, (organization_id, ids))]


def whereabouts(organization_id: int, asset_id: int, *, include_retired: bool = False) -> BoardRow | None:
    """Return one asset with its location."""
    sql = (
        f"SELECT {BOARD_COLUMNS} FROM {_ASSETS} "
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
    if filters.loan:
        conditions.append(loans.CONDITIONS[filters.loan])
        values["loan_now"] = clock.now()
        conditions[0] = f"+{conditions[0].removeprefix('+')}"  # the plus makes SQLite start from the loans
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
