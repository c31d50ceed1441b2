"""JSON representation of database rows (interface: Fields)."""

from __future__ import annotations

from collections.abc import Callable

from edge import clock
from edge.records.assets import AssetRow
from edge.records.locations import LocationRow
from edge.records.tags import TagRow
from edge.tracking.report import AssetLocationRow, StayRow
from edge.validation.json_text import Raw, Struct, raw


class Tag(Struct, gc=False):
    id: int
    tag_type: str
    value: str


class Asset(Struct, gc=False):
    id: int
    external_key: str
    name: str
    description: str | None
    is_active: bool
    metadata: Raw
    valid_from: str
    valid_to: str | None
    created_at: str
    updated_at: str
    deleted_at: str | None
    tags: list[Tag]


class Location(Struct, gc=False):
    id: int
    external_key: str
    name: str
    description: str | None
    is_active: bool
    parent_id: int | None
    parent_external_key: str | None
    valid_from: str
    valid_to: str | None
    created_at: str
    updated_at: str
    deleted_at: str | None
    tags: list[Tag]


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


def asset(row: AssetRow) -> Asset:
    """Return the JSON object of an asset. Unpacking the row once is faster than reading its attributes."""
    record_id, key, name, description, is_active, metadata, valid_from, valid_to, created, updated, deleted, tags = row
    return Asset(
        record_id,
        key,
        name,
        description,
        bool(is_active),
        raw(metadata),  # damaged metadata would make the whole response invalid
        instant(valid_from),
        None if valid_to is None else instant(valid_to),
        instant(created),
        instant(updated),
        None if deleted is None else instant(deleted),
        [Tag(tag_id, tag_type, value) for tag_id, tag_type, value in tags],
    )


def location(row: LocationRow) -> Location:
    return Location(
        row.id,
        row.external_key,
        row.name,
        row.description,
        bool(row.is_active),
        row.parent_id,
        row.parent_external_key,
        instant(row.valid_from),
        _optional(row.valid_to),
        instant(row.created_at),
        instant(row.updated_at),
        _optional(row.deleted_at),
        [tag(item) for item in row.tags],
    )


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


instant: Callable[[int], str] = clock.rfc3339


def _optional(micros: int | None) -> str | None:
    return None if micros is None else instant(micros)
