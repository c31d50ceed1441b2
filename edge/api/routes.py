"""Flask routes of the API: one for each operation, and the OpenAPI document."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

from flask import Flask, Response
from werkzeug.http import http_date

from edge import clock
from edge.api import documents, guard, idempotency, middleware, openapi, records, tokens, tracking
from edge.api.envelope import ApiError
from edge.api.guard import Guard
from edge.api.operations import OPERATIONS, Operation
from edge.api.responses import PREFIX
from edge.api.schemas import ANSWERS, earliest_sunset
from edge.services import Services

RESOURCES = (tokens, records, tracking)  # importing them fills the table of operations


def register(app: Flask, installed: Services, operations: Sequence[Operation] = OPERATIONS) -> None:
    """Add the routes of the operations and of the document to the application."""
    checks = guard.guard_for(installed)
    guard.install(app, checks)
    documents.register(app, lambda: openapi.document(operations, installed.version))
    for operation in operations:
        rule = (PREFIX + operation.path).replace("{", "<").replace("}", ">")
        view = _view(checks, operation)
        if operation.max_body:
            view.max_body = operation.max_body  # type: ignore[attr-defined]
        app.add_url_rule(rule, f"api.{operation.name}", view, methods=[operation.method])


def _view(checks: Guard, operation: Operation) -> Callable[..., Response]:
    handler = operation.handler

    def write(**path: Any) -> Response:
        call = guard.authorize(checks, operation, path)
        return idempotency.once(call.idempotent, lambda: handler(call)) if call.idempotent else handler(call)

    def read(**path: Any) -> Response:
        call = guard.authorize(checks, operation, path)
        began = time.thread_time()
        try:
            return handler(call)
        finally:
            guard.charge(checks, call.principal.subject, time.thread_time() - began)

    view = read if operation.method == "GET" else write
    field_sunset = earliest_sunset(ANSWERS[operation.answer]) if operation.answer else None
    if operation.sunset or field_sunset:
        return _deprecated(view, operation.sunset, field_sunset)
    return view


def _deprecated(
    view: Callable[..., Response], sunset: datetime | None, field_sunset: datetime | None
) -> Callable[..., Response]:
    """Wrap a view of an operation that is deprecated or returns a deprecated field (interface: Versioning 5).

    After `sunset` it answers 410. `field_sunset` is only announced.
    """
    first = min(moment for moment in (sunset, field_sunset) if moment)
    headers = (("Deprecation", "true"), ("Sunset", http_date(first)))

    def deprecated(**path: Any) -> Response:
        middleware.request_context().deprecation = headers
        if sunset and clock.to_datetime(clock.now()) >= sunset.astimezone(UTC):
            raise ApiError("gone", f"This was removed on {http_date(sunset)}")
        return view(**path)

    return deprecated
