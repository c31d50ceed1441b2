"""What the handlers of assets and locations share: from checked values to the arguments of the store."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from edge.errors import NotFound
from edge.records.external_keys import SortTerm
from edge.records.tags import NewTag
from edge.validation.body import Body, judge
from edge.validation.query import DEFAULT_LIMIT

Row = TypeVar("Row")


def listing(query: Mapping[str, Any], default: Sequence[SortTerm] | None = None) -> dict[str, Any]:
    """Page and order; without a default, the list has one order only."""
    page = {"limit": query.get("limit", DEFAULT_LIMIT), "offset": query.get("offset", 0)}
    if default is None:
        return page
    return {**page, "sort": [SortTerm(*term) for term in query.get("sort", ())] or default}


def new_tags(body: Mapping[str, Any]) -> list[NewTag]:
    return [new_tag(tag) for tag in body.get("tags") or ()]


def new_tag(body: Mapping[str, Any]) -> NewTag:
    return NewTag(tag_type=body["tag_type"], value=body["value"])


def without_tags(body: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in body.items() if name != "tags"}


class _ChangedMeanwhile(Exception):
    """Between the read a PATCH was judged beside and its transaction."""


def patched(
    declared: Body,
    sent: Mapping[str, Any],
    get: Callable[[], Row],
    patch: Callable[[dict[str, Any], Callable[[Row], None]], Row],
) -> Row:
    """Apply a PATCH: `get` reads the record, `patch` takes the changes and a check for its transaction.

    The body is judged beside the record (spec: PATCH rule 3) before the transaction, so that a large one holds up no
    other writer, and once more only where somebody else changed the record in between. Raises NotFound after the
    faults of the body (contract: Authentication, order of answers).
    """
    while True:
        seen, missing = _read(get)
        values = judge(declared, sent, seen)
        if seen is None:
            raise missing or NotFound

        def refuse_if_changed(current: Row, seen: Row = seen) -> None:
            if current != seen:
                raise _ChangedMeanwhile

        changes = {name: value for name, value in values.items() if not declared.fields[name].compare}
        try:
            return patch(changes, refuse_if_changed)
        except _ChangedMeanwhile:
            continue


def _read(get: Callable[[], Row]) -> tuple[Row | None, NotFound | None]:
    try:
        return get(), None
    except NotFound as error:
        return None, error
