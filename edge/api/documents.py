"""Routes of the OpenAPI document (interface: Service 7)."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from flask import Flask, Response

from edge.validation import json_text

JSON_PATH, YAML_PATH = "/api/openapi.json", "/api/openapi.yaml"


def register(app: Flask, make: Callable[[], dict[str, Any]]) -> None:
    """Add the routes. The document is built by `make` on the first request and cached."""

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
