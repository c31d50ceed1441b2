"""Locations: create, list, change and delete, and their tree.

The functions expect validated values. Every write is one transaction and is recorded in the audit log.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from blinker import Signal

from edge import clock
from edge.audit.actors import Actor
from edge.audit.audit import acting
from edge.database.connection import execute, reading
from edge.database.lists import Page, SortTerm, order_by
from edge.errors import Conflict, NotFound
from edge.records import location_tree, record, search, tags
from edge.records.external_keys import LOCATION_KEYS
from edge.records.listing import ListQuery, Reserve, Source, read_page, read_rows, uncounted, view
from edge.records.location_tree import NO_PARENT, Parent, resolve
from edge.records.record import Changes, Kind
from edge.records.tags import NewTag, TagRow, from_json
from edge.texts import N_, fill
from edge.validation import json_text

# Sent with `location_id` in the transaction that deletes the location. A receiver refuses by raising Conflict.
location_deleting = Signal()

SORTABLE = {field: f"l.{field}" for field in record.SORTED_BY}
DEFAULT_SORT = (SortTerm("external_key"),)


class LocationRow(NamedTuple):
    """A location with its live tags. A soft-deleted parent is shown as None (interface: Location).

    Times are microseconds since the epoch, UTC.
    """

    id: int
    external_key: str
    name: str
    description: str | None
    is_active: bool
    parent_id: int | None
    parent_external_key: str | None
    valid_from: int
    valid_to: int | None
    created_at: int
    updated_at: int
    deleted_at: int | None
    tags: Sequence[TagRow] = ()


class LocationFilter(NamedTuple):
    """Filters of a list. Empty filters and None match everything."""

    external_keys: Sequence[str] = ()
    parent_ids: Sequence[int] = ()
    parent_external_keys: Sequence[str] = ()
    is_active: bool | None = None
    include_deleted: bool = False
    q: str = ""


_COLUMNS = (
    *("l.id", "l.external_key", "l.name", "l.description", "l.is_active", "p.id", "p.external_key"),
    *("l.valid_from", "l.valid_to", "l.created_at", "l.updated_at", "l.deleted_at"),
)
_FROM = "location l LEFT JOIN location p ON p.id = l.parent_id AND p.deleted_at IS NULL"
_LIST_SOURCE = Source(_COLUMNS, _FROM, "l", "l.id", tagged="location")
_SELECT = f"SELECT {', '.join(_COLUMNS)}, {tags.tags_as_json('location', 'l.id')} FROM {_FROM}"


def create(actor: Actor, *, parent: Parent = NO_PARENT, tags: Sequence[NewTag] = (), **fields: Any) -> LocationRow:
    """Create a location with these columns. Without `external_key`, a key is generated (interface: Auto-mint).

    Raises Conflict if the key or a tag is taken, Invalid for a bad parent or window.
    """
    return record.create(KIND, actor, {"is_active": True, **fields, "parent_id": parent}, tags)


def get(organization_id: int, location_id: int) -> LocationRow:
    """Return a live location, also outside its window. Raises NotFound."""
    sql = f"{_SELECT} WHERE l.id = ? AND l.organization_id = ? AND l.deleted_at IS NULL"
    row = execute(sql, (location_id, organization_id)).fetchone()
    if row is None:
        raise NotFound("location not found")
    return LocationRow._make((*row[:-1], from_json(row[-1])))


def list_page(
    organization_id: int,
    filters: LocationFilter,
    *,
    limit: int,
    offset: int = 0,
    sort: Sequence[SortTerm] = DEFAULT_SORT,
    reserve: Reserve = uncounted,
) -> Page[LocationRow]:
    """Return a page of the live locations within their window, including deleted ones if the filter asks for them."""
    query = ListQuery(organization_id, "l.organization_id", include_deleted=filters.include_deleted)
    query.active("l", filters.is_active)
    query.any_of("l.external_key", filters.external_keys)
    query.any_of("p.id", filters.parent_ids)
    query.any_of("p.external_key", filters.parent_external_keys)
    with view(query, filters.q):
        match = search.match("location", organization_id, filters.q) if filters.q else None
        rows, total = read_page(_LIST_SOURCE, query, match, order_by(sort, SORTABLE, "l.id"), limit, offset, reserve)
    return Page([LocationRow._make(row) for row in rows], total)


def list_ancestors(
    organization_id: int, location_id: int, *, limit: int, offset: int = 0, reserve: Reserve = uncounted
) -> Page[LocationRow]:
    """Return the ancestors, root first. Windows are ignored to keep paths complete. Raises NotFound, Corrupt."""
    with reading():
        get(organization_id, location_id)
        chain = location_tree.ancestors(location_id)[::-1]
        return Page(_by_ids(chain[offset : offset + limit], reserve), len(chain))


def list_children(
    organization_id: int, location_id: int, *, limit: int, offset: int = 0, reserve: Reserve = uncounted
) -> Page[LocationRow]:
    """Return the direct sub-locations by name. Raises NotFound, Corrupt."""
    filters, by_name = LocationFilter(parent_ids=(location_id,)), (SortTerm("name"),)
    with reading():
        get(organization_id, location_id)
        location_tree.ancestors(location_id)  # raises Corrupt if there is a cycle
        return list_page(organization_id, filters, limit=limit, offset=offset, sort=by_name, reserve=reserve)


def list_descendants(
    organization_id: int, location_id: int, *, limit: int, offset: int = 0, reserve: Reserve = uncounted
) -> Page[LocationRow]:
    """Return all sub-locations, depth first, siblings by name. Raises NotFound, Corrupt."""
    with reading():
        get(organization_id, location_id)
        shown = location_tree.visible_descendants(location_id, clock.now())
        return Page(_by_ids(shown[offset : offset + limit], reserve), len(shown))


def _resolve_parent(actor: Actor, current: LocationRow | None, columns: dict[str, Any]) -> None:
    if "parent_id" in columns:
        columns["parent_id"] = resolve(actor.organization_id, columns["parent_id"])
        if current:
            location_tree.check_cycle(current.id, columns["parent_id"])


def _check_delete(location_id: int) -> None:
    descendants = location_tree.count_descendants(location_id)
    if descendants:
        message = N_("location has %(number)s live descendant location(s)")
        raise Conflict(fill(message, number=descendants))
    if not location_deleting.receivers:
        raise RuntimeError("nothing receives location_deleting: edge.listeners.connect was not called")
    location_deleting.send(location_id=location_id)


KIND = Kind("location", LOCATION_KEYS, get, _resolve_parent, _check_delete)


def patch(
    actor: Actor,
    location_id: int,
    changes: Changes,
    check: Callable[[LocationRow], None] | None = None,
    parent: Parent = NO_PARENT,
) -> LocationRow:
    """Change some columns. `check` gets the current row inside the transaction and raises to refuse the change.

    Raises NotFound, Invalid for an unknown parent, Conflict for a cycle or if the home is another box.
    """
    moved = {} if parent == NO_PARENT else {"parent_id": parent}
    return record.patch(KIND, actor, location_id, {**changes, **moved}, check)


def rename(actor: Actor, location_id: int, external_key: str) -> tuple[LocationRow, int]:
    """Change the external key. Returns the row and its number of live descendants, or 0 if the key is the same.

    Raises NotFound, and Conflict if the key is taken.
    """
    with acting(actor):
        row, is_changed = record.rename(KIND, actor, location_id, external_key)
        return row, location_tree.count_descendants(location_id) if is_changed else 0


def edit(
    actor: Actor,
    location_id: int,
    changes: Changes,
    external_key: str,
    parent: Parent = NO_PARENT,
    check: Callable[[LocationRow], None] | None = None,
) -> LocationRow:
    """Patch and rename in one transaction."""
    with acting(actor):
        patch(actor, location_id, changes, parent=parent, check=check)
        return rename(actor, location_id, external_key)[0]


def delete(actor: Actor, location_id: int) -> None:
    """Soft-delete a location and its tags.

    Raises NotFound, and Conflict if it has live descendants, or a receiver of `location_deleting` refuses: it has
    assets or pending moves.
    """
    record.delete(KIND, actor, location_id)


def attach_tag(actor: Actor, location_id: int, tag: NewTag) -> TagRow:
    """Attach a tag. Raises NotFound, and Conflict if a live record has the tag."""
    return record.attach_tag(KIND, actor, location_id, tag)


def detach_tag(actor: Actor, location_id: int, tag_id: int) -> None:
    """Detach a tag. Raises NotFound if the location does not have it."""
    record.detach_tag(KIND, actor, location_id, tag_id)


def _by_ids(ids: Sequence[int], reserve: Reserve) -> list[LocationRow]:
    """Return locations in the order of `ids`."""
    page = f"FROM json_each(:shown) shown CROSS JOIN {_FROM} WHERE l.id = shown.value ORDER BY shown.key"
    _, rows = read_rows(_LIST_SOURCE, page, {"shown": json_text.text(ids)}, reserve)
    return [LocationRow._make(row) for row in rows]
