"""Flask routes of the API: one for each operation, and the OpenAPI document."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from flask import Flask, Response

from edge.api import guard, openapi, records, tokens, tracking
from edge.api.guard import Guard
from edge.api.operations import OPERATIONS, Operation
from edge.api.responses import PREFIX
from edge.services import Services
from edge.validation import json_text

RESOURCES = (tokens, records, tracking)  # importing them fills the table of operations
JSON_PATH, YAML_PATH = "/api/openapi.json", "/api/openapi.yaml"


def register(app: Flask, installed: Services, operations: Sequence[Operation] = OPERATIONS) -> Guard:
    """Add the routes of the operations and of the document to the application. Return the checks of the API."""
    checks = guard.guard_for(installed)
    guard.install(app, checks)
    _add_documents(app, lambda: openapi.document(operations, installed.version))
    for operation in operations:
        rule = (PREFIX + operation.path).replace("{", "<").replace("}", ">")
        view = guard.view(checks, operation)
        if operation.max_body:
            view.max_body = operation.max_body  # type: ignore[attr-defined]
        app.add_url_rule(rule, f"api.{operation.name}", view, methods=[operation.method])
    return checks


def _add_documents(app: Flask, make: Callable[[], dict[str, Any]]) -> None:
    """Add the routes of the document (interface: Service 7), which `make` builds on the first request."""

    @cache
    def as_json() -> bytes:
        return json_text.encode(make())

    @cache
    def as_yaml() -> bytes:
        import yaml  # few clients ask for it

        return yaml.safe_dump(json_text.decode(as_json()), sort_keys=False, allow_unicode=True).encode()

    for path, content, media_type in (
        (JSON_PATH, as_json, "application/json"),
        (YAML_PATH, as_yaml, "application/yaml"),
    ):
        short = path.removeprefix("/api")
        app.add_url_rule(path, f"api:{path}", _serve(content, media_type), methods=["GET"])
        app.add_url_rule(short, f"api:{short}", _redirect(path), methods=["GET"])


def _serve(content: Callable[[], bytes], media_type: str) -> Callable[[], Response]:
    return lambda: Response(content(), content_type=media_type)


def _redirect(path: str) -> Callable[[], Response]:
    return lambda: Response(status=301, headers={"Location": path}, content_type="text/plain; charset=utf-8")
