"""Assets: what is tracked. Values come in validated; every write is one transaction, and audited.

Retired assets: those that were soft-deleted, with the tags deleted with them, and how to restore them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Required, TypedDict

from edge import clock
from edge.audit import quotas
from edge.audit.actors import Actor
from edge.audit.audit import Act, Subject, act_in_group, acting, changed, given
from edge.database.connection import execute, reading
from edge.database.ids import new_id
from edge.database.lists import Page, SortTerm, order_by
from edge.errors import Conflict, NotFound
from edge.records import search, tagging, tags
from edge.records.external_keys import (
    ASSET_KEYS,
    check_window,
    choose_key,
    is_key_taken,
    keep_microseconds,
    key_number,
    moment,
    next_update,
    update,
)
from edge.records.homes import check_home
from edge.records.listing import Source, Wanted, read_page, view
from edge.records.tagging import told
from edge.records.tags import NewTag, TagRow, from_json, is_taken

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


class _AssetOptional(TypedDict, total=False):
    description: str | None
    is_active: bool
    metadata: str
    valid_from: int
    valid_to: int | None


class AssetChanges(_AssetOptional, total=False):
    """The columns that a patch may set. `metadata` is compact JSON text."""

    name: str


class AssetFields(_AssetOptional, total=False):
    """The arguments of `create` with these names. `metadata` is compact JSON text."""

    name: Required[str]
    external_key: str


class AssetFilter(NamedTuple):
    external_keys: Sequence[str] = ()
    is_active: bool | None = None
    include_deleted: bool = False
    q: str = ""


_COLUMNS = [f"a.{column}" for column in AssetRow._fields if column != "tags"]
_LONG = 4096  # characters of metadata; a list fetches longer ones by themselves
# Parsing a page of 200 assets with 64 KB each as one text took 30 to 60 ms, in which no other thread could run.
_SHORT_METADATA = f"iif(length(a.metadata) > {_LONG}, NULL, a.metadata)"
_LISTED = Source(
    [_SHORT_METADATA if column == "a.metadata" else column for column in _COLUMNS],
    "asset a",
    "a",
    "a.id",
    tagged="asset",
)
_GET = (
    f"SELECT {', '.join(_COLUMNS)}, {tags.tags_as_json('asset', 'a.id')} FROM asset a "
    "WHERE a.id = ? AND a.organization_id = ? AND a.deleted_at IS NULL"
)

INSERT_ASSET = (
    f"INSERT INTO asset ({', '.join(AssetRow._fields[:-1])}, organization_id, key_number) "
    f"VALUES ({', '.join('?' * (len(AssetRow._fields) + 1))})"
)


def create(
    actor: Actor,
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

    def insert(act: Act) -> AssetRow:
        organization_id, now = act.organization_id, moment()
        begins = now if valid_from is None else valid_from
        check_window(begins, valid_to)
        key = choose_key(ASSET_KEYS, organization_id, external_key)
        row = AssetRow(
            new_id(), key, name, description, is_active, metadata, begins, valid_to, now, now, deleted_at=None
        )
        quotas.charge(actor, len(metadata))
        execute(INSERT_ASSET, (*row[:-1], organization_id, key_number(ASSET_KEYS, key)))
        row = row._replace(tags=tagging.attach_all(act, "asset", row.id, tags, now))
        act.note("asset.created", subject_of(row), given({**facts_of(row), "tags": [told(tag) for tag in row.tags]}))
        return _remember(organization_id, row)

    return act_in_group(actor, insert)


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

    def read() -> Page[AssetRow]:
        match = search.match("asset", organization_id, wanted.q) if wanted.q else None
        found, total = read_page(_LISTED, listed, match, order_by(sort, SORTABLE, "a.id"), limit, offset)
        return Page([AssetRow._make(row) for row in found], total)

    with view(listed, wanted.q):
        page = read()
    if all(row.metadata is not None for row in page.rows):
        return page
    with reading():  # again, since rows and metadata must be of the same moment
        page = read()
        return page._replace(rows=_with_long_metadata(organization_id, page.rows))


def _with_long_metadata(organization_id: int, rows: Sequence[AssetRow]) -> list[AssetRow]:
    ids = [row.id for row in rows if row.metadata is None]
    sql = "SELECT id, metadata FROM asset WHERE organization_id = ? AND id IN (SELECT value FROM json_each(?))"
    found = dict(execute(sql, (organization_id, json.dumps(ids))))
    return [row if row.metadata is not None else row._replace(metadata=found[row.id]) for row in rows]


def patch(
    actor: Actor,
    asset_id: int,
    changes: AssetChanges,
    check: Callable[[AssetRow], None] | None = None,
) -> AssetRow:
    """Change the named columns. `check` sees the row as it is, inside the transaction, and refuses by raising."""
    with acting(actor) as act:
        current = get(actor.organization_id, asset_id)
        check_home(asset_id)
        if check:
            check(current)
        values = {**keep_microseconds(changes, current), "updated_at": next_update(current.updated_at)}
        row = current._replace(**values)
        check_window(row.valid_from, row.valid_to)
        quotas.charge(actor, max(0, len(row.metadata) - len(current.metadata)))
        update("asset", asset_id, values)
        act.note_changes("asset.changed", subject_of(row), changed(facts_of(current), facts_of(row)))
        return _remember(actor.organization_id, row)


def rename(actor: Actor, asset_id: int, external_key: str) -> AssetRow:
    """To its own key: no change at all. Raises Conflict for a key that is taken."""
    with acting(actor) as act:
        current = get(actor.organization_id, asset_id)
        check_home(asset_id)
        if external_key == current.external_key:
            return current
        key = choose_key(ASSET_KEYS, actor.organization_id, external_key)
        row = current._replace(external_key=key, updated_at=next_update(current.updated_at))
        values = {"external_key": key, "key_number": key_number(ASSET_KEYS, key), "updated_at": row.updated_at}
        update("asset", asset_id, values)
        act.note("asset.renamed", subject_of(row), changed(facts_of(current), facts_of(row)))
        return _remember(actor.organization_id, row)


def edit(
    actor: Actor,
    asset_id: int,
    changes: AssetChanges,
    external_key: str,
    check: Callable[[AssetRow], None] | None = None,
) -> AssetRow:
    """Patch and rename, both or neither."""
    with acting(actor):
        patch(actor, asset_id, changes, check)
        return rename(actor, asset_id, external_key)


def delete(actor: Actor, asset_id: int) -> None:
    """Soft-delete an asset and its tags; its key and tags are free again."""
    with acting(actor) as act:
        current = get(actor.organization_id, asset_id)
        check_home(asset_id)
        deleted_at = next_update(current.updated_at)
        update("asset", asset_id, {"deleted_at": deleted_at, "updated_at": deleted_at})
        tags.remove_all("asset", asset_id, deleted_at)
        act.note("asset.deleted", subject_of(current), given({"tags": [told(tag) for tag in current.tags]}))
        _remember(actor.organization_id, current._replace(deleted_at=deleted_at, tags=()))


def attach_tag(actor: Actor, asset_id: int, tag: NewTag) -> TagRow:
    """Raises Conflict for a tag that a live record holds."""
    with acting(actor) as act:
        current = get(actor.organization_id, asset_id)
        check_home(asset_id)
        added = tagging.attach(act, subject_of(current), "asset", asset_id, tag)
        _remember(actor.organization_id, current._replace(tags=[*current.tags, added]))
    return added


def detach_tag(actor: Actor, asset_id: int, tag_id: int) -> None:
    """Raises NotFound also for a tag of another record, and the second time."""
    with acting(actor) as act:
        current = get(actor.organization_id, asset_id)
        check_home(asset_id)
        tagging.detach(act, subject_of(current), "asset", asset_id, tag_id)
        _remember(actor.organization_id, current._replace(tags=[tag for tag in current.tags if tag.id != tag_id]))


def subject_of(row: AssetRow) -> Subject:
    return Subject("asset", row.id, f"{row.name} ({row.external_key})")


def facts_of(row: AssetRow) -> dict[str, Any]:
    """What the audit keeps of an asset."""
    return {
        "external_key": row.external_key,
        "name": row.name,
        "description": row.description,
        "is_active": bool(row.is_active),
        "metadata": row.metadata,
        "valid_from": clock.rfc3339(row.valid_from),
        "valid_to": row.valid_to and clock.rfc3339(row.valid_to),
    }


def _remember(organization_id: int, row: AssetRow) -> AssetRow:
    search.remember("asset", organization_id, row, row.tags)
    return row


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
