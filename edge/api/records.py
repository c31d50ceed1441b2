"""What the handlers of assets and locations share: from checked values to the arguments of the store."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from edge.errors import Invalid
from edge.store.records import SortTerm
from edge.store.tags import NewTag
from edge.validation.body import Body
from edge.validation.echo import differences
from edge.validation.query import DEFAULT_LIMIT


def listing(query: Mapping[str, Any], default: Sequence[SortTerm] | None = None) -> dict[str, Any]:
    """Page and order; without a default, the list has one order only."""
    page = {"limit": query.get("limit", DEFAULT_LIMIT), "offset": query.get("offset", 0)}
    if default is None:
        return page
    return {**page, "sort": [SortTerm(*term) for term in query.get("sort", ())] or default}


def new_tags(body: Mapping[str, Any]) -> list[NewTag]:
    return [NewTag(**tag) for tag in body.get("tags") or ()]


def split(body: Mapping[str, Any], declared: Body) -> tuple[dict[str, Any], Callable[[Any], None]]:
    """What a PATCH changes, and the check of what it sent back (spec: PATCH rule 3)."""
    echo = {name: value for name, value in body.items() if declared.fields[name].echo}
    changes = {name: value for name, value in body.items() if name not in echo}

    def refuse_differences(current: Any) -> None:
        faults = list(differences(echo, current))
        if faults:
            raise Invalid(faults)

    return changes, refuse_differences
