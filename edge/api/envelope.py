"""The error envelope (interface: Errors) and its mapping from exceptions."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from flask import Response, current_app, request
from werkzeug.exceptions import HTTPException, MethodNotAllowed

from edge.api.middleware import request_context
from edge.errors import (
    Conflict,
    Corrupt,
    FieldError,
    Forbidden,
    Invalid,
    NotFound,
    OverQuota,
    TooLarge,
    Unavailable,
    Unreadable,
)
from edge.validation import json_text

log = logging.getLogger(__name__)


class Kind(NamedTuple):
    """HTTP status and title of an error type (interface: Errors)."""

    status: int
    title: str


KINDS = {
    "bad_request": Kind(400, "Bad request"),
    "validation_error": Kind(400, "Validation failed"),
    "unauthorized": Kind(401, "Unauthorized"),
    "forbidden": Kind(403, "Forbidden"),
    "not_found": Kind(404, "Not found"),
    "method_not_allowed": Kind(405, "Method not allowed"),
    "conflict": Kind(409, "Conflict"),
    "gone": Kind(410, "Gone"),
    "payload_too_large": Kind(413, "Payload too large"),
    "unsupported_media_type": Kind(415, "Unsupported media type"),
    "rate_limited": Kind(429, "Rate limited"),
    "internal_error": Kind(500, "Internal server error"),
    "service_unavailable": Kind(503, "Service unavailable"),
}
CHALLENGE = {"WWW-Authenticate": 'Bearer realm="api"'}


_KINDS_OF_ERRORS = (
    ("bad_request", Unreadable),
    ("payload_too_large", TooLarge),
    ("forbidden", Forbidden),
    ("not_found", NotFound),
    ("conflict", Conflict),
)


class ApiError(Exception):
    """A refused request. `kind` is a key of `KINDS`; `detail` is shown to the client."""

    def __init__(self, kind: str, detail: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(detail)
        self.kind = kind
        self.detail = detail
        self.headers = headers or {}


def unauthorized(detail: str) -> ApiError:
    """Return a 401 error with the Bearer challenge."""
    return ApiError("unauthorized", detail, CHALLENGE)


def error_response(error: Exception) -> Response:
    """Return the response to a request that raised `error`. Unexpected exceptions are logged."""
    if isinstance(error, ApiError):
        return _response(error.kind, error.detail, error.headers)
    if isinstance(error, Invalid):
        return _response("validation_error", _summary(error.fields), fields=error.fields)
    if isinstance(error, Unavailable):
        return _response("service_unavailable", str(error), {"Retry-After": str(error.retry_after_seconds)})
    if isinstance(error, OverQuota):
        return _response("rate_limited", str(error), {"Retry-After": str(error.retry_after_seconds)})
    for kind, types in _KINDS_OF_ERRORS:
        if isinstance(error, types):
            return _response(kind, str(error))
    if isinstance(error, HTTPException):
        return _routing_error(error)
    reason = "corrupt data" if isinstance(error, Corrupt) else "failure"
    log.error("%s in %s %s (%s)", reason, request.method, request.path, request_context().request_id, exc_info=error)
    return _response("internal_error", "Internal server error. Include the request id in a report")


def body(kind: str, detail: str, instance: str, request_id: str, fields: Sequence[FieldError] = ()) -> bytes:
    """Return the error envelope as JSON."""
    status, title = KINDS[kind]
    error: dict[str, Any] = {
        "type": kind,
        "title": title,
        "status": status,
        "detail": detail,
        "instance": instance,
        "request_id": request_id,
    }
    if fields:
        error["fields"] = [_field_json(field) for field in fields]
    return json_text.encode({"error": error})


def _response(
    kind: str, detail: str, headers: Mapping[str, str] | None = None, fields: Sequence[FieldError] = ()
) -> Response:
    content = body(kind, detail, request.path, request_context().request_id, fields)
    return Response(content, KINDS[kind].status, headers, content_type="application/json")


def _routing_error(error: HTTPException) -> Response:
    if isinstance(error, MethodNotAllowed):
        allow = ", ".join(sorted(set(error.valid_methods or ()) - {"OPTIONS"}))
        return _response("method_not_allowed", f"Allowed here: {allow}", {"Allow": allow})
    if error.code == 413:
        return _response("payload_too_large", "The body is too large")
    if error.code == 400:
        return _response("bad_request", "The request cannot be read")
    return _response("not_found", "Unknown path" + _slash_hint(request.path))


def _slash_hint(path: str) -> str:
    """Return a hint if the path exists without its trailing slash."""
    without_slash = path.removesuffix("/")
    if without_slash == path or not current_app.url_map.bind("").allowed_methods(without_slash):
        return ""
    return f"; remove the trailing slash: {without_slash}"


def _summary(fields: Sequence[FieldError]) -> str:
    more = len(fields) - 1
    return fields[0].message + (f" (and {more} more validation errors)" if more else "")


def _field_json(error: FieldError) -> dict[str, Any]:
    shown: dict[str, Any] = {"field": error.field, "code": error.code, "message": error.message}
    if error.params:
        shown["params"] = error.params
    return shown
