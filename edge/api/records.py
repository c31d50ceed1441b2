"""Helpers for the handlers of assets and locations: filters, paging arguments, tags and PATCH."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import Any, TypeVar

from edge.database.lists import SortTerm
from edge.errors import NotFound
from edge.memory_budget import WORK
from edge.people.tokens import Principal
from edge.records.listing import Reserve
from edge.records.tags import NewTag
from edge.validation.body import Body, judge
from edge.validation.query import DEFAULT_LIMIT

Row = TypeVar("Row")
Filter = TypeVar("Filter")


def list_arguments(query: Mapping[str, Any], default: Sequence[SortTerm] | None = None) -> dict[str, Any]:
    """Return the paging and sort arguments of a list. Without `default` the list cannot be sorted."""
    page = {"limit": query.get("limit", DEFAULT_LIMIT), "offset": query.get("offset", 0)}
    if default is None:
        return page
    return {**page, "sort": [SortTerm(*term) for term in query.get("sort", ())] or default}


def filters_of(kind: Callable[..., Filter], query: Mapping[str, Any]) -> Filter:
    """Return the filters of a list. Those by id or key may be repeated, so their names are plural."""
    sent = {name: value for name, value in query.items() if name not in ("limit", "offset", "sort")}
    return kind(**{f"{name}s" if name.endswith(("_id", "_key")) else name: value for name, value in sent.items()})


def reserve_until(held: ExitStack, principal: Principal) -> Reserve:
    """Return a function that takes bytes from the memory budget until the stack is closed. It raises Unavailable."""
    return lambda size: held.enter_context(WORK.holding(size, principal.subject))


def new_tags(body: Mapping[str, Any]) -> list[NewTag]:
    return [new_tag(tag) for tag in body.get("tags") or ()]


def new_tag(body: Mapping[str, Any]) -> NewTag:
    return NewTag(tag_type=body["tag_type"], value=body["value"])


def without_tags(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the body without its tags."""
    return {name: value for name, value in body.items() if name != "tags"}


class _RecordChanged(Exception):
    """The record changed between validation and transaction."""


def apply_patch(
    declared: Body,
    sent: Mapping[str, Any],
    get: Callable[[], Row],
    patch: Callable[[dict[str, Any], Callable[[Row], None]], Row],
) -> Row:
    """Apply a PATCH. `get` reads the record; `patch` writes the changes after calling a check in its transaction.

    The body is validated against the record (interface: Write operations 3) before the transaction, because a large
    body would block other writers. If the record changed in between, validation runs again. Raises Invalid for errors
    of the body, then NotFound (interface: Order of answers).
    """
    while True:
        seen, missing = _read(get)
        values = judge(declared, sent, seen)
        if seen is None:
            raise missing or NotFound

        def refuse_if_changed(current: Row, seen: Row = seen) -> None:
            if current != seen:
                raise _RecordChanged

        changes = {name: value for name, value in values.items() if not declared.fields[name].compare}
        try:
            return patch(changes, refuse_if_changed)
        except _RecordChanged:
            continue


def _read(get: Callable[[], Row]) -> tuple[Row | None, NotFound | None]:
    try:
        return get(), None
    except NotFound as error:
        return None, error
