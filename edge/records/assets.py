"""Assets: create, list, change, retire and restore.

The functions expect validated values. Every write is one transaction and is recorded in the audit log.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from edge.audit import quotas
from edge.audit.actors import Actor
from edge.audit.audit import acting
from edge.database.connection import execute, reading, update
from edge.database.lists import Page
from edge.errors import Conflict, NotFound
from edge.memory_budget import hold_for_request
from edge.records import former_people, tagging
from edge.records.external_keys import ASSET_KEYS, is_key_taken, next_update
from edge.records.kept_elsewhere import check_home
from edge.records.record import Kind, RecordFilter
from edge.records.tags import NewTag, TagRow, is_taken, match_key
from edge.texts import N_, fill


class AssetRow(NamedTuple):
    """An asset with its live tags.

    `metadata` is the compact JSON text as received. Times are microseconds since the epoch, UTC.
    """

    id: int
    external_key: str
    name: str
    description: str | None
    is_active: bool
    metadata: str
    valid_from: int
    valid_to: int | None
    created_at: int
    updated_at: int
    deleted_at: int | None
    tags: Sequence[TagRow] = ()


_LONG_METADATA = 4096  # characters; lists fetch longer metadata in a second query
# Parsing 200 assets with 64 KB each as one JSON text would block all other threads for 30 to 60 ms.
_SHORT_METADATA = f"iif(length(a.metadata) > {_LONG_METADATA}, NULL, a.metadata)"
# As a row and in an answer. With one character beyond ASCII, each may take four bytes.
_SIZE_IN_MEMORY = "ifnull(sum(length(metadata) * iif(length(CAST(metadata AS BLOB)) > length(metadata), 6, 3)), 0)"


def _charge_metadata(actor: Actor, current: AssetRow | None, columns: dict[str, Any]) -> None:
    if "metadata" in columns:
        quotas.charge(actor, max(0, len(columns["metadata"]) - len(current.metadata if current else "")))


KIND = Kind(
    "asset",
    ASSET_KEYS,
    AssetRow,
    "a",
    "asset a",
    {field: f"a.{field}" for field in AssetRow._fields[:-1]},
    {"is_active": True, "metadata": "{}"},
    _charge_metadata,
    listed={"metadata": _SHORT_METADATA},
    guard=former_people.kept,
)
subject_of = KIND.subject
create, get, patch, rename, edit, delete = KIND.create, KIND.get, KIND.patch, KIND.rename, KIND.edit, KIND.delete
attach_tag, detach_tag = KIND.attach_tag, KIND.detach_tag


def list_page(organization_id: int, filters: RecordFilter, **paging: Any) -> Page[AssetRow]:
    """Return a page like that of any kind, with long metadata from a second query."""
    page = KIND.list_page(organization_id, filters, **paging)
    if all(row.metadata is not None for row in page.rows):
        return page
    with reading():  # read again: rows and metadata must come from the same snapshot
        page = KIND.list_page(organization_id, filters, **paging)
        return page._replace(rows=_with_long_metadata(organization_id, page.rows))


def _with_long_metadata(organization_id: int, rows: Sequence[AssetRow]) -> list[AssetRow]:
    values = organization_id, json.dumps([row.id for row in rows if row.metadata is None])
    chosen = "FROM asset WHERE +organization_id = ? AND id IN (SELECT value FROM json_each(?))"
    hold_for_request(execute(f"SELECT {_SIZE_IN_MEMORY} {chosen}", values).fetchone()[0])
    metadata_by_id = dict(execute(f"SELECT id, metadata {chosen}", values))
    return [row if row.metadata is not None else row._replace(metadata=metadata_by_id[row.id]) for row in rows]


_GET_ANY = f"SELECT {', '.join(KIND.columns)} FROM asset WHERE id = ? AND organization_id = ?"
_TAGS = "SELECT id, tag_type, value FROM tag WHERE asset_id = ? AND deleted_at IS ? ORDER BY id"


def get_any(organization_id: int, asset_id: int) -> AssetRow:
    """Return a live or retired asset. A retired one has the tags that were deleted with it. Raises NotFound."""
    row = execute(_GET_ANY, (asset_id, organization_id)).fetchone()
    if row is None:
        raise NotFound("asset not found")
    asset = AssetRow(*row)
    return asset._replace(tags=[TagRow(*tag) for tag in execute(_TAGS, (asset_id, asset.deleted_at))])


def restore(actor: Actor, asset_id: int) -> AssetRow:
    """Restore a retired asset and its tags. Raises NotFound, and Conflict if its key or a tag is now taken."""
    with acting(actor) as act:
        asset = get_any(actor.organization_id, asset_id)
        if asset.deleted_at is None:
            return asset
        check_home(asset_id)
        check_restorable(actor.organization_id, asset)
        row = asset._replace(deleted_at=None, updated_at=next_update(asset.updated_at))
        former_people.check_tags(
            actor, [(tag.tag_type, match_key(tag.tag_type, tag.value), asset_id) for tag in asset.tags]
        )
        update("asset", asset_id, {"deleted_at": None, "updated_at": row.updated_at})
        execute("UPDATE tag SET deleted_at = NULL WHERE asset_id = ? AND deleted_at = ?", (asset_id, asset.deleted_at))
        tagging.send_tag_attached(actor.organization_id, [NewTag(tag.tag_type, tag.value) for tag in asset.tags])
        act.note("asset.restored", KIND.subject(row))
        return KIND.indexed(actor.organization_id, row)


def check_restorable(organization_id: int, asset: AssetRow) -> None:
    """Raise Conflict if the key or a tag of a retired asset is now taken."""
    if is_key_taken(ASSET_KEYS, organization_id, asset.external_key):
        raise Conflict(fill(N_("Another asset now has the key %(key)s"), key=asset.external_key))
    for tag in asset.tags:
        if is_taken(organization_id, NewTag(tag.tag_type, tag.value)):
            message = N_("The tag %(tag)s now belongs to another record")
            raise Conflict(fill(message, tag=f"{tag.tag_type}:{tag.value}"))
