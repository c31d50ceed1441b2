"""JSON representation of database rows (interface: Fields)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from edge import clock
from edge.records.assets import AssetRow
from edge.records.locations import LocationRow
from edge.records.tags import TagRow
from edge.tracking.report import AssetLocationRow, StayRow
from edge.validation import bodies
from edge.validation.body import Field
from edge.validation.json_text import Struct, raw, struct


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
