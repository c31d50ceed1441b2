"""OpenAPI schemas of response bodies. `responses` builds the bodies."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from edge.api.envelope import KINDS
from edge.api.field_meanings import explained
from edge.validation import values
from edge.validation.bodies import ID_SCHEMA, KEY_SCHEMA, TAG_VALUE_SCHEMA, fields_of
from edge.validation.body import Field

Schema = dict[str, Any]

FIELD_CODES = (
    *("required", "invalid_value", "unknown_field", "invalid_context", "too_short", "too_long", "too_small"),
    *("too_large", "fk_not_found", "ambiguous_fields", "read_only"),
)


def nullable(schema: Schema) -> Schema:
    return {**schema, "nullable": True}


def set_by_server(schema: Schema) -> Schema:
    return {**schema, "readOnly": True}


def text(**bounds: Any) -> Schema:
    return {"type": "string", **bounds}


def number(low: int, high: int, form: str = "int64") -> Schema:
    return {"type": "integer", "format": form, "minimum": low, "maximum": high}


def ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


def many(name: str) -> Schema:
    return {"type": "array", "items": ref(name)}


def record(about: str, optional: Schema | None = None, /, **fields: Schema) -> Schema:
    """Return the schema of an object. All `fields` are required; those in `optional` are not."""
    properties = {name: explained(name, schema) for name, schema in {**fields, **(optional or {})}.items()}
    return {"type": "object", "description": about, "required": list(fields), "properties": properties}


def data(schema: Schema, **extra: Schema) -> Schema:
    return record("The envelope of one resource", data=schema, **extra)


def page(item: str) -> Schema:
    return record(
        "The envelope of a list",
        data=many(item),
        limit=number(1, 200, "int32"),
        offset=number(0, 2**31 - 1, "int32"),
        total_count=number(0, values.MAX_INT64),
    )


def ending(schema: Schema, sunset: datetime) -> Schema:
    """Mark a field as deprecated. Operations that return it announce the sunset (interface: Versioning 5)."""
    return {**schema, "deprecated": True, "x-sunset": sunset.isoformat()}


def earliest_sunset(answer: Schema) -> datetime | None:
    """Return the earliest sunset of the response's fields at any depth, or None."""
    return min((datetime.fromisoformat(text) for text in _sunsets(answer)), default=None)


def _sunsets(schema: Any) -> Iterator[str]:
    if isinstance(schema, dict):
        if "x-sunset" in schema:
            yield schema["x-sunset"]
        if "$ref" in schema:
            yield from _sunsets(SCHEMAS[schema["$ref"].rpartition("/")[2]])
        for inner in schema.values():
            yield from _sunsets(inner)
    elif isinstance(schema, list):
        for inner in schema:
            yield from _sunsets(inner)


def open_enumeration(*known: str) -> Schema:
    """Return the schema of an enumeration that may grow (interface: Versioning)."""
    return {"type": "string", "enum": list(known), "x-extensible-enum": True}


ID: Schema = {"type": "integer", **ID_SCHEMA}
KEY = text(**KEY_SCHEMA)
TIME = text(format="date-time", example="2026-03-02T08:15:30.412Z")
SECONDS = number(0, values.MAX_INT64)
TAGS = {kind: f"{kind.title()}Tag" for kind in values.TAG_TYPES}  # schemas by type


def _view(about: str, kind: str) -> Schema:
    """Return the schema of an asset or location in answers."""
    fields = {field.name: _shown(field) for field in fields_of(kind)}
    dates = {"created_at": TIME, "updated_at": TIME, "deleted_at": nullable(TIME)}
    by_server = {name: set_by_server(schema) for name, schema in {"id": ID, **dates}.items()}
    return record(about, id=by_server.pop("id"), **fields, **by_server, tags=many("Tag"))


def _shown(field: Field) -> Schema:
    schema = TIME if field.is_time else {"type": field.type, **field.schema}
    return nullable(schema) if field.is_nullable else schema


_COUNT = number(0, 2**31 - 1, "int32")
_JSON_TYPE = text(enum=["boolean", "number", "string", "array", "object", "null"])
_PARAMS: Schema = {
    "type": "object",
    "description": "The violated constraint",
    "properties": {
        **{name: number(0, values.MAX_INT64) for name in ("min_length", "max_length", "min", "max", "max_depth")},
        "allowed_values": {"type": "array", "items": text()},
        "expected_type": _JSON_TYPE,
        "received_type": _JSON_TYPE,
        "pattern": text(),
    },
}

SCHEMAS: dict[str, Schema] = {
    "Tag": {
        "description": "Identifier read by a reader or scanner",
        "oneOf": [ref(name) for name in TAGS.values()],
        "discriminator": {"propertyName": "tag_type", "mapping": {kind: ref(TAGS[kind])["$ref"] for kind in TAGS}},
    },
    **{
        name: record(
            f"Identifier of the type `{kind}`",
            id=ID,
            tag_type={**open_enumeration(kind), "example": kind},
            value=text(**TAG_VALUE_SCHEMA),
        )
        for kind, name in TAGS.items()
    },
    "AssetView": _view("A tracked object", "asset"),
    "LocationView": _view("A place where assets can be", "location"),
    "AssetLocationItem": record(
        "Latest location of one asset",
        asset_id=ID,
        asset_external_key=KEY,
        location_id=nullable(ID),
        location_external_key=nullable(KEY),
        asset_deleted_at=nullable(TIME),
        asset_last_seen=TIME,
        dwell_started_at=TIME,
        dwell_seconds=SECONDS,
    ),
    "AssetHistoryItem": record(
        "One stay of an asset",
        event_observed_at=TIME,
        location_id=ID,
        location_external_key=KEY,
        duration_seconds=nullable(number(0, 2**31 - 1, "int32")),
    ),
    "OrgView": record(
        "The organization of the token",
        id=ID,
        name=text(),
        scopes={"type": "array", "items": text()},
        api_key_id=text(format="uuid"),
    ),
    "FieldError": record(
        "One error of one field",
        {"params": _PARAMS},
        field=text(),
        code=open_enumeration(*FIELD_CODES),
        message=text(),
    ),
    "ErrorEnvelope": record(
        "The error; read `type` and `detail`",
        {"fields": many("FieldError")},
        type=open_enumeration(*KINDS),
        title=text(),
        status=number(400, 599, "int32"),
        detail=text(),
        instance=text(),
        request_id=text(),
    ),
}

ANSWERS: dict[str, Schema] = {
    "Asset": data(ref("AssetView")),
    "AssetRenamed": data(ref("AssetView"), descendant_count_affected=_COUNT),
    "AssetList": page("AssetView"),
    "Location": data(ref("LocationView")),
    "LocationRenamed": data(ref("LocationView"), descendant_count_affected=_COUNT),
    "LocationList": page("LocationView"),
    "Tag": data(ref("Tag")),
    "AssetLocationList": page("AssetLocationItem"),
    "AssetHistoryList": page("AssetHistoryItem"),
    "Organization": data(ref("OrgView")),
    "TokenPair": record(
        "An access token for 15 minutes and a refresh token",
        access_token=text(),
        refresh_token=text(),
        token_type=text(enum=["Bearer"]),
        expires_in=number(1, 2**31 - 1, "int32"),
    ),
    "Error": record("The envelope of every error", error=ref("ErrorEnvelope")),
}
