"""Retired assets, as people look them up: what was soft-deleted, with the tags that went with it."""

from __future__ import annotations

from edge.errors import NotFound
from edge.store.assets import AssetRow
from edge.store.database import execute
from edge.store.tags import TagRow

_FIELDS = [field for field in AssetRow._fields if field != "tags"]
_ANY = f"SELECT {', '.join(_FIELDS)} FROM asset WHERE id = ? AND organization_id = ?"  # noqa: S608 - our own columns
_TAGS = "SELECT id, tag_type, value FROM tag WHERE asset_id = ? AND deleted_at IS ? ORDER BY id"


def get_any(organization_id: int, asset_id: int) -> AssetRow:
    """Live or retired. The tags of a retired one are those it had to the end. Raises NotFound."""
    found = execute(_ANY, (asset_id, organization_id)).fetchone()
    if found is None:
        raise NotFound("asset not found")
    asset = AssetRow(*found)
    return asset._replace(tags=[TagRow(*tag) for tag in execute(_TAGS, (asset_id, asset.deleted_at))])
