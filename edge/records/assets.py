"""Assets: create, list, change, retire and restore.

The functions expect validated values. Every write is one transaction and is recorded in the audit log.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from edge.audit import quotas
from edge.audit.actors import Actor
from edge.audit.audit import acting
from edge.database.connection import execute, reading, update
from edge.database.lists import Page, SortTerm, order_by
from edge.errors import Conflict, NotFound
from edge.records import former_people, record, search, tagging, tags
from edge.records.external_keys import ASSET_KEYS, is_key_taken, next_update
from edge.records.kept_elsewhere import check_home
from edge.records.listing import ListQuery, Reserve, Source, read_page, uncounted, view
from edge.records.record import Changes, Kind
from edge.records.tags import NewTag, TagRow, from_json, is_taken, match_key
from edge.texts import N_, fill

SORTABLE = {field: f"a.{field}" for field in record.SORTED_BY}
DEFAULT_SORT = (SortTerm("external_key"),)


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


class AssetFilter(NamedTuple):
    """Filters of a list. Empty filters and None match everything."""

    external_keys: Sequence[str] = ()
    is_active: bool | None = None
    include_deleted: bool = False
    q: str = ""


_COLUMNS = [f"a.{column}" for column in AssetRow._fields if column != "tags"]
_LONG_METADATA = 4096  # characters; lists fetch longer metadata in a second query
# Parsing 200 assets with 64 KB each as one JSON text would block all other threads for 30 to 60 ms.
_SHORT_METADATA = f"iif(length(a.metadata) > {_LONG_METADATA}, NULL, a.metadata)"
# As a row and in an answer. With one character beyond ASCII, each may take four bytes.
_SIZE_IN_MEMORY = "ifnull(sum(length(metadata) * iif(length(CAST(metadata AS BLOB)) > length(metadata), 6, 3)), 0)"
_LIST_SOURCE = Source(
    [_SHORT_METADATA if column == "a.metadata" else column for column in _COLUMNS],
    "asset a",
    "a",
    "a.id",
    tagged="asset",
)
SELECT_ASSETS = f"SELECT {', '.join(_COLUMNS)}, {tags.tags_as_json('asset', 'a.id')} FROM asset a"

INSERT_ASSET = (
    f"INSERT INTO asset ({', '.join(AssetRow._fields[:-1])}, organization_id, key_number) "
    f"VALUES ({', '.join('?' * (len(AssetRow._fields) + 1))})"
)


def create(actor: Actor, *, tags: Sequence[NewTag] = (), **fields: Any) -> AssetRow:
    """Create an asset with these columns. Without `external_key`, a key is generated (interface: Auto-mint).

    Raises Conflict if the key or a tag is taken, Invalid for a bad window.
    """
    return record.create(KIND, actor, {"is_active": True, "metadata": "{}", **fields}, tags)


def get(organization_id: int, asset_id: int) -> AssetRow:
    """Return a live asset, also outside its window. Raises NotFound."""
    sql = f"{SELECT_ASSETS} WHERE a.id = ? AND a.organization_id = ? AND a.deleted_at IS NULL"
    row = execute(sql, (asset_id, organization_id)).fetchone()
    if row is None:
        raise NotFound("asset not found")
    return AssetRow._make((*row[:-1], from_json(row[-1])))


def list_page(
    organization_id: int,
    filters: AssetFilter,
    *,
    limit: int,
    offset: int = 0,
    sort: Sequence[SortTerm] = DEFAULT_SORT,
    reserve: Reserve = uncounted,
) -> Page[AssetRow]:
    """Return a page of the live assets within their window, including deleted ones if the filter asks for them."""
    query = ListQuery(organization_id, "a.organization_id", include_deleted=filters.include_deleted)
    query.active("a", filters.is_active)
    query.any_of("a.external_key", filters.external_keys)

    def read(reserve: Reserve) -> Page[AssetRow]:
        match = search.match("asset", organization_id, filters.q) if filters.q else None
        rows, total = read_page(_LIST_SOURCE, query, match, order_by(sort, SORTABLE, "a.id"), limit, offset, reserve)
        return Page([AssetRow._make(row) for row in rows], total)

    with view(query, filters.q):
        page = read(reserve)
    if all(row.metadata is not None for row in page.rows):
        return page
    with reading():  # read again: rows and metadata must come from the same snapshot
        page = read(uncounted)
        return page._replace(rows=_with_long_metadata(organization_id, page.rows, reserve))


def _with_long_metadata(organization_id: int, rows: Sequence[AssetRow], reserve: Reserve) -> list[AssetRow]:
    values = organization_id, json.dumps([row.id for row in rows if row.metadata is None])
    chosen = "FROM asset WHERE +organization_id = ? AND id IN (SELECT value FROM json_each(?))"
    reserve(execute(f"SELECT {_SIZE_IN_MEMORY} {chosen}", values).fetchone()[0])
    metadata_by_id = dict(execute(f"SELECT id, metadata {chosen}", values))
    return [row if row.metadata is not None else row._replace(metadata=metadata_by_id[row.id]) for row in rows]


def _charge_metadata(actor: Actor, current: AssetRow | None, columns: dict[str, Any]) -> None:
    if "metadata" in columns:
        quotas.charge(actor, max(0, len(columns["metadata"]) - len(current.metadata if current else "")))


KIND = Kind("asset", ASSET_KEYS, get, _charge_metadata, guard=former_people.kept)
subject_of, audit_fields = KIND.subject, KIND.audited


def patch(actor: Actor, asset_id: int, changes: Changes, check: Callable[[AssetRow], None] | None = None) -> AssetRow:
    """Change some columns. `check` gets the current row inside the transaction and raises to refuse the change.

    Raises NotFound, Conflict if the asset's home is another box, Forbidden if it is a person and would not be one.
    """
    return record.patch(KIND, actor, asset_id, changes, check)


def rename(actor: Actor, asset_id: int, external_key: str) -> AssetRow:
    """Change the external key; the current key changes nothing.

    Raises NotFound, Conflict if the key is taken, Forbidden if the asset is a person and would not be one.
    """
    return record.rename(KIND, actor, asset_id, external_key)[0]


def edit(
    actor: Actor,
    asset_id: int,
    changes: Changes,
    external_key: str,
    check: Callable[[AssetRow], None] | None = None,
) -> AssetRow:
    """Patch and rename in one transaction."""
    with acting(actor):
        patch(actor, asset_id, changes, check)
        return rename(actor, asset_id, external_key)


def delete(actor: Actor, asset_id: int) -> None:
    """Soft-delete an asset and its tags. The key and the tags become available again. Raises NotFound, Conflict."""
    record.delete(KIND, actor, asset_id)


def attach_tag(actor: Actor, asset_id: int, tag: NewTag) -> TagRow:
    """Attach a tag. Raises NotFound, and Conflict if a live record has the tag."""
    return record.attach_tag(KIND, actor, asset_id, tag)


def detach_tag(actor: Actor, asset_id: int, tag_id: int) -> None:
    """Detach a tag. Raises NotFound if the asset does not have it."""
    record.detach_tag(KIND, actor, asset_id, tag_id)


_FIELDS = [field for field in AssetRow._fields if field != "tags"]
_GET_ANY = f"SELECT {', '.join(_FIELDS)} FROM asset WHERE id = ? AND organization_id = ?"
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
