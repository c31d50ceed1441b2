"""Success bodies: `{data}` and the list envelope (interface: Conventions 1)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from flask import Response

from edge.validation import json_text
from edge.validation.query import DEFAULT_LIMIT

PREFIX = "/api/v1"

log = logging.getLogger(__name__)

Row = TypeVar("Row", bound=tuple[Any, ...])


def one(data: Any, **extra: Any) -> Response:
    """Return `{data}` with further top-level fields."""
    return Response(json_text.encode({"data": data, **extra}), content_type="application/json")


def created(data: Any, path: str) -> Response:
    """Return a 201 response with the Location of the new record. `path` starts after the API prefix."""
    headers = {"Location": f"{PREFIX}{path}"}
    return Response(json_text.encode({"data": data}), 201, headers, content_type="application/json")


def page(render: Callable[[Row], Any], rows: Sequence[Row], total_count: int, query: Mapping[str, Any]) -> Response:
    """Render a list. Corrupt rows are logged and left out."""
    data = []
    for row in rows:
        try:
            data.append(render(row))
        except (ValueError, OverflowError, TypeError):
            log.error("Record %s is corrupt and was left out of a list. Run: edge doctor", row[0])
    content = {"data": data, **paging(query), "total_count": total_count}
    return Response(json_text.encode(content), content_type="application/json")


def nothing() -> Response:
    """Return a 204 response."""
    response = Response(status=204)
    del response.headers["Content-Type"]
    return response


def paging(query: Mapping[str, Any]) -> dict[str, int]:
    """Return the limit and offset of a query, or their defaults."""
    return {"limit": query.get("limit", DEFAULT_LIMIT), "offset": query.get("offset", 0)}
