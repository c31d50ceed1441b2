"""JSON of database rows (interface: Fields), and success bodies: `{data}` and the list envelope (Conventions 1)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from flask import Response

from edge import clock
from edge.records.assets import AssetRow
from edge.records.locations import LocationRow
from edge.records.tags import TagRow
from edge.tracking.report import AssetLocationRow, StayRow
from edge.validation import bodies, json_text
from edge.validation.body import Field
from edge.validation.json_text import Struct, raw, struct
from edge.validation.query import DEFAULT_LIMIT

PREFIX = "/api/v1"

log = logging.getLogger(__name__)

Row = TypeVar("Row", bound=tuple[Any, ...])


class Tag(Struct, gc=False):
    id: int
    tag_type: str
    value: str


class AssetLocation(Struct, gc=False):
    asset_id: int
    asset_external_key: str
    location_id: int | None
    location_external_key: str | None
    asset_deleted_at: str | None
    asset_last_seen: str
    dwell_started_at: str
    dwell_seconds: int


class Stay(Struct, gc=False):
    event_observed_at: str
    location_id: int | None
    location_external_key: str | None
    duration_seconds: int | None


instant: Callable[[int], str] = clock.rfc3339


def _record(name: str, kind: str) -> Callable[[AssetRow | LocationRow], Struct]:
    """Return a function that returns the JSON object of a row, made from the declared fields."""
    conversions: dict[str, Callable[[Any], Any] | None] = {"id": None}
    conversions |= {field.name: _conversion(field) for field in bodies.fields_of(kind)}
    conversions |= {**dict.fromkeys(("created_at", "updated_at", "deleted_at"), instant), "tags": None}
    made = struct(name, list(conversions))
    converted = [(at, convert) for at, convert in enumerate(conversions.values()) if convert]

    def serialize(row: AssetRow | LocationRow) -> Struct:
        values: list[Any] = list(row)
        for at, convert in converted:
            if values[at] is not None:
                values[at] = convert(values[at])
        values[-1] = [Tag(tag_id, tag_type, value) for tag_id, tag_type, value in row.tags]
        return made(*values)

    return serialize


def _conversion(field: Field) -> Callable[[Any], Any] | None:
    if field.is_time:
        return instant
    if field.type == "object":
        return raw  # damaged metadata would make the whole response invalid
    return bool if field.type == "boolean" else None


def tag(row: TagRow) -> Tag:
    return Tag(row.id, row.tag_type, row.value)


def asset_location(row: AssetLocationRow) -> AssetLocation:
    """Return one row of the report (interface: Tracking rows AssetLocationItem)."""
    asset_id, asset_key, location_id, location_key, deleted, last_seen, dwell_started = row
    return AssetLocation(
        asset_id,
        asset_key,
        location_id,
        location_key,
        None if deleted is None else instant(deleted),
        instant(last_seen),
        instant(dwell_started),
        (last_seen - dwell_started) // clock.SECOND,
    )


def stay(row: StayRow) -> Stay:
    """Return one row of the history (interface: Tracking rows AssetHistoryItem)."""
    return Stay(instant(row.observed_at), row.location_id, row.location_external_key, row.duration_seconds)


asset = _record("Asset", "asset")
location = _record("Location", "location")


def one(data: Any, **extra: Any) -> Response:
    """Return `{data}` with further top-level fields."""
    return Response(json_text.encode({"data": data, **extra}), content_type="application/json")


def created(data: Any, path: str) -> Response:
    """Return a 201 response with the Location of the new record. `path` starts after the API prefix."""
    headers = {"Location": f"{PREFIX}{path}"}
    return Response(json_text.encode({"data": data}), 201, headers, content_type="application/json")


def page(render: Callable[[Row], Any], rows: Sequence[Row], total_count: int, query: Mapping[str, Any]) -> Response:
    """Render a list. Corrupt rows are logged and left out."""
    data = []
    for row in rows:
        try:
            data.append(render(row))
        except (ValueError, OverflowError, TypeError):
            log.error("Record %s is corrupt and was left out of a list. Run: edge doctor", row[0])
    content = {"data": data, **paging(query), "total_count": total_count}
    return Response(json_text.encode(content), content_type="application/json")


def nothing() -> Response:
    """Return a 204 response."""
    response = Response(status=204)
    del response.headers["Content-Type"]
    return response


def paging(query: Mapping[str, Any]) -> dict[str, int]:
    """Return the limit and offset of a query, or their defaults."""
    return {"limit": query.get("limit", DEFAULT_LIMIT), "offset": query.get("offset", 0)}
