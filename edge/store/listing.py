"""One page of a list and the length of the whole list, for everything that has a window and can be searched."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from edge import clock
from edge.store.counts import count_list
from edge.store.database import execute
from edge.store.records import any_of, visible
from edge.store.search import Match


class Source(NamedTuple):
    """Where a list's rows come from. `windowed` is the alias of the table whose window and deletion count."""

    columns: str
    tables: str
    windowed: str
    id_column: str


class Wanted:
    """The conditions of one list, and the values they speak of."""

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


def read_page(
    source: Source, wanted: Wanted, match: Match | None, order: str, limit: int, offset: int
) -> tuple[list[tuple[Any, ...]], int]:
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
    rows = execute(
        f"SELECT {source.columns} FROM {tables} WHERE {shown} ORDER BY {order} LIMIT :limit OFFSET :offset",  # noqa: S608
        {**values, "limit": limit, "offset": offset},
    ).fetchall()
    if wanted.is_narrow or (match and match.ids is not None):
        return rows, execute(f"SELECT count(*) FROM {tables} WHERE {shown}", values).fetchone()[0]  # noqa: S608
    windowed = source.windowed
    if match and source.tables.startswith(match.kind):  # the matches of a plain list need no other table
        tables, windowed, conditions = "searchable s", "s", match.condition
        if wanted.is_active is not None:
            conditions += " AND s.is_active = :is_active"
    return rows, count_list(tables, windowed, conditions, values, include_deleted=wanted.include_deleted)
