"""Rows as the wire shows them (spec: Resources and their fields)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson

from edge import clock
from edge.store.assets import AssetRow
from edge.store.locations import LocationRow
from edge.store.tags import TagRow
from edge.store.tracking import PlaceRow, StayRow

Shape = dict[str, Any]


def asset(row: AssetRow) -> Shape:
    return {
        "id": row.id,
        "external_key": row.external_key,
        "name": row.name,
        "description": row.description,
        "is_active": bool(row.is_active),
        "metadata": orjson.Fragment(row.metadata),
        "valid_from": instant(row.valid_from),
        "valid_to": _optional(row.valid_to),
        "created_at": instant(row.created_at),
        "updated_at": instant(row.updated_at),
        "deleted_at": _optional(row.deleted_at),
        "tags": [tag(item) for item in row.tags],
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


def place(row: PlaceRow) -> Shape:
    return {
        "asset_id": row.asset_id,
        "asset_external_key": row.asset_external_key,
        "location_id": row.location_id,
        "location_external_key": row.location_external_key,
        "asset_deleted_at": _optional(row.asset_deleted_at),
        "asset_last_seen": instant(row.last_seen_at),
        "dwell_started_at": instant(row.dwell_started_at),
        "dwell_seconds": (row.last_seen_at - row.dwell_started_at) // clock.SECOND,
    }


def stay(row: StayRow) -> Shape:
    return {
        "event_observed_at": instant(row.observed_at),
        "location_id": row.location_id,
        "location_external_key": row.location_external_key,
        "duration_seconds": row.duration_seconds,
    }


instant: Callable[[int], str] = clock.rfc3339


def _optional(micros: int | None) -> str | None:
    return None if micros is None else instant(micros)
