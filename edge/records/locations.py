"""Locations: a tree of where things can be. Values come in validated; every write is one transaction, and audited."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Required, TypedDict

from blinker import Signal

from edge import clock
from edge.audit.actors import Actor
from edge.audit.audit import Act, Subject, act_in_group, acting, changed, given
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
from edge.records.homes import check_home
from edge.records.listing import Source, Wanted, read_page, view
from edge.records.location_tree import NO_PARENT, Parent, resolve
from edge.records.tagging import told
from edge.records.tags import NewTag, TagRow, from_json

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
    """The parent is None when it is soft-deleted (spec: Location); `tags` are the live ones."""

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
_LISTED = Source(_COLUMNS, _FROM, "l", "l.id", tagged="location")
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
    """Mints the key when none is given. Raises Conflict for a taken key or tag, Invalid for parent or window."""

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
        act.note("location.created", _subject(row), given({**_facts(row), "tags": [told(tag) for tag in row.tags]}))
        return _remember(organization_id, row)

    return act_in_group(actor, insert)


def get(organization_id: int, location_id: int) -> LocationRow:
    """Live, whatever its window. Raises NotFound."""
    sql = f"{_SELECT} WHERE l.id = ? AND l.organization_id = ? AND l.deleted_at IS NULL"
    found = execute(sql, (location_id, organization_id)).fetchone()
    if found is None:
        raise NotFound("location not found")
    return _row(found)


def list_page(
    organization_id: int,
    wanted: LocationFilter,
    *,
    limit: int,
    offset: int = 0,
    sort: Sequence[SortTerm] = DEFAULT_SORT,
) -> Page[LocationRow]:
    """Live locations within their window, and the deleted ones if wanted."""
    listed = Wanted(organization_id, "l.organization_id", include_deleted=wanted.include_deleted)
    listed.active("l", wanted.is_active)
    listed.any_of("l.external_key", wanted.external_keys)
    listed.any_of("p.id", wanted.parent_ids)
    listed.any_of("p.external_key", wanted.parent_external_keys)
    with view(listed, wanted.q):
        match = search.match("location", organization_id, wanted.q) if wanted.q else None
        found, total = read_page(_LISTED, listed, match, order_by(sort, SORTABLE, "l.id"), limit, offset)
    return Page([LocationRow._make(row) for row in found], total)


def list_ancestors(organization_id: int, location_id: int, *, limit: int, offset: int = 0) -> Page[LocationRow]:
    """Root first, without regard to windows, so that a path is never broken."""
    with reading():
        get(organization_id, location_id)
        chain = location_tree.ancestors(location_id)[::-1]
        return Page(_by_ids(chain[offset : offset + limit]), len(chain))


def list_children(organization_id: int, location_id: int, *, limit: int, offset: int = 0) -> Page[LocationRow]:
    """By name."""
    by_name = (SortTerm("name"),)
    with reading():
        get(organization_id, location_id)
        location_tree.ancestors(location_id)  # refuses a corrupt tree
        return list_page(
            organization_id, LocationFilter(parent_ids=(location_id,)), limit=limit, offset=offset, sort=by_name
        )


def list_descendants(organization_id: int, location_id: int, *, limit: int, offset: int = 0) -> Page[LocationRow]:
    """Depth first, siblings by name."""
    with reading():
        get(organization_id, location_id)
        shown = location_tree.shown_descendants(location_id, clock.now())
        return Page(_by_ids(shown[offset : offset + limit]), len(shown))


def patch(
    actor: Actor,
    location_id: int,
    changes: LocationChanges,
    check: Callable[[LocationRow], None] | None = None,
    parent: Parent = NO_PARENT,
) -> LocationRow:
    """Change the named columns. `check` sees the row as it is, inside the transaction, and refuses by raising.

    Raises Invalid for a parent that cannot be resolved, Conflict for one that would make a cycle.
    """
    with acting(actor) as act:
        current = get(actor.organization_id, location_id)
        check_home(location_id)
        if check:
            check(current)
        values = {**keep_microseconds(changes, current), "updated_at": next_update(current.updated_at)}
        check_window(values.get("valid_from", current.valid_from), values.get("valid_to", current.valid_to))
        if parent != NO_PARENT:
            values["parent_id"] = resolve(actor.organization_id, parent)
            location_tree.refuse_cycle(location_id, values["parent_id"])
        update("location", location_id, values)
        row = get(actor.organization_id, location_id)
        act.note_changes("location.changed", _subject(row), changed(_facts(current), _facts(row)))
        return _remember(actor.organization_id, row)


def rename(actor: Actor, location_id: int, external_key: str) -> tuple[LocationRow, int]:
    """The row, and how many live descendants it has (0 for its own key, which changes nothing)."""
    with acting(actor) as act:
        current = get(actor.organization_id, location_id)
        check_home(location_id)
        if external_key == current.external_key:
            return current, 0
        key = choose_key(LOCATION_KEYS, actor.organization_id, external_key)
        row = current._replace(external_key=key, updated_at=next_update(current.updated_at))
        values = {"external_key": key, "key_number": key_number(LOCATION_KEYS, key), "updated_at": row.updated_at}
        update("location", location_id, values)
        act.note("location.renamed", _subject(row), changed(_facts(current), _facts(row)))
        return _remember(actor.organization_id, row), location_tree.count_descendants(location_id)


def edit(
    actor: Actor,
    location_id: int,
    changes: LocationChanges,
    external_key: str,
    parent: Parent = NO_PARENT,
    check: Callable[[LocationRow], None] | None = None,
) -> LocationRow:
    """Patch and rename, both or neither."""
    with acting(actor):
        patch(actor, location_id, changes, parent=parent, check=check)
        return rename(actor, location_id, external_key)[0]


def delete(actor: Actor, location_id: int) -> None:
    """Soft-delete a location and its tags.

    Raises Conflict while it has live descendants, while live assets are placed at it, and if a receiver of
    `location_deleting` refuses.
    """
    with acting(actor) as act:
        current = get(actor.organization_id, location_id)
        check_home(location_id)
        descendants = location_tree.count_descendants(location_id)
        if descendants:
            raise Conflict(f"location has {descendants} live descendant location(s)")
        placed = _count_placed(location_id)
        if placed:
            raise Conflict(f"location has {placed} live asset(s) placed at it")
        if not location_deleting.receivers:
            raise RuntimeError("nothing receives location_deleting: edge.listeners.connect was not called")
        location_deleting.send(location_id=location_id)
        deleted_at = next_update(current.updated_at)
        update("location", location_id, {"deleted_at": deleted_at, "updated_at": deleted_at})
        tags.remove_all("location", location_id, deleted_at)
        act.note("location.deleted", _subject(current), given({"tags": [told(tag) for tag in current.tags]}))
        _remember(actor.organization_id, current._replace(deleted_at=deleted_at, tags=()))


def attach_tag(actor: Actor, location_id: int, tag: NewTag) -> TagRow:
    """Raises Conflict for a tag that a live record holds."""
    with acting(actor) as act:
        current = get(actor.organization_id, location_id)
        check_home(location_id)
        added = tagging.attach(act, _subject(current), "location", location_id, tag)
        _remember(actor.organization_id, current._replace(tags=[*current.tags, added]))
    return added


def detach_tag(actor: Actor, location_id: int, tag_id: int) -> None:
    """Raises NotFound also for a tag of another record, and the second time."""
    with acting(actor) as act:
        current = get(actor.organization_id, location_id)
        check_home(location_id)
        tagging.detach(act, _subject(current), "location", location_id, tag_id)
        _remember(actor.organization_id, current._replace(tags=[tag for tag in current.tags if tag.id != tag_id]))


def _subject(row: LocationRow) -> Subject:
    return Subject("location", row.id, f"{row.name} ({row.external_key})")


def _facts(row: LocationRow) -> dict[str, Any]:
    """What the audit keeps of a location."""
    return {
        "external_key": row.external_key,
        "name": row.name,
        "description": row.description,
        "is_active": bool(row.is_active),
        "parent": row.parent_external_key,
        "valid_from": clock.rfc3339(row.valid_from),
        "valid_to": row.valid_to and clock.rfc3339(row.valid_to),
    }


def _count_placed(location_id: int) -> int:
    """Live assets whose newest scan was there."""
    sql = (
        "SELECT count(*) FROM position JOIN asset ON asset.id = position.asset_id "
        "WHERE position.location_id = ? AND asset.deleted_at IS NULL"
    )
    count: int = execute(sql, (location_id,)).fetchone()[0]
    return count


def _by_ids(ids: Sequence[int]) -> list[LocationRow]:
    """In the order of `ids`."""
    found = {row[0]: _row(row) for row in execute(f"{_SELECT} WHERE l.id IN ({', '.join('?' * len(ids))})", ids)}
    return [found[location_id] for location_id in ids]


def _row(found: Sequence[Any]) -> LocationRow:
    return LocationRow._make((*found[:-1], from_json(found[-1])))


def _remember(organization_id: int, row: LocationRow) -> LocationRow:
    search.remember("location", organization_id, row, row.tags)
    return row
