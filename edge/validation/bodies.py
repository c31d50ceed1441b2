"""Request bodies of all writes, field by field (interface: Fields)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from edge.errors import Invalid
from edge.validation import read_back, times, values
from edge.validation.body import Body, Field, body

ASSET_PLACE = ("location_id", "location_external_key")


def _as_is(_: str, value: Any) -> Any:
    return value


def _key_read_back(field: str, value: str) -> str:
    """Reject an empty key; `read_back` compares any other one with the record."""
    if not value.strip():
        raise Invalid.one(field, "too_short", f"{field} must have at least 1 character", min_length=1)
    return value


def _window_edge(advice: str) -> Any:
    def check(field: str, value: str) -> int:
        micros = values.timestamp(field, value)
        if times.is_sentinel(micros):
            raise Invalid.one(field, "invalid_value", f"{field} must not be a zero time; {advice}")
        return micros

    return check


def _text_schema(pattern: str, max_length: int) -> dict[str, Any]:
    return {"minLength": 1, "maxLength": max_length, "pattern": pattern}


KEY_SCHEMA = _text_schema(values.KEY_PATTERN, values.MAX_KEY)
NAME_SCHEMA = _text_schema(values.NAME_PATTERN, values.MAX_NAME)
DESCRIPTION_SCHEMA = _text_schema(values.TEXT_PATTERN, values.MAX_DESCRIPTION)
TAG_VALUE_SCHEMA = _text_schema(values.TEXT_PATTERN, values.MAX_TAG_VALUE)
ID_SCHEMA = {"format": "int64", "minimum": 1, "maximum": 2**53 - 1}
TIME_SCHEMA = {"format": "date-time"}

_TIME = {"type": "string", **TIME_SCHEMA}
SERVER_MANAGED: dict[str, dict[str, Any]] = {
    "id": {"type": "integer", **ID_SCHEMA},
    "created_at": _TIME,
    "updated_at": _TIME,
    "deleted_at": {**_TIME, "nullable": True},
}

KEY = Field("external_key", "string", values.external_key, KEY_SCHEMA)
NAME = Field("name", "string", values.name, NAME_SCHEMA)
DESCRIPTION = Field("description", "string", values.description, DESCRIPTION_SCHEMA, is_nullable=True)
IS_ACTIVE = Field("is_active", "boolean", _as_is)
METADATA = Field("metadata", "object", values.metadata, {"additionalProperties": True})
VALID_TO = Field("valid_to", "string", _window_edge("send null for no expiry"), TIME_SCHEMA, is_nullable=True)
PARENT = (
    Field("parent_id", "integer", values.reference, ID_SCHEMA, is_nullable=True),
    Field("parent_external_key", "string", values.external_key, KEY_SCHEMA, is_nullable=True),
)


def _valid_from(advice: str, extra: Mapping[str, str] = MappingProxyType({})) -> Field:
    return Field("valid_from", "string", _window_edge(advice), {**TIME_SCHEMA, **extra})


def _with_default(field: Field, value: Any) -> Field:
    """Declare the value of a field that is absent in a create body."""
    return field._replace(schema={**field.schema, "default": value})


VALID_FROM = _valid_from("omit the field")

# Columns that only one kind of record has. Bodies, answers, audit log, tables, forms and the feed are made from these.
OWN_FIELDS: Mapping[str, tuple[Field, ...]] = {"asset": (METADATA,), "location": PARENT}


def fields_of(kind: str) -> tuple[Field, ...]:
    """Return the fields of a record that clients set, in the order of its row."""
    return (KEY, NAME, DESCRIPTION, IS_ACTIVE, *OWN_FIELDS[kind], VALID_FROM, VALID_TO)


TAG = body(
    "TagRequest",
    Field("tag_type", "string", values.tag_type, {"enum": list(values.TAG_TYPES)}, is_required=True),
    Field("value", "string", values.tag_value, TAG_VALUE_SCHEMA, is_required=True),
    refused=["id"],
)
LOCATION_RENAME = body("RenameLocationRequest", KEY._replace(is_required=True))


def _create(name: str, own: Sequence[Field], refused: tuple[str, ...] = ()) -> Body:
    tags = Field("tags", "array", values.tag_list, {"maxItems": values.MAX_TAGS}, is_nullable=True, items=TAG)
    is_active = _with_default(IS_ACTIVE, True)
    # A text default on a date-time breaks client generators, so the default is in the description.
    begins = _valid_from("omit the field", {"description": "The time of the request if absent"})
    common = (KEY, NAME._replace(is_required=True), DESCRIPTION, is_active, begins, VALID_TO, tags)
    own = [_with_default(one, {}) if one.type == "object" else one for one in own]
    return body(name, *common, *own, refused=(*SERVER_MANAGED, *refused))


def _patch(name: str, own: Sequence[Field], refused: tuple[str, ...] = ()) -> Body:
    server_managed = [
        Field(key, None, _as_is, schema, compare=read_back.server_managed) for key, schema in SERVER_MANAGED.items()
    ]
    return body(
        name,
        *(NAME, DESCRIPTION, IS_ACTIVE, _valid_from("leave it unchanged"), VALID_TO, *own),
        *server_managed,
        Field("external_key", "string", _key_read_back, KEY_SCHEMA, compare=read_back.external_key),
        Field("tags", "array", _as_is, {"items": {"$ref": "#/components/schemas/Tag"}}, compare=read_back.tags),
        refused=refused,
    )


ASSET_CREATE = _create("CreateAssetWithTagsRequest", OWN_FIELDS["asset"], refused=ASSET_PLACE)
ASSET_PATCH = _patch("UpdateAssetRequest", OWN_FIELDS["asset"], refused=ASSET_PLACE)
LOCATION_CREATE = _create("CreateLocationWithTagsRequest", OWN_FIELDS["location"])
ASSET_RENAME = body("RenameAssetRequest", KEY._replace(is_required=True), refused=ASSET_PLACE)
LOCATION_PATCH = _patch("UpdateLocationRequest", OWN_FIELDS["location"])
GRANTS = {"client_credentials": ("client_id", "client_secret"), "refresh_token": ("refresh_token",)}
TOKEN = body(
    "TokenRequest",
    Field("grant_type", "string", _as_is, {"enum": list(GRANTS)}, is_required=True),
    Field("client_id", "string", _as_is, {"format": "uuid"}),
    Field("client_secret", "string", _as_is),
    Field("refresh_token", "string", _as_is),
)._replace(selector="grant_type", variants=GRANTS)
