"""What the handlers of assets and locations share: from checked values to the arguments of the store."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from edge.errors import Invalid, NotFound
from edge.store.records import SortTerm
from edge.store.tags import NewTag
from edge.validation.body import Body, judge
from edge.validation.query import DEFAULT_LIMIT


def listing(query: Mapping[str, Any], default: Sequence[SortTerm] | None = None) -> dict[str, Any]:
    """Page and order; without a default, the list has one order only."""
    page = {"limit": query.get("limit", DEFAULT_LIMIT), "offset": query.get("offset", 0)}
    if default is None:
        return page
    return {**page, "sort": [SortTerm(*term) for term in query.get("sort", ())] or default}


def new_tags(body: Mapping[str, Any]) -> list[NewTag]:
    return [NewTag(**tag) for tag in body.get("tags") or ()]


def changes_of(
    declared: Body, sent: Mapping[str, Any], get: Callable[[], Any]
) -> tuple[dict[str, Any], Callable[[Any], None]]:
    """What a PATCH changes, and the check of what it sent back, for the transaction (spec: PATCH rule 3).

    A faulty body is judged once more beside the record, if there is one: what differs there may have to be told first.
    """
    try:
        values = judge(declared, sent)
    except Invalid:
        with suppress(NotFound):
            judge(declared, sent, get())
        raise
    echo = {name: sent[name] for name in sent if declared.fields[name].echo}
    changes = {name: value for name, value in values.items() if name not in echo}

    def refuse_differences(current: Any) -> None:
        judge(declared, echo, current)

    return changes, refuse_differences
