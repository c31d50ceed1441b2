"""Validate every response of the tests against the OpenAPI document: status, headers, media type and exact body."""

from __future__ import annotations

import gzip
import json
import re
from typing import Any

from openapi_schema_validator import OAS30Validator, oas30_format_checker
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT4
from werkzeug.test import TestResponse

import edge.api.routes  # noqa: F401  registers the operations
from edge.api.openapi import document
from edge.api.operations import OPERATIONS

DOCUMENT = document(OPERATIONS, "0.0")


BASE = "urn:openapi"


def _closed(schema: Any) -> Any:
    """Forbid undescribed fields in responses. Clients must accept them, but the tests must not."""
    if isinstance(schema, list):
        return [_closed(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    inner = {key: _closed(value) for key, value in schema.items()}
    if schema.get("type") == "object" and "properties" in schema:
        inner.setdefault("additionalProperties", False)
    if "$ref" in inner:
        inner["$ref"] = BASE + inner["$ref"]
    return inner


_CLOSED = _closed(DOCUMENT)
_REGISTRY = Registry().with_resource(BASE, Resource.from_contents(_CLOSED, default_specification=DRAFT4))
_PATHS = {re.compile(re.sub(r"\{\w+\}", "[^/]+", path) + "$"): methods for path, methods in _CLOSED["paths"].items()}


def resolve(node: dict[str, Any]) -> dict[str, Any]:
    while "$ref" in node:
        target: Any = _CLOSED
        for key in node["$ref"].partition("#/")[2].split("/"):
            target = target[key]
        node = target
    return node


def check(method: str, path: str, response: TestResponse) -> None:
    """Fail if the document does not describe the response for this operation."""
    if method == "OPTIONS":
        return
    operation = _operation("GET" if method == "HEAD" else method, path)
    if operation is None:
        assert response.status_code in (404, 405), f"{method} {path} is not described"
        return
    described = operation["responses"].get(str(response.status_code))
    assert described, f"{method} {path} never describes {response.status_code}: {response.text}"
    described = resolve(described)
    for name, header in described["headers"].items():
        if resolve(header).get("required"):
            assert name in response.headers, f"{method} {path} {response.status_code} lacks {name}"
    if method != "HEAD":
        check_body(described, response)


def check_body(described: dict[str, Any], response: TestResponse) -> None:
    content = described.get("content")
    if content is None:
        assert not response.data
        assert "Content-Type" not in response.headers
        return
    media_type = response.mimetype
    assert media_type in content, f"{media_type} is not described"
    if media_type == "application/json":
        OAS30Validator(content[media_type]["schema"], registry=_REGISTRY, format_checker=oas30_format_checker).validate(
            json.loads(content_of(response))  # integers of any size, too
        )


def content_of(response: TestResponse) -> bytes:
    """Return the body without compression."""
    return gzip.decompress(response.data) if response.headers.get("Content-Encoding") == "gzip" else response.data


def _operation(method: str, path: str) -> dict[str, Any] | None:
    for pattern, methods in _PATHS.items():
        if pattern.match(path):
            operation: dict[str, Any] | None = methods.get(method.lower())
            return operation
    return None
