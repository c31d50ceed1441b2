"""Success bodies: `{data}` and the list envelope (spec: Conventions 1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import orjson
from flask import Response

from edge.validation.query import DEFAULT_LIMIT

PREFIX = "/api/v1"


def one(data: Any, **beside: Any) -> Response:
    return Response(orjson.dumps({"data": data, **beside}), content_type="application/json")


def created(data: Any, path: str) -> Response:
    """201, with the address of what was made."""
    headers = {"Location": f"{PREFIX}{path}"}
    return Response(orjson.dumps({"data": data}), 201, headers, content_type="application/json")


def page(data: Sequence[Any], total_count: int, query: Mapping[str, Any]) -> Response:
    content = {"data": data, **paging(query), "total_count": total_count}
    return Response(orjson.dumps(content), content_type="application/json")


def nothing() -> Response:
    response = Response(status=204)
    del response.headers["Content-Type"]
    return response


def paging(query: Mapping[str, Any]) -> dict[str, int]:
    return {"limit": query.get("limit", DEFAULT_LIMIT), "offset": query.get("offset", 0)}
