"""Meaning and example of each field of the API's answers, for the OpenAPI document and the page of the API."""

from __future__ import annotations

from typing import Any, NamedTuple


class Meaning(NamedTuple):
    text: str
    example: Any = None  # None: the type has its own example, or needs none


_NULL_LOCATION = "in the report null if it was deleted or is outside its window"

MEANINGS = {
    # Records
    "id": Meaning("Permanent number, unique over all types. Opaque: join on `external_key` instead.", 4503599627370496),
    "external_key": Meaning("Key in your systems. Unique among live records of its type; change it by rename.", "P-71"),
    "name": Meaning("Name that people see.", "Pallet 71"),
    "description": Meaning("Text of several lines, null if there is none.", "Returned by Lyon, one corner damaged"),
    "is_active": Meaning("Whether the record is in use. Independent of deletion.", True),
    "metadata": Meaning("Your own properties. A PATCH replaces the whole object.", {"owner": "Lyon"}),
    "valid_from": Meaning("Lists show the record from this time on."),
    "valid_to": Meaning("Lists show the record until before this time; null for no end."),
    "created_at": Meaning("Time of creation."),
    "updated_at": Meaning(
        "Time of the last change, not counting tags. Send it with a PATCH to refuse overwriting other changes."
    ),
    "deleted_at": Meaning("Time of deletion; null for live records."),
    "tags": Meaning("Live tags. Change them by their own operations."),
    "tag_type": Meaning("Kind of identifier. Expect further values.", "rfid"),
    "value": Meaning("Identifier as it was registered.", "3074257BF7194E4000001A85"),
    "parent_id": Meaning("The location that contains this one; null at the top of the tree.", 4503599627370512),
    "parent_external_key": Meaning("Key of that location; null if there is none or it was deleted.", "HALL-1"),
    "descendant_count_affected": Meaning("Number of locations below the renamed one; 0 for assets.", 0),
    # Tracking
    "asset_id": Meaning("The asset.", 4503599627370496),
    "asset_external_key": Meaning("Key of the asset.", "P-71"),
    "location_id": Meaning(f"The location; {_NULL_LOCATION}.", 4503599627370512),
    "location_external_key": Meaning(f"Key of the location; {_NULL_LOCATION}.", "DOCK-1"),
    "asset_deleted_at": Meaning("Time of deletion of the asset; null for live assets."),
    "asset_last_seen": Meaning("Time of the newest scan of the asset. It was at the location of this row."),
    "dwell_started_at": Meaning("Since when the asset has been seen there, without another location in between."),
    "dwell_seconds": Meaning("Whole seconds from `dwell_started_at` to `asset_last_seen`.", 5400),
    "event_observed_at": Meaning("When the asset was observed there, not when the message arrived."),
    "duration_seconds": Meaning("Whole seconds at the previous location before this scan; null in the first row.", 840),
    # Lists and envelopes
    "limit": Meaning("Largest number of rows of this page.", 50),
    "offset": Meaning("Number of rows before this page.", 0),
    "total_count": Meaning("Number of rows of all pages.", 240),
    # Identity and tokens
    "scopes": Meaning("Scopes of the token. Expect further values.", ["assets:read", "tracking:read"]),
    "api_key_id": Meaning("The API key, the `sub` of the token.", "6f1c0a52-6c0e-4a43-9a0e-3d1f4f3f8f11"),
    "access_token": Meaning("Send it as `Authorization: Bearer`.", "eyJhbGciOiJIUzI1NiJ9.e30.c2lnbmF0dXJl"),
    "refresh_token": Meaning("Exchange it once for the next pair, within 30 days.", "rt_5f2c8e"),
    "token_type": Meaning("Always Bearer."),
    "expires_in": Meaning("Seconds until the access token expires.", 900),
    # Errors
    "type": Meaning("What kind of error it is. Decide by this and the status; expect further values.", "not_found"),
    "title": Meaning("The type in words.", "Not found"),
    "status": Meaning("The HTTP status.", 404),
    "detail": Meaning("What failed, for people. The wording may change.", "no such asset"),
    "instance": Meaning("Path of the request.", "/api/v1/assets/7"),
    "request_id": Meaning("Quote it in questions to support. It is also in the log.", "01K0ZQ4F7P6V3E5N8W2X9Y1A0B"),
    "fields": Meaning("One entry for each fault, for `validation_error` only."),
    "field": Meaning("Name of the faulty field or parameter.", "name"),
    "code": Meaning("What is wrong with it. Expect further values.", "too_long"),
    "message": Meaning("What is wrong with it, for people.", "name must have at most 255 characters"),
    "params": Meaning("Values of the violated rule, such as `max_length`."),
}


def explained(name: str, schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a field with its meaning and example. References have the description of their target."""
    if "$ref" in schema or name == "data":
        return schema
    meaning = MEANINGS[name]
    example = {} if meaning.example is None else {"example": meaning.example}
    return {**example, **schema, "description": meaning.text}
