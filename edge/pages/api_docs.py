"""API documentation page, generated from the OpenAPI document, with calls to copy."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from flask import render_template

from edge.api import openapi
from edge.api.operations import OPERATIONS
from edge.pages import record_links
from edge.pages.guard import public
from edge.services import services

AGENT = "my-application/1.0"
_EXAMPLES = {"date-time": "2026-03-02T08:15:30Z", "uuid": "00000000-0000-0000-0000-000000000000"}


class Field(NamedTuple):
    """A parameter, or a field of a body."""

    name: str
    kind: str
    about: str
    is_required: bool


class Call(NamedTuple):
    """One operation. `id` identifies it on the page and in generated clients."""

    id: str
    method: str
    path: str
    summary: str
    scopes: Sequence[str]
    parameters: Sequence[Field]
    body: Sequence[Field]
    media_type: str
    example: str
    answer: Sequence[Field]  # of the answer without an error
    answers: Sequence[tuple[str, str]]


@public.get("/api/docs", manual="api#first-call")
def api_docs() -> str:
    document = openapi.document(OPERATIONS, services().version)
    return render_template(
        "api-docs.html",
        about=document["info"]["description"],
        groups=_groups(document),
        errors=_fields(document, document["components"]["schemas"]["ErrorEnvelope"]),
        address=record_links.address(),
        agent=AGENT,
    )


def _groups(document: Mapping[str, Any]) -> dict[str, list[Call]]:
    groups: dict[str, list[Call]] = {}
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            groups.setdefault(operation["tags"][0], []).append(_call(document, path, method, operation))
    return groups


def _call(document: Mapping[str, Any], path: str, method: str, operation: Mapping[str, Any]) -> Call:
    content = operation.get("requestBody", {}).get("content", {})
    media_type = next(iter(content), "")
    schema = _resolve(document, content[media_type]["schema"]) if media_type else {}
    parameters = [_resolve(document, one) for one in operation.get("parameters", ())]
    return Call(
        operation["operationId"],
        method.upper(),
        path,
        operation["summary"],
        operation.get("x-required-scopes", ()),
        [_field(document, one["name"], one, required=one.get("required", False)) for one in parameters],
        _fields(document, schema),
        media_type,
        json.dumps(_example(document, schema), ensure_ascii=False) if media_type else "",
        _answer_fields(document, operation),
        [(status, _resolve(document, answer)["description"]) for status, answer in operation["responses"].items()],
    )


def _fields(document: Mapping[str, Any], schema: Mapping[str, Any]) -> list[Field]:
    """Return the fields of an object. Variants are merged."""
    fields: dict[str, Field] = {}
    for one in _variants(document, schema):
        for name, field in one.get("properties", {}).items():
            fields.setdefault(name, _field(document, name, {"schema": field}, required=name in one.get("required", ())))
    return list(fields.values())


def _answer_fields(document: Mapping[str, Any], operation: Mapping[str, Any]) -> list[Field]:
    """Return the fields of the answer without an error, those of a record or a row as `data.name` or `data[].name`."""
    success = next(answer for status, answer in operation["responses"].items() if status.startswith("2"))
    content = _resolve(document, success).get("content", {})
    schema = _resolve(document, content["application/json"]["schema"]) if content else {}
    fields = []
    for field in _fields(document, schema):
        inner = _resolve(document, schema["properties"][field.name])
        prefix = field.name + "[]" * (inner.get("type") == "array")
        row = _resolve(document, inner.get("items", inner))
        if field.name == "data":
            fields += [one._replace(name=f"{prefix}.{one.name}") for one in _fields(document, row)]
        else:
            fields.append(field)
    return fields


def _variants(document: Mapping[str, Any], schema: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [_resolve(document, one) for one in schema.get("oneOf", schema.get("anyOf", [schema]))]


def _field(document: Mapping[str, Any], name: str, declared: Mapping[str, Any], *, required: bool) -> Field:
    schema = _resolve(document, declared.get("schema", {}))
    about = declared.get("description", schema.get("description", ""))
    return Field(name, _kind(document, schema), about.replace("`", ""), required)


def _kind(document: Mapping[str, Any], schema: Mapping[str, Any]) -> str:
    """Describe a type, such as `string, at most 255`, `integer, 1 to 200` or `one of rfid, ble, barcode`."""
    if "enum" in schema:
        return "one of " + ", ".join(map(str, schema["enum"]))
    if schema.get("type") == "array":
        return "list of " + _kind(document, _resolve(document, schema["items"]))
    constraints = [schema.get("format") or schema.get("type", "any value")]
    if "maxLength" in schema:
        constraints.append(f"at most {schema['maxLength']:,}")
    if "minimum" in schema and "maximum" in schema:
        constraints.append(f"{schema['minimum']:,} to {schema['maximum']:,}")
    if schema.get("nullable"):
        constraints.append("or null")
    if "default" in schema:
        constraints.append(f"default {json.dumps(schema['default'])}")
    if "example" in schema:
        constraints.append(f"for example {json.dumps(schema['example'], ensure_ascii=False)}")
    return ", ".join(constraints)


def _example(document: Mapping[str, Any], schema: Mapping[str, Any]) -> Any:
    """Return the smallest valid body, or one field if an empty body is valid."""
    one = _variants(document, schema)[0]
    properties = one.get("properties", {})
    names = one.get("required") or list(properties)[:1]
    return {name: _value(name, _resolve(document, properties[name])) for name in names}


def _value(name: str, schema: Mapping[str, Any]) -> Any:
    if "enum" in schema:
        return schema["enum"][0]
    simple = {"integer": 1, "number": 1, "boolean": True, "array": [], "object": {}}
    named = {"external_key": "PALLET-71", "name": "Pallet 71", "value": "3074257BF7194E4000001A85"}
    return simple.get(schema.get("type", ""), _EXAMPLES.get(schema.get("format", ""), named.get(name, "…")))


def _resolve(document: Mapping[str, Any], declared: Mapping[str, Any]) -> Mapping[str, Any]:
    """Follow a `$ref`."""
    while "$ref" in declared:
        node: Any = document
        for step in declared["$ref"].removeprefix("#/").split("/"):
            node = node[step]
        declared = node
    return declared
