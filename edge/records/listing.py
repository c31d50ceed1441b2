"""Pages of lists that have validity windows and can be searched, with the total count.

Counting 10,000 assets takes longer than reading a page of them, so counts are cached until a record changes or a
validity window opens or closes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any, NamedTuple

from edge import clock
from edge.database.connection import database, execute, reading
from edge.database.lists import any_of
from edge.memory_budget import hold_for_request
from edge.records.external_keys import effective, visible
from edge.records.search import Match
from edge.records.tags import Owner, TagRow, tags_as_json
from edge.validation import json_text


class Source(NamedTuple):
    """Tables and columns of a list.

    `windowed` is the alias of the table with the validity window and `deleted_at`. With `tagged`, the first column is
    the id of the asset or location, and its tags are added as the last column.
    """

    columns: Sequence[str]
    tables: str
    windowed: str
    id_column: str
    tagged: Owner | None = None


_OF_CHARACTER, _OF_TAG = 4, 500  # bytes, as a row and in an answer


class ListQuery:
    """SQL conditions of one list, with the values of their parameters."""

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


def view(query: ListQuery, q: str) -> AbstractContextManager[None]:
    """Return a read transaction if the list needs several statements; a plain page is a single statement."""
    return reading() if q or query.is_narrow else nullcontext()


def read_page(
    source: Source, query: ListQuery, match: Match | None, order: str, limit: int, offset: int
) -> tuple[list[Sequence[Any]], int]:
    """Return the rows of one page, and the number of rows in the whole list."""
    tables, conditions, values = source.tables, " AND ".join(query.conditions), query.values
    if match and match.ids is not None:
        tables = f"json_each(:ids) few CROSS JOIN {tables}"  # CROSS JOIN fixes the order: ids first
        conditions += f" AND {source.id_column} = few.value"
        values["ids"] = match.ids
    elif match:
        tables += f" CROSS JOIN searchable s ON s.id = {source.id_column}"
        conditions += f" AND {match.condition}"
        values |= match.values
    shown = f"{conditions} AND {visible(source.windowed, include_deleted=query.include_deleted)}"
    page = f"FROM {tables} WHERE {shown} ORDER BY {order} LIMIT :limit OFFSET :offset"
    version, rows = read_rows(source, page, {**values, "limit": limit, "offset": offset})
    if query.is_narrow or (match and match.ids is not None):
        return rows, execute(f"SELECT count(*) FROM {tables} WHERE {shown}", values).fetchone()[0]
    windowed = source.windowed
    is_plain = len(query.conditions) == 1 + (query.is_active is not None)
    if match and is_plain and source.tables.startswith(match.kind):  # a plain list can be counted in the index table
        tables, windowed, conditions = "searchable s", "s", match.condition
        if query.is_active is not None:
            conditions += " AND s.is_active = :is_active"
    return rows, count_list(tables, windowed, conditions, values, version, include_deleted=query.include_deleted)


def read_rows(source: Source, page: str, values: dict[str, Any]) -> tuple[int, list[Sequence[Any]]]:
    """Read the rows as one JSON text, with the version of the records. Raises Unavailable.

    sqlite3 releases the GIL for each fetched row; with many parallel requests that costs more than the query.
    """
    names = [f"c{number}" for number in range(len(source.columns))]
    columns = ", ".join(f"{column} AS {name}" for column, name in zip(source.columns, names, strict=True))
    if source.tagged:
        names.append(tags_as_json(source.tagged, "c0"))
    sql = f"SELECT {VERSION}, json_group_array(json_array({', '.join(names)})) FROM (SELECT {columns} {page})"
    version, text = execute(sql, values).fetchone()
    hold_for_request(_OF_CHARACTER * len(text) + _OF_TAG * text.count("["))
    return version, _tagged_rows(text, len(source.columns)) if source.tagged else json_text.decode(text)


def _tagged_rows(text: str, columns: int) -> list[Sequence[Any]]:
    try:
        return _tagged_rows_decoder(columns)(text)
    except json_text.NotJson:  # a damaged tag, which leaves out only its row
        return [[*row, [TagRow._make(tag) for tag in row_tags]] for *row, row_tags in json_text.decode(text)]


@cache
def _tagged_rows_decoder(columns: int) -> Callable[[str], list[Sequence[Any]]]:
    """Return a decoder that makes the tags of each row while it parses; that halves the time of decoding a page."""
    row: Any = tuple.__class_getitem__((*[Any] * columns, list[TagRow]))
    return json_text.decoder(list[row])


_MAX_CACHED = 1000
_NEVER = 2**63 - 1


class _Count(NamedTuple):
    """A count that is valid from `since` to `until` (microseconds) as long as no record changes."""

    version: int
    since: int
    until: int
    rows: int


_cache: dict[Any, _Count] = {}


def clear_cache() -> None:
    """Clear the cache of counts. For benchmarks."""
    _cache.clear()


VERSION = "(SELECT records FROM version)"


def count_list(
    source: str, alias: str, conditions: str, values: dict[str, Any], version: int, *, include_deleted: bool
) -> int:
    """Return the number of rows of `source` that meet `conditions` and are visible at `values["now"]`.

    `version` is the current version of the records.
    """
    now: int = values["now"]
    others = tuple((name, value) for name, value in values.items() if name != "now")
    key = (database.database, source, conditions, include_deleted, others)
    cached = _cache.get(key)
    if cached is None or cached.version != version or not cached.since <= now < cached.until:
        if len(_cache) >= _MAX_CACHED:
            _cache.clear()
        cached = _cache[key] = _count(source, alias, conditions, values, include_deleted=include_deleted)
    return cached.rows


def _count(source: str, alias: str, conditions: str, values: dict[str, Any], *, include_deleted: bool) -> _Count:
    """Count the rows, and find the next time at which a live row enters or leaves its window."""
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
    return _Count(version, values["now"], min(opens or _NEVER, closes or _NEVER), count)
