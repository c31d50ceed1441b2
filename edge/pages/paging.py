"""Lists that come in pages: where a page begins, and the headings that sort them."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from flask import request

from edge.pages.forms import whole

MOST_PASSED_OVER = 2**31


class Heading(NamedTuple):
    """Of a column that a list can be sorted by; `address` sorts by it, or turns the order round."""

    sort: str
    title: str
    address: str
    order: str  # as ARIA says it


def offset_asked() -> int:
    """How many rows come before the page, from the query."""
    return min(max(request.args.get("offset", 0, type=whole), 0), MOST_PASSED_OVER)


def heading(title: str, sort: str, present: str, address: Callable[[str], str]) -> Heading:
    """`present` is how the list is sorted; `address` gives its address sorted otherwise."""
    is_ours, descends = present.removeprefix("-") == sort, present.startswith("-")
    following = f"-{sort}" if is_ours and not descends else sort
    order = ("descending" if descends else "ascending") if is_ours else "none"
    return Heading(sort, title, address(following), order)
