"""One page of a list and the length of the whole list, for everything that has a window and can be searched.

How many rows a whole list has, cached until a record changes or a validity window opens or closes.

Counting ten thousand assets costs more than reading a page of them, and the count is nearly always the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

import orjson

from edge import clock
from edge.database.connection import database, execute, reading
from edge.database.lists import any_of
from edge.records.external_keys import effective, visible
from edge.records.search import Match
from edge.records.tags import Owner, TagRow, tags_as_json


class Source(NamedTuple):
    """Where a list's rows come from. `windowed` is the alias of the table whose window and deletion count.

    Rows of a `tagged` owner begin with its id, and get their tags as one more column.
    """

    columns: Sequence[str]
    tables: str
    windowed: str
    id_column: str
    tagged: Owner | None = None


class Wanted:
    """The conditions of one list, and the values of their parameters."""

    def __init__(self, organization_id: int, organization_column: str, *, include_deleted: bool) -> None:
        self.include_deleted = include_deleted
        self.values: dict[str, Any] = {"organization_id": organization_id, "now": clock.now()}
        self.conditions = [f"{organization_column} = :organization_id"]
        self.is_active: bool | None = None
        self.is_narrow = False

    def any_of(self, column: str, choices: Sequence[Any]) -> None:
        if choices:
            self.conditions.append(any_of(column, choices, self.values))
            self.is_narrow = True

    def active(self, alias: str, is_active: bool | None) -> None:
        if is_active is not None:
            self.is_active = is_active
            self.conditions.append(f"{alias}.is_active = :is_active")
            self.values["is_active"] = is_active


def view(wanted: Wanted, q: str) -> AbstractContextManager[None]:
    """One view of the database where several statements must agree; a plain page is a single statement."""
    return reading() if q or wanted.is_narrow else nullcontext()


def read_page(
    source: Source, wanted: Wanted, match: Match | None, order: str, limit: int, offset: int
) -> tuple[list[list[Any]], int]:
    """The rows of one page, and the count of all."""
    tables, conditions, values = source.tables, " AND ".join(wanted.conditions), wanted.values
    if match and match.ids is not None:
        tables = f"json_each(:ids) few CROSS JOIN {tables}"  # in this order: from the few to their rows
        conditions += f" AND {source.id_column} = few.value"
        values["ids"] = match.ids
    elif match:
        tables += f" CROSS JOIN searchable s ON s.id = {source.id_column}"
        conditions += f" AND {match.condition}"
        values |= match.values
    shown = f"{conditions} AND {visible(source.windowed, include_deleted=wanted.include_deleted)}"
    page = f"FROM {tables} WHERE {shown} ORDER BY {order} LIMIT :limit OFFSET :offset"
    version, rows = _at_once(source, page, {**values, "limit": limit, "offset": offset})
    if wanted.is_narrow or (match and match.ids is not None):
        return rows, execute(f"SELECT count(*) FROM {tables} WHERE {shown}", values).fetchone()[0]
    windowed = source.windowed
    if match and source.tables.startswith(match.kind):  # the matches of a plain list need no other table
        tables, windowed, conditions = "searchable s", "s", match.condition
        if wanted.is_active is not None:
            conditions += " AND s.is_active = :is_active"
    return rows, count_list(tables, windowed, conditions, values, version, include_deleted=wanted.include_deleted)


def _at_once(source: Source, page: str, values: dict[str, Any]) -> tuple[int, list[list[Any]]]:
    """The rows as one JSON text, with the version of the records.

    Fetched one by one, each row would release the interpreter's lock, and with many requests at once that costs more
    than the query.
    """
    names = [f"c{number}" for number in range(len(source.columns))]
    columns = ", ".join(f"{column} AS {name}" for column, name in zip(source.columns, names, strict=True))
    if source.tagged:
        names.append(tags_as_json(source.tagged, "c0"))
    sql = f"SELECT {VERSION}, json_group_array(json_array({', '.join(names)})) FROM (SELECT {columns} {page})"
    version, text = execute(sql, values).fetchone()
    return version, [_with_tags(row) for row in orjson.loads(text)] if source.tagged else orjson.loads(text)


def _with_tags(row: list[Any]) -> list[Any]:
    row[-1] = [TagRow._make(tag) for tag in row[-1]]
    return row


_MOST = 1000
_FAR = 2**63 - 1


class _Count(NamedTuple):
    """True from `since` until `until` while nothing is written."""

    version: int
    since: int
    until: int
    rows: int


_known: dict[Any, _Count] = {}


def forget() -> None:
    """For measuring what a request costs without the cache."""
    _known.clear()


VERSION = "(SELECT records FROM version)"


def count_list(
    source: str, alias: str, conditions: str, values: dict[str, Any], version: int, *, include_deleted: bool
) -> int:
    """The rows of `source` that meet `conditions` and are visible at `values["now"]`; `version` was just read."""
    now: int = values["now"]
    others = tuple((name, value) for name, value in values.items() if name != "now")
    key = (database.database, source, conditions, include_deleted, others)
    known = _known.get(key)
    if known is None or known.version != version or not known.since <= now < known.until:
        if len(_known) >= _MOST:
            _known.clear()
        known = _known[key] = _count(source, alias, conditions, values, include_deleted=include_deleted)
    return known.rows


def _count(source: str, alias: str, conditions: str, values: dict[str, Any], *, include_deleted: bool) -> _Count:
    """With the next instant at which a live row enters or leaves its window."""
    shown = effective(alias)
    if include_deleted:
        shown = f"{alias}.deleted_at IS NOT NULL OR ({shown})"
    else:
        conditions += f" AND {alias}.deleted_at IS NULL"
    version, count, opens, closes = execute(
        f"SELECT {VERSION}, count(*) FILTER (WHERE {shown}), "
        f"min({alias}.valid_from) FILTER (WHERE {alias}.valid_from > :now), "
        f"min({alias}.valid_to) FILTER (WHERE {alias}.valid_to > :now) "
        f"FROM {source} WHERE {conditions}",
        values,
    ).fetchone()
    return _Count(version, values["now"], min(opens or _FAR, closes or _FAR), count)
