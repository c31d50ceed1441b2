"""JSON representation of database rows (spec: Resources and their fields)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from edge import clock
from edge.records.assets import AssetRow
from edge.records.locations import LocationRow
from edge.records.tags import TagRow
from edge.tracking.report import AssetLocationRow, StayRow
from edge.validation import json_text

Shape = dict[str, Any]


def asset(row: AssetRow) -> Shape:
    """Return the JSON object of an asset. Unpacking the row once is faster than reading its attributes."""
    record_id, key, name, description, is_active, metadata, valid_from, valid_to, created, updated, deleted, tags = row
    return {
        "id": record_id,
        "external_key": key,
        "name": name,
        "description": description,
        "is_active": bool(is_active),
        "metadata": json_text.Raw(metadata),
        "valid_from": instant(valid_from),
        "valid_to": None if valid_to is None else instant(valid_to),
        "created_at": instant(created),
        "updated_at": instant(updated),
        "deleted_at": None if deleted is None else instant(deleted),
        "tags": [{"id": tag_id, "tag_type": tag_type, "value": value} for tag_id, tag_type, value in tags],
    }


def location(row: LocationRow) -> Shape:
    return {
        "id": row.id,
        "external_key": row.external_key,
        "name": row.name,
        "description": row.description,
        "is_active": bool(row.is_active),
        "parent_id": row.parent_id,
        "parent_external_key": row.parent_external_key,
        "valid_from": instant(row.valid_from),
        "valid_to": _optional(row.valid_to),
        "created_at": instant(row.created_at),
        "updated_at": instant(row.updated_at),
        "deleted_at": _optional(row.deleted_at),
        "tags": [tag(item) for item in row.tags],
    }


def tag(row: TagRow) -> Shape:
    return {"id": row.id, "tag_type": row.tag_type, "value": row.value}


def asset_location(row: AssetLocationRow) -> Shape:
    """Return one row of the report (spec: AssetLocationItem)."""
    asset_id, asset_key, location_id, location_key, deleted, last_seen, dwell_started = row
    return {
        "asset_id": asset_id,
        "asset_external_key": asset_key,
        "location_id": location_id,
        "location_external_key": location_key,
        "asset_deleted_at": None if deleted is None else instant(deleted),
        "asset_last_seen": instant(last_seen),
        "dwell_started_at": instant(dwell_started),
        "dwell_seconds": (last_seen - dwell_started) // clock.SECOND,
    }


def stay(row: StayRow) -> Shape:
    """Return one row of the history (spec: AssetHistoryItem)."""
    return {
        "event_observed_at": instant(row.observed_at),
        "location_id": row.location_id,
        "location_external_key": row.location_external_key,
        "duration_seconds": row.duration_seconds,
    }


instant: Callable[[int], str] = clock.rfc3339


def _optional(micros: int | None) -> str | None:
    return None if micros is None else instant(micros)
