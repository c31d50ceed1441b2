"""Pages of a list: the rows of one page, the sort order and the filters, as SQL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

Row = TypeVar("Row")


class Page(NamedTuple, Generic[Row]):
    """One page of a list, and the number of rows in the whole list.

    Unless `is_counted`, that number is only a lower bound: there are more rows after this page.
    """

    rows: list[Row]
    total_count: int
    is_counted: bool = True


class SortTerm(NamedTuple):
    """Sort by the public name of a field."""

    field: str
    descending: bool = False


def order_by(terms: Sequence[SortTerm], columns: Mapping[str, str], id_column: str) -> str:
    """Return the sort order as SQL. It ends with the id, so pages never overlap."""
    ordered = [f"{columns[term.field]}{' DESC' if term.descending else ''}" for term in terms]
    return ", ".join([*ordered, id_column])


def any_of(column: str, choices: Sequence[Any], values: dict[str, Any]) -> str:
    """Return the condition that a column has one of the choices, and add these to `values`."""
    names = {f"v{len(values) + number}": choice for number, choice in enumerate(choices)}
    values.update(names)
    return f"{column} IN ({', '.join(f':{name}' for name in names)})"
