"""Paging and sorting of lists."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from flask import request

from edge.pages.forms import whole

MOST_PASSED_OVER = 2**31


class Heading(NamedTuple):
    """Heading of a sortable column. `address` sorts by it, or reverses the order."""

    sort: str
    title: str
    address: str
    order: str  # value of aria-sort


def offset_asked() -> int:
    """Return the offset of the page from the query."""
    return min(max(request.args.get("offset", 0, type=whole), 0), MOST_PASSED_OVER)


def pager(per_page: int, address: Callable[[int], str]) -> dict[str, Any]:
    """Return the values for the macro `pager`. `address` returns the URL of the page that begins with this row."""
    offset = offset_asked()
    earlier, later = address(max(offset - per_page, 0)), address(offset + per_page)
    return {"offset": offset, "per_page": per_page, "earlier": earlier, "later": later}


def heading(title: str, sort: str, present: str, address: Callable[[str], str]) -> Heading:
    """Return a heading. `present` is the current sort order; `address` returns the URL for another one."""
    is_ours, descends = present.removeprefix("-") == sort, present.startswith("-")
    following = f"-{sort}" if is_ours and not descends else sort
    order = ("descending" if descends else "ascending") if is_ours else "none"
    return Heading(sort, title, address(following), order)
