"""What a bulk job does to each asset: move, change a field, retire or restore, by the function for a single asset."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import Any, NamedTuple

from edge import clock
from edge.audit.actors import Actor
from edge.database.connection import execute
from edge.errors import Conflict, EdgeError, Invalid
from edge.handhelds import scans
from edge.handhelds.scans import Result, Submitted
from edge.records import assets, lookup, metadata_fields
from edge.records.external_keys import check_window
from edge.records.kept_elsewhere import refusal
from edge.records.tags import NewTag
from edge.texts import N_, fill, joined
from edge.validation import json_text
from edge.validation.imported_rows import messages_of
from edge.validation.values import MAX_METADATA_BYTES


class Action(StrEnum):
    MOVE = "move"
    CHANGE = "change"
    RETIRE = "retire"
    RESTORE = "restore"
    IMPORT = "import"  # see edge.bulk.imports


class BulkChange(NamedTuple):
    """One change for many assets.

    MOVE has a `location_id`. CHANGE has the `value` of a `field`: a column of the asset, or a property in its metadata
    if `is_property`. None empties the column or removes the property. IMPORT has the kind of its records as `field`.
    """

    action: Action
    location_id: int | None = None
    field: str = ""
    value: str | int | None = None
    is_property: bool = False


class Fault(NamedTuple):
    """An asset that cannot be changed, and why."""

    asset_id: int
    external_key: str
    name: str
    reason: str


class _Row(NamedTuple):
    """What is checked of an asset before anything is written."""

    id: int
    external_key: str
    name: str
    valid_from: int
    deleted_at: int | None
    home: str | None
    metadata: str | None  # only if a property changes


FIELDS = ("description", "is_active", "valid_to")
TOGETHER = 200  # assets that are read at once, each with up to 64 KB of metadata
RETIRED = N_("this asset is retired")
NOT_RETIRED = N_("this asset is not retired")


def to_json(change: BulkChange) -> str:
    return json_text.text(change._asdict())


def from_json(text: str) -> BulkChange:
    values = json_text.decode(text)
    return BulkChange(**{**values, "action": Action(values["action"])})


def check_change(organization_id: int, change: BulkChange) -> None:
    """Raise Conflict or Invalid if the change itself is impossible."""
    if change.action is Action.MOVE:
        sql = "SELECT 1 FROM location WHERE id = ? AND organization_id = ? AND deleted_at IS NULL"
        if execute(sql, (change.location_id, organization_id)).fetchone() is None:
            raise Invalid.one("location_id", "invalid_value", N_("Choose a location"))
    if change.action is Action.CHANGE and not change.is_property and change.field not in FIELDS:
        raise Invalid.one("field", "invalid_value", N_("This field cannot be changed for many assets"))
    if change.is_property and len(change.field) + len(str(change.value or "")) > MAX_METADATA_BYTES:
        message = fill(N_("The property must have at most %(number)s bytes"), number=MAX_METADATA_BYTES)
        raise Invalid.one("property", "too_long", message)


def check_assets(organization_id: int, change: BulkChange, asset_ids: Sequence[int]) -> list[Fault]:
    """Return the assets that cannot be changed. Writes nothing."""
    faults = []
    claimed: set[str | NewTag] = set()  # keys and tags that earlier rows take when they are restored
    for asset_id, row in _each_row(organization_id, change, asset_ids):
        if row is None:
            faults.append(Fault(asset_id, "", "", N_("asset not found")))
            continue
        try:
            _check(organization_id, change, row, claimed)
        except EdgeError as error:
            faults.append(Fault(row.id, row.external_key, row.name, joined(messages_of(error))))
    return faults


def apply(actor: Actor, change: BulkChange, job_id: str, started_at: int, asset_id: int) -> None:
    """Change one asset in the caller's transaction. Raises EdgeError if it cannot be changed.

    A move is a scan by the person at `started_at`, the time of the order: a later read moves the asset on.
    """
    if change.action is Action.MOVE:
        _move(actor, change, job_id, started_at, asset_id)
    elif change.action is Action.CHANGE:
        assets.patch(actor, asset_id, _patch(actor.organization_id, change, asset_id))
    elif change.action is Action.RETIRE:
        assets.delete(actor, asset_id)
    else:
        assets.restore(actor, asset_id)


_SELECT = """
    SELECT a.id, a.external_key, a.name, a.valid_from, a.deleted_at, m.home, iif(:has_metadata, a.metadata, NULL)
    FROM json_each(:ids) one CROSS JOIN asset a ON a.id = one.value LEFT JOIN mirror m ON m.record_id = a.id
    WHERE a.organization_id = :organization_id
"""


def _each_row(organization_id: int, change: BulkChange, asset_ids: Sequence[int]) -> Iterator[tuple[int, _Row | None]]:
    for start in range(0, len(asset_ids), TOGETHER):
        some = asset_ids[start : start + TOGETHER]
        rows = _rows(organization_id, change, some)
        yield from ((asset_id, rows.get(asset_id)) for asset_id in some)


def _rows(organization_id: int, change: BulkChange, asset_ids: Sequence[int]) -> dict[int, _Row]:
    values = {
        "ids": json_text.text(list(asset_ids)),
        "organization_id": organization_id,
        "has_metadata": change.is_property,
    }
    return {row[0]: _Row(*row) for row in execute(_SELECT, values)}


def _check(organization_id: int, change: BulkChange, row: _Row, claimed: set[str | NewTag]) -> None:
    if change.action is Action.RESTORE:
        _check_restore(organization_id, row, claimed)
        return
    if row.deleted_at is not None:
        raise Conflict(RETIRED)
    if row.home and change.action is not Action.MOVE:  # scanning is allowed at every box
        raise Conflict(refusal(row.home))
    if change.is_property:
        _with_property(change, row.metadata or "{}")
    elif change.action is Action.CHANGE:
        values = _column(change)
        check_window(row.valid_from, values.get("valid_to"))


def _check_restore(organization_id: int, row: _Row, claimed: set[str | NewTag]) -> None:
    if row.deleted_at is None:
        raise Conflict(NOT_RETIRED)
    if row.home:
        raise Conflict(refusal(row.home))
    asset = assets.get_any(organization_id, row.id)
    assets.check_restorable(organization_id, asset)
    own: set[str | NewTag] = {asset.external_key, *(NewTag(tag.tag_type, tag.value) for tag in asset.tags)}
    if own & claimed:
        raise Conflict(N_("Another of the chosen assets has the same key or tag"))
    claimed |= own


def _move(actor: Actor, change: BulkChange, job_id: str, started_at: int, asset_id: int) -> None:
    asset = lookup.asset_by_id(actor.organization_id, asset_id)
    if asset is None:
        raise Conflict(RETIRED)
    scan = Submitted(f"{job_id}:{asset_id}", asset.external_key, change.location_id or 0, started_at, asset_id=asset_id)
    [answer] = scans.submit(actor, [scan], clock.now())
    if answer.result not in (Result.RECORDED, Result.AGAIN):
        raise Conflict(answer.reason or N_("the location is retired"))


def _patch(organization_id: int, change: BulkChange, asset_id: int) -> dict[str, Any]:
    if change.is_property:
        return _with_property(change, assets.get(organization_id, asset_id).metadata)
    return _column(change)


def _column(change: BulkChange) -> dict[str, Any]:
    value: Any = bool(change.value) if change.field == "is_active" else change.value
    return {change.field: value}


def _with_property(change: BulkChange, metadata: str) -> dict[str, Any]:
    return {"metadata": metadata_fields.with_properties(metadata, {change.field: change.value})}
