"""The checks of endpoints for programs outside of the v1 API: token, scope, rate limit and processor time.

They share the budgets of the v1 API, so a second kind of request gives nobody a second share of the box.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from flask import Blueprint, Response, current_app, request

from edge.api import envelope, guard
from edge.api.envelope import ApiError
from edge.database.connection import domain_error
from edge.errors import EdgeError, Unavailable
from edge.people.tokens import Principal
from edge.validation import json_text


class Refused(EdgeError):
    """A refused request with its HTTP status, message and headers."""

    def __init__(self, status: int, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.headers = headers or {}


def sent(scheme: str) -> str:
    """Return the credentials of a scheme in the Authorization header, or an empty text."""
    used, _, credentials = request.headers.get("Authorization", "").partition(" ")
    return credentials.strip() if used.lower() == scheme else ""


def refusal(error: EdgeError, message: str, statuses: Mapping[type[EdgeError], int], otherwise: int) -> Response:
    """Return a response with a message only, as endpoints outside of the API have it."""
    headers: Mapping[str, str] = {}
    status = next((status for kind, status in statuses.items() if isinstance(error, kind)), otherwise)
    if isinstance(error, Refused):
        status, headers = error.status, error.headers
    elif isinstance(error, Unavailable):
        status, headers = 503, {"Retry-After": str(error.retry_after_seconds)}
    headers = {"Cache-Control": "no-store", **headers}
    return Response(json_text.encode({"error": message}), status, headers, content_type="application/json")


def answer(scope: str, make: Callable[[Principal], Response]) -> Response:
    """Return the response to a caller with the scope. Raises ApiError."""
    checks = guard.guard_of(current_app)
    principal = guard.bearer(checks, request.environ)
    if scope not in principal.scopes:
        raise ApiError("forbidden", f"This requires the scope {scope}")
    guard.take_from_budget(checks, principal.subject)
    began = time.thread_time()
    try:
        return make(principal)
    finally:
        guard.charge(checks, principal.subject, time.thread_time() - began)


def check_names(known: set[str]) -> None:
    """Refuse unknown parameters and repeated ones. Raises ApiError."""
    for name in request.args:
        if name not in known:
            raise ApiError("bad_request", f"Unknown parameter {name[:100]}; known ones: {', '.join(sorted(known))}")
        if len(request.args.getlist(name)) > 1:
            raise ApiError("bad_request", f"Send {name} once")


def add_errors(blueprint: Blueprint) -> None:
    """Answer errors of a blueprint with the error envelope of the API."""

    @blueprint.errorhandler(Exception)
    def refuse(error: Exception) -> Response:
        response = envelope.error_response(domain_error(error))
        response.headers.setdefault("Cache-Control", "no-store")
        return response
