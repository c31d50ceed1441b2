"""Retired assets: those that were soft-deleted, with the tags deleted with them, and how to restore them."""

from __future__ import annotations

from edge.errors import Conflict, NotFound
from edge.store import search, tagging
from edge.store.actors import Actor
from edge.store.assets import AssetRow
from edge.store.audit import Subject, acting
from edge.store.database import execute
from edge.store.homes import check_home
from edge.store.records import ASSET_KEYS, is_key_taken, next_update, update
from edge.store.tags import NewTag, TagRow, is_taken

_FIELDS = [field for field in AssetRow._fields if field != "tags"]
_ANY = f"SELECT {', '.join(_FIELDS)} FROM asset WHERE id = ? AND organization_id = ?"
_TAGS = "SELECT id, tag_type, value FROM tag WHERE asset_id = ? AND deleted_at IS ? ORDER BY id"


def get_any(organization_id: int, asset_id: int) -> AssetRow:
    """Live or retired. The tags of a retired one are those it had when it was deleted. Raises NotFound."""
    found = execute(_ANY, (asset_id, organization_id)).fetchone()
    if found is None:
        raise NotFound("asset not found")
    asset = AssetRow(*found)
    return asset._replace(tags=[TagRow(*tag) for tag in execute(_TAGS, (asset_id, asset.deleted_at))])


def restore(actor: Actor, asset_id: int) -> AssetRow:
    """As it was, with its tags. Raises Conflict when something else has its key or one of its tags now."""
    with acting(actor) as act:
        asset = get_any(actor.organization_id, asset_id)
        if asset.deleted_at is None:
            return asset
        check_home(asset_id)
        if is_key_taken(ASSET_KEYS, actor.organization_id, asset.external_key):
            raise Conflict(f"Another asset has the key {asset.external_key} now")
        for tag in asset.tags:
            if is_taken(actor.organization_id, NewTag(tag.tag_type, tag.value)):
                raise Conflict(f"The tag {tag.tag_type}:{tag.value} is on something else now")
        row = asset._replace(deleted_at=None, updated_at=next_update(asset.updated_at))
        update("asset", asset_id, {"deleted_at": None, "updated_at": row.updated_at})
        execute("UPDATE tag SET deleted_at = NULL WHERE asset_id = ? AND deleted_at = ?", (asset_id, asset.deleted_at))
        tagging.take_over(actor.organization_id, [NewTag(tag.tag_type, tag.value) for tag in asset.tags])
        act.note("asset.restored", Subject("asset", asset_id, f"{row.name} ({row.external_key})"))
        search.remember("asset", actor.organization_id, row, row.tags)
        return row
