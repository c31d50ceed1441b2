"""Assets: what is tracked. Values come in validated; every write is one transaction."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from edge import clock
from edge.errors import NotFound
from edge.store import tags
from edge.store.database import execute, reading, writing
from edge.store.ids import new_id
from edge.store.records import (
    ASSET_KEYS,
    Page,
    SortTerm,
    any_of,
    check_window,
    choose_key,
    keep_microseconds,
    key_number,
    moment,
    next_update,
    order_by,
    update,
    visible,
)
from edge.store.tags import NewTag, TagRow

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


_COLUMNS = ", ".join(f"a.{column}" for column in AssetRow._fields if column != "tags")


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
    with writing():
        now = moment()
        valid_from = now if valid_from is None else valid_from
        check_window(valid_from, valid_to)
        key = choose_key(ASSET_KEYS, organization_id, external_key)
        row = AssetRow(
            new_id(), key, name, description, is_active, metadata, valid_from, valid_to, now, now, deleted_at=None
        )
        execute(
            "INSERT INTO asset (id, external_key, name, description, is_active, metadata, valid_from, valid_to, "
            "created_at, updated_at, deleted_at, organization_id, key_number) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (*row[:-1], organization_id, key_number(ASSET_KEYS, key)),
        )
        return row._replace(tags=_add_tags(organization_id, row.id, tags, now))


def get(organization_id: int, asset_id: int) -> AssetRow:
    """Live, whatever its window. Raises NotFound."""
    sql = f"SELECT {_COLUMNS} FROM asset a WHERE a.id = ? AND a.organization_id = ? AND a.deleted_at IS NULL"  # noqa: S608
    with reading():
        found = execute(sql, (asset_id, organization_id)).fetchone()
        if found is None:
            raise NotFound("asset not found")
        return AssetRow._make((*found, tags.of_one("asset", asset_id)))


def list_page(
    organization_id: int,
    wanted: AssetFilter,
    *,
    limit: int,
    offset: int = 0,
    sort: Sequence[SortTerm] = DEFAULT_SORT,
) -> Page[AssetRow]:
    """Live assets within their window, and the deleted ones if wanted."""
    where, values = _where(organization_id, wanted)
    with reading():
        total = execute(f"SELECT count(*) FROM asset a WHERE {where}", values).fetchone()[0]  # noqa: S608
        sql = (
            f"SELECT {_COLUMNS} FROM asset a WHERE {where} "  # noqa: S608
            f"ORDER BY {order_by(sort, SORTABLE, 'a.id')} LIMIT :limit OFFSET :offset"
        )
        found = [AssetRow(*row) for row in execute(sql, {**values, "limit": limit, "offset": offset})]
        tagged = tags.of_many("asset", [row.id for row in found])
    return Page([row._replace(tags=tagged.get(row.id, ())) for row in found], total)


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
    return changed


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
    return changed


def delete(organization_id: int, asset_id: int) -> None:
    """Softly, with its tags; key and tags are free again."""
    with writing():
        current = get(organization_id, asset_id)
        deleted_at = next_update(current.updated_at)
        update("asset", asset_id, {"deleted_at": deleted_at, "updated_at": deleted_at})
        tags.remove_all("asset", asset_id, deleted_at)


def attach_tag(organization_id: int, asset_id: int, tag: NewTag) -> TagRow:
    """Raises Conflict for a tag that a live record holds."""
    return tags.attach(organization_id, "asset", asset_id, tag)


def detach_tag(organization_id: int, asset_id: int, tag_id: int) -> None:
    tags.detach(organization_id, "asset", asset_id, tag_id)


def _where(organization_id: int, wanted: AssetFilter) -> tuple[str, dict[str, Any]]:
    parts = ["a.organization_id = :organization_id", visible("a", include_deleted=wanted.include_deleted)]
    values: dict[str, Any] = {"organization_id": organization_id, "now": clock.now()}
    if wanted.is_active is not None:
        parts.append("a.is_active = :is_active")
        values["is_active"] = wanted.is_active
    if wanted.external_keys:
        parts.append(any_of("a.external_key", wanted.external_keys, values))
    return " AND ".join(parts), values


def _add_tags(organization_id: int, asset_id: int, new: Sequence[NewTag], now: int) -> list[TagRow]:
    return tags.add_all(organization_id, "asset", asset_id, new, now)
