"""The OpenAPI document, generated from the operations and their declared bodies, queries and responses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import Any

from edge.api import idempotency
from edge.api.operations import FORM, Operation
from edge.api.responses import PREFIX
from edge.api.schemas import ANSWERS, ID, SCHEMAS, Schema, earliest_sunset, number, ref, text
from edge.validation.body import Body, Field
from edge.validation.query import Parameter

ABOUT = """Assets, locations and tags of a warehouse, with current and past locations of the assets.

Send `Authorization: Bearer <token>` with a token of `POST /api/v1/oauth/token`, and a `User-Agent` that names your
application. `HEAD` is answered wherever `GET` is, `OPTIONS` everywhere. Enumerations marked `x-extensible-enum` may
grow; ignore fields you do not know. Times in responses are in UTC with three digits of the second."""
_TAGS = {
    "Access": "Tokens and the organization of a token",
    "Assets": "What is tracked, with its tags",
    "Locations": "The tree of places where assets can be, with their tags",
    "Tracking": "Current and past locations of assets",
}

_REASONS = {
    400: "The request is invalid; see `fields`",
    401: "The token is missing, wrong, expired or revoked",
    404: "The record does not exist",
    405: "Method not supported; `Allow` lists the supported methods",
    409: "The request conflicts with stored data",
    410: "This operation was removed",
    413: "The body is over 1 MiB, or 16 KiB at the token endpoint",
    415: "The media type of the body is not supported",
    429: "Too many requests; wait for `Retry-After`",
    500: "The server failed",
    503: "The server cannot write at the moment; retry after `Retry-After`",
}
_ANY = 0  # stands for the response `default`
_COMMON_HEADERS = (
    *("X-Request-ID", "RateLimit-Policy"),
    *("X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset"),
    "X-Content-Type-Options",
)
_CORS = ("Origin", "Methods", "Headers")
_CORS_HEADERS = (
    *(f"Access-Control-Allow-{name}" for name in _CORS),
    "Access-Control-Expose-Headers",
    "Access-Control-Max-Age",
)
_HEADERS_OF_STATUS = {
    401: ("WWW-Authenticate",),
    405: ("Allow",),
    410: ("Deprecation", "Sunset"),
    429: ("Retry-After",),
    503: ("Retry-After",),
}
_COMPRESSION_HEADERS = ("Vary", "Content-Encoding")
_OPTIONAL_HEADERS = (*_COMPRESSION_HEADERS, idempotency.REPLAYED)
_COUNTER = number(0, 2**31 - 1)
_HEADERS: dict[str, tuple[str, Schema]] = {
    "X-Request-ID": ("The client's id (1 to 128 printable characters) or a ULID; quote it in support requests", text()),
    "RateLimit-Policy": ("Requests in a full budget; `w` is the number of seconds to refill it", text()),
    "X-RateLimit-Limit": ("Requests in a full budget", _COUNTER),
    "X-RateLimit-Remaining": ("Requests left", _COUNTER),
    "X-RateLimit-Reset": ("When the budget is full, as Unix time in seconds", number(0, 2**53 - 1)),
    "X-Content-Type-Options": ("The media type is as declared", text(enum=["nosniff"])),
    "Location": ("Address of the created record", text(format="uri-reference")),
    "Retry-After": ("Seconds to wait", _COUNTER),
    "WWW-Authenticate": ("How to authenticate", text()),
    "Allow": ("Supported methods", text()),
    "Cache-Control": ("Tokens must not be cached", text()),
    "Vary": ("`Accept-Encoding` on responses over 1 KiB", text()),
    "Content-Encoding": ("`gzip` on responses over 1 KiB, if the client accepts it", text(enum=["gzip"])),
    idempotency.REPLAYED: ("`true` on a repeated response", text(enum=["true"])),
    "Deprecation": ("This operation is deprecated", text(enum=["true"])),
    "Sunset": ("Date of removal, as an HTTP date", text()),
    **{name: ("CORS", text()) for name in _CORS_HEADERS},
}


_IDEMPOTENCY_KEY = {
    "name": idempotency.HEADER,
    "in": "header",
    "description": idempotency.ABOUT,
    "schema": text(**idempotency.SCHEMA),
}
_WAIT = {"description": "Seconds to wait if the same request is still running", "schema": _COUNTER}


def document(operations: Iterable[Operation], version: str) -> dict[str, Any]:
    """Return the OpenAPI 3.0 document of the operations."""
    paths: dict[str, Any] = {}
    bodies: dict[str, Schema] = {}
    answers = {"ErrorResponse": ANSWERS["Error"]}
    for operation in operations:
        answers |= {operation.answer_name: ANSWERS[operation.answer]} if operation.answer else {}
        paths.setdefault(PREFIX + operation.path, {})[operation.method.lower()] = _operation(operation, bodies)
    return {
        "openapi": "3.0.3",
        "info": {
            "title": "Asset and location tracking",
            "version": version,
            "description": ABOUT,
            "contact": {"name": "Administrators of this server"},
        },
        "servers": [{"url": "/"}],
        "tags": [{"name": name, "description": about} for name, about in _TAGS.items()],
        "security": [{"bearer": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"}},
            "schemas": {**SCHEMAS, **answers, **bodies},
            "responses": {
                **{_name(status): _refusal(status) for status in (403, *_REASONS)},
                "Default": _refusal(_ANY),
            },
            "headers": {
                name: {"description": about, "schema": schema, "required": name not in _OPTIONAL_HEADERS}
                for name, (about, schema) in _HEADERS.items()
            },
        },
    }


def _operation(operation: Operation, bodies: dict[str, Schema]) -> dict[str, Any]:
    operation_object: dict[str, Any] = {
        "operationId": operation.id,
        "summary": operation.summary,
        "description": operation.description or f"{operation.summary}.",
        "tags": [operation.tag],
        "x-required-scopes": [operation.scope] if operation.scope else [],
        "parameters": [_path_parameter(name) for name in operation.path_names]
        + [_query_parameter(parameter) for parameter in operation.query.parameters.values()]
        + [_header_parameter("X-Request-ID"), *([_IDEMPOTENCY_KEY] if operation.is_create else [])],
        "responses": _responses(operation),
    }
    if operation.body:
        _add_body(operation.body, bodies)
        content = {operation.media_types[0]: {"schema": ref(operation.body.name)}}
        if operation.is_form_allowed:
            content[FORM] = {"schema": _form(operation.body, bodies)}
        operation_object["requestBody"] = {
            "description": f"As `{operation.media_types[0]}` by default",
            "required": True,
            "content": content,
        }
    if operation.is_open:
        operation_object["security"] = []
    if operation.sunset:
        operation_object["deprecated"] = True
    return operation_object


def error_statuses(operation: Operation) -> set[int]:
    """Return every error status of the operation."""
    statuses = {400, 403, 405, 429, 500, 503, *operation.errors}
    if not operation.is_open:
        statuses.add(401)
    if operation.path_names:
        statuses.add(404)
    if operation.body:
        statuses |= {413, 415}
    if operation.sunset:
        statuses.add(410)
    return statuses


def _responses(operation: Operation) -> dict[str, Any]:
    own = ["Location", idempotency.REPLAYED] if operation.is_create else []
    own += _COMPRESSION_HEADERS if operation.answer else ()
    own += ["Cache-Control"] if operation.answer == "TokenPair" else []
    is_ending = operation.sunset or (operation.answer and earliest_sunset(ANSWERS[operation.answer]))
    own += ["Deprecation", "Sunset"] if is_ending else []
    success: dict[str, Any] = {"description": HTTPStatus(operation.status).phrase, "headers": _headers(*own)}
    if operation.answer:
        success["content"] = {"application/json": {"schema": ref(operation.answer_name)}}
    refusals = {
        str(status): {"$ref": f"#/components/responses/{_name(status)}"} for status in sorted(error_statuses(operation))
    }
    return {str(operation.status): success, **refusals, "default": {"$ref": "#/components/responses/Default"}}


def _name(status: int) -> str:
    return HTTPStatus(status).phrase.title().replace(" ", "")


def _refusal(status: int) -> dict[str, Any]:
    content: dict[str, Any] = {"application/json": {"schema": ref("ErrorResponse")}}
    if status == 403:
        about = (
            "The token lacks the scope, or may not uncover a person; as plain text: the User-Agent is a library default"
        )
        return {
            "description": about,
            "headers": _headers(*_COMPRESSION_HEADERS),
            "content": {**content, "text/plain": {"schema": text()}},
        }
    headers = _headers(*_COMPRESSION_HEADERS, *_HEADERS_OF_STATUS.get(status, ()))
    if status == 409:
        headers["Retry-After"] = _WAIT
    return {
        "description": _REASONS.get(status, "Any other error; see `type` and `detail`"),
        "headers": headers,
        "content": content,
    }


def _headers(*own: str) -> dict[str, Any]:
    return {name: {"$ref": f"#/components/headers/{name}"} for name in (*_COMMON_HEADERS, *_CORS_HEADERS, *own)}


def _path_parameter(name: str) -> dict[str, Any]:
    return {"name": name, "in": "path", "required": True, "schema": ID}


def _query_parameter(parameter: Parameter) -> dict[str, Any]:
    schema = {"type": "string", **parameter.schema}
    shape: dict[str, Any] = {"schema": schema}
    if parameter.is_repeatable:
        shape = {"schema": {"type": "array", "items": schema}, "style": "form", "explode": True}
    return {"name": parameter.name, "in": "query", "description": parameter.about, **shape}


def _header_parameter(name: str) -> dict[str, Any]:
    about, schema = _HEADERS[name]
    return {"name": name, "in": "header", "description": about, "schema": schema}


def _add_body(body: Body, bodies: dict[str, Schema]) -> None:
    if not body.variants:
        bodies[body.name] = _body(body, [field.name for field in body.fields.values() if field.is_required], bodies)
        return
    names = {value: f"{body.name}{value.title().replace('_', '')}" for value in body.variants}
    for value, needed in body.variants.items():
        schema = bodies[names[value]] = _body(body, [body.selector, *needed], bodies)
        schema["properties"][body.selector] = {"type": "string", "enum": [value]}
    mapping = {value: ref(name)["$ref"] for value, name in names.items()}
    bodies[body.name] = {
        "oneOf": [ref(name) for name in names.values()],
        "discriminator": {"propertyName": body.selector, "mapping": mapping},
    }


def _form(body: Body, bodies: dict[str, Schema]) -> Schema:
    """Add the schema of the form: one flat object for all variants.

    Only the selector is required, because credentials may be in the header. Unknown fields are ignored.
    """
    name = body.name.removesuffix("Request") + "Form"
    bodies[name] = {**_body(body, [body.selector], bodies), "additionalProperties": True}
    return ref(name)


def _body(body: Body, required: list[str], bodies: dict[str, Schema]) -> Schema:
    properties = {field.name: _field(field, bodies) for field in body.fields.values()}
    schema: Schema = {"type": "object", "additionalProperties": False, "properties": properties}
    return {**schema, "required": required} if required else schema


def _field(field: Field, bodies: dict[str, Schema]) -> Mapping[str, Any]:
    schema: Schema = {"type": field.type, **field.schema} if field.type else dict(field.schema)
    if field.items:
        _add_body(field.items, bodies)
        schema["items"] = ref(field.items.name)
    if field.is_nullable:
        schema["nullable"] = True
    if field.compare:
        schema["description"] = "May be sent back unchanged; a different value is rejected"
    return schema
