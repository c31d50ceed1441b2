"""Assets: what is tracked. Values come in validated; every write is one transaction."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from edge.errors import NotFound
from edge.store import search, tags
from edge.store.database import execute, writing
from edge.store.group_commit import write_in_group
from edge.store.ids import new_id
from edge.store.listing import Source, Wanted, read_page, view
from edge.store.records import (
    ASSET_KEYS,
    Page,
    SortTerm,
    check_window,
    choose_key,
    keep_microseconds,
    key_number,
    moment,
    next_update,
    order_by,
    update,
)
from edge.store.tags import NewTag, TagRow, add_all, from_json

SORTABLE = {
    "external_key": "a.external_key",
    "name": "a.name",
    "created_at": "a.created_at",
    "updated_at": "a.updated_at",
}
DEFAULT_SORT = (SortTerm("external_key"),)


class AssetRow(NamedTuple):
    """`metadata` is compact JSON text, exactly as it came in; `tags` are the live ones."""

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
    external_keys: Sequence[str] = ()
    is_active: bool | None = None
    include_deleted: bool = False
    q: str = ""


_COLUMNS = [f"a.{column}" for column in AssetRow._fields if column != "tags"]
_LISTED = Source(_COLUMNS, "asset a", "a", "a.id", tagged="asset")
_GET = (
    f"SELECT {', '.join(_COLUMNS)}, {tags.tags_as_json('asset', 'a.id')} FROM asset a "  # noqa: S608
    "WHERE a.id = ? AND a.organization_id = ? AND a.deleted_at IS NULL"
)


def create(
    organization_id: int,
    *,
    name: str,
    external_key: str | None = None,
    description: str | None = None,
    is_active: bool = True,
    metadata: str = "{}",
    valid_from: int | None = None,
    valid_to: int | None = None,
    tags: Sequence[NewTag] = (),
) -> AssetRow:
    """Mints the key when none is given. Raises Conflict for a key or tag that is taken, Invalid for a bad window."""

    def insert() -> AssetRow:
        now = moment()
        begins = now if valid_from is None else valid_from
        check_window(begins, valid_to)
        key = choose_key(ASSET_KEYS, organization_id, external_key)
        row = AssetRow(
            new_id(), key, name, description, is_active, metadata, begins, valid_to, now, now, deleted_at=None
        )
        execute(
            "INSERT INTO asset (id, external_key, name, description, is_active, metadata, valid_from, valid_to, "
            "created_at, updated_at, deleted_at, organization_id, key_number) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (*row[:-1], organization_id, key_number(ASSET_KEYS, key)),
        )
        return _remember(organization_id, row._replace(tags=add_all(organization_id, "asset", row.id, tags, now)))

    return write_in_group(insert)


def get(organization_id: int, asset_id: int) -> AssetRow:
    """Live, whatever its window. Raises NotFound."""
    found = execute(_GET, (asset_id, organization_id)).fetchone()
    if found is None:
        raise NotFound("asset not found")
    return AssetRow._make((*found[:-1], from_json(found[-1])))


def list_page(
    organization_id: int,
    wanted: AssetFilter,
    *,
    limit: int,
    offset: int = 0,
    sort: Sequence[SortTerm] = DEFAULT_SORT,
) -> Page[AssetRow]:
    """Live assets within their window, and the deleted ones if wanted."""
    listed = Wanted(organization_id, "a.organization_id", include_deleted=wanted.include_deleted)
    listed.active("a", wanted.is_active)
    listed.any_of("a.external_key", wanted.external_keys)
    with view(listed, wanted.q):
        match = search.match("asset", organization_id, wanted.q) if wanted.q else None
        found, total = read_page(_LISTED, listed, match, order_by(sort, SORTABLE, "a.id"), limit, offset)
    return Page([AssetRow._make(row) for row in found], total)


def patch(
    organization_id: int,
    asset_id: int,
    changes: Mapping[str, Any],
    check: Callable[[AssetRow], None] | None = None,
) -> AssetRow:
    """Change the named columns. `check` sees the row as it is, inside the transaction, and refuses by raising."""
    with writing():
        current = get(organization_id, asset_id)
        if check:
            check(current)
        values = {**keep_microseconds(changes, current), "updated_at": next_update(current.updated_at)}
        changed = current._replace(**values)
        check_window(changed.valid_from, changed.valid_to)
        update("asset", asset_id, values)
        return _remember(organization_id, changed)


def rename(organization_id: int, asset_id: int, external_key: str) -> AssetRow:
    """To its own key: no change at all. Raises Conflict for a key that is taken."""
    with writing():
        current = get(organization_id, asset_id)
        if external_key == current.external_key:
            return current
        key = choose_key(ASSET_KEYS, organization_id, external_key)
        changed = current._replace(external_key=key, updated_at=next_update(current.updated_at))
        values = {"external_key": key, "key_number": key_number(ASSET_KEYS, key), "updated_at": changed.updated_at}
        update("asset", asset_id, values)
        return _remember(organization_id, changed)


def delete(organization_id: int, asset_id: int) -> None:
    """Softly, with its tags; key and tags are free again."""
    with writing():
        current = get(organization_id, asset_id)
        deleted_at = next_update(current.updated_at)
        update("asset", asset_id, {"deleted_at": deleted_at, "updated_at": deleted_at})
        tags.remove_all("asset", asset_id, deleted_at)
        _remember(organization_id, current._replace(deleted_at=deleted_at, tags=()))


def attach_tag(organization_id: int, asset_id: int, tag: NewTag) -> TagRow:
    """Raises Conflict for a tag that a live record holds."""
    with writing():
        added = tags.attach(organization_id, "asset", asset_id, tag)
        _remember(organization_id, get(organization_id, asset_id))
    return added


def detach_tag(organization_id: int, asset_id: int, tag_id: int) -> None:
    with writing():
        tags.detach(organization_id, "asset", asset_id, tag_id)
        _remember(organization_id, get(organization_id, asset_id))


def _remember(organization_id: int, row: AssetRow) -> AssetRow:
    search.remember("asset", organization_id, row, row.tags)
    return row
