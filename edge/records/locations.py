"""Locations: create, list, change and delete, and their tree.

The functions expect validated values. Every write is one transaction and is recorded in the audit log.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Required, TypedDict

from blinker import Signal

from edge import clock
from edge.audit.actors import Actor
from edge.audit.audit import Act, Subject, act_in_group, acting, changed, non_empty
from edge.database.connection import execute, reading
from edge.database.ids import new_id
from edge.database.lists import Page, SortTerm, order_by
from edge.errors import Conflict, NotFound
from edge.records import location_tree, search, tagging, tags
from edge.records.external_keys import (
    LOCATION_KEYS,
    check_window,
    choose_key,
    keep_microseconds,
    key_number,
    moment,
    next_update,
    update,
)
from edge.records.kept_elsewhere import changing
from edge.records.listing import ListQuery, Reserve, Source, read_page, read_rows, uncounted, view
from edge.records.location_tree import NO_PARENT, Parent, resolve
from edge.records.tagging import tag_text
from edge.records.tags import NewTag, TagRow, from_json
from edge.texts import N_, fill
from edge.validation import json_text

# Sent with `location_id` in the transaction that deletes the location. A receiver refuses by raising Conflict.
location_deleting = Signal()

SORTABLE = {
    "external_key": "l.external_key",
    "name": "l.name",
    "created_at": "l.created_at",
    "updated_at": "l.updated_at",
}
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


class _LocationOptional(TypedDict, total=False):
    description: str | None
    is_active: bool
    valid_from: int
    valid_to: int | None


class LocationChanges(_LocationOptional, total=False):
    """The columns that a patch may set; parent and tags are passed separately."""

    name: str


class LocationFields(_LocationOptional, total=False):
    """The arguments of `create` with these names; parent and tags are passed separately."""

    name: Required[str]
    external_key: str


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


def create(
    actor: Actor,
    *,
    name: str,
    external_key: str | None = None,
    description: str | None = None,
    is_active: bool = True,
    parent: Parent = NO_PARENT,
    valid_from: int | None = None,
    valid_to: int | None = None,
    tags: Sequence[NewTag] = (),
) -> LocationRow:
    """Create a location. Without `external_key`, a key is generated (interface: Auto-mint).

    Raises Conflict if the key or a tag is taken, Invalid for a bad parent or window.
    """

    def insert(act: Act) -> LocationRow:
        organization_id, now = act.organization_id, moment()
        begins = now if valid_from is None else valid_from
        check_window(begins, valid_to)
        parent_id = resolve(organization_id, parent)
        key = choose_key(LOCATION_KEYS, organization_id, external_key)
        location_id = new_id()
        execute(
            "INSERT INTO location (id, organization_id, parent_id, external_key, key_number, name, description, "
            "is_active, valid_from, valid_to, created_at, updated_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                *(location_id, organization_id, parent_id, key, key_number(LOCATION_KEYS, key), name, description),
                *(is_active, begins, valid_to, now, now),
            ),
        )
        tagging.attach_all(act, "location", location_id, tags, now)
        row = get(organization_id, location_id)
        act.note(
            "location.created",
            _subject(row),
            non_empty({**_audit_fields(row), "tags": [tag_text(tag) for tag in row.tags]}),
        )
        return _index(organization_id, row)

    return act_in_group(actor, insert)


def get(organization_id: int, location_id: int) -> LocationRow:
    """Return a live location, also outside its window. Raises NotFound."""
    sql = f"{_SELECT} WHERE l.id = ? AND l.organization_id = ? AND l.deleted_at IS NULL"
    row = execute(sql, (location_id, organization_id)).fetchone()
    if row is None:
        raise NotFound("location not found")
    return _row(row)


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


def patch(
    actor: Actor,
    location_id: int,
    changes: LocationChanges,
    check: Callable[[LocationRow], None] | None = None,
    parent: Parent = NO_PARENT,
) -> LocationRow:
    """Change some columns. `check` gets the current row inside the transaction and raises to refuse the change.

    Raises NotFound, Invalid for an unknown parent, Conflict for a cycle or if the home is another box.
    """
    with changing(actor, location_id, get) as (act, current):
        if check:
            check(current)
        values = {**keep_microseconds(changes, current), "updated_at": next_update(current.updated_at)}
        check_window(values.get("valid_from", current.valid_from), values.get("valid_to", current.valid_to))
        if parent != NO_PARENT:
            values["parent_id"] = resolve(actor.organization_id, parent)
            location_tree.check_cycle(location_id, values["parent_id"])
        update("location", location_id, values)
        row = get(actor.organization_id, location_id)
        act.note_changes("location.changed", _subject(row), changed(_audit_fields(current), _audit_fields(row)))
        return _index(actor.organization_id, row)


def rename(actor: Actor, location_id: int, external_key: str) -> tuple[LocationRow, int]:
    """Change the external key. Returns the row and its number of live descendants, or 0 if the key is the same.

    Raises NotFound, and Conflict if the key is taken.
    """
    with changing(actor, location_id, get) as (act, current):
        if external_key == current.external_key:
            return current, 0
        key = choose_key(LOCATION_KEYS, actor.organization_id, external_key)
        row = current._replace(external_key=key, updated_at=next_update(current.updated_at))
        values = {"external_key": key, "key_number": key_number(LOCATION_KEYS, key), "updated_at": row.updated_at}
        update("location", location_id, values)
        act.note("location.renamed", _subject(row), changed(_audit_fields(current), _audit_fields(row)))
        return _index(actor.organization_id, row), location_tree.count_descendants(location_id)


def edit(
    actor: Actor,
    location_id: int,
    changes: LocationChanges,
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
    with changing(actor, location_id, get) as (act, current):
        descendants = location_tree.count_descendants(location_id)
        if descendants:
            message = N_("location has %(number)s live descendant location(s)")
            raise Conflict(fill(message, number=descendants))
        if not location_deleting.receivers:
            raise RuntimeError("nothing receives location_deleting: edge.listeners.connect was not called")
        location_deleting.send(location_id=location_id)
        deleted_at = next_update(current.updated_at)
        update("location", location_id, {"deleted_at": deleted_at, "updated_at": deleted_at})
        tags.remove_all("location", location_id, deleted_at)
        act.note("location.deleted", _subject(current), non_empty({"tags": [tag_text(tag) for tag in current.tags]}))
        _index(actor.organization_id, current._replace(deleted_at=deleted_at, tags=()))


def attach_tag(actor: Actor, location_id: int, tag: NewTag) -> TagRow:
    """Attach a tag. Raises NotFound, and Conflict if a live record has the tag."""
    with changing(actor, location_id, get) as (act, current):
        added = tagging.attach(act, _subject(current), "location", location_id, tag)
        _index(actor.organization_id, current._replace(tags=[*current.tags, added]))
    return added


def detach_tag(actor: Actor, location_id: int, tag_id: int) -> None:
    """Detach a tag. Raises NotFound if the location does not have it."""
    with changing(actor, location_id, get) as (act, current):
        tagging.detach(act, _subject(current), "location", location_id, tag_id)
        _index(actor.organization_id, current._replace(tags=[tag for tag in current.tags if tag.id != tag_id]))


def _subject(row: LocationRow) -> Subject:
    return Subject("location", row.id, f"{row.name} ({row.external_key})")


def _audit_fields(row: LocationRow) -> dict[str, Any]:
    """Return the fields of a location that the audit log records."""
    return {
        "external_key": row.external_key,
        "name": row.name,
        "description": row.description,
        "is_active": bool(row.is_active),
        "parent": row.parent_external_key,
        "valid_from": clock.rfc3339(row.valid_from),
        "valid_to": row.valid_to and clock.rfc3339(row.valid_to),
    }


def _by_ids(ids: Sequence[int], reserve: Reserve) -> list[LocationRow]:
    """Return locations in the order of `ids`."""
    page = f"FROM json_each(:shown) shown CROSS JOIN {_FROM} WHERE l.id = shown.value ORDER BY shown.key"
    _, rows = read_rows(_LIST_SOURCE, page, {"shown": json_text.text(ids)}, reserve)
    return [LocationRow._make(row) for row in rows]


def _row(columns: Sequence[Any]) -> LocationRow:
    return LocationRow._make((*columns[:-1], from_json(columns[-1])))


def _index(organization_id: int, row: LocationRow) -> LocationRow:
    search.index_record("location", organization_id, row, row.tags)
    return row
