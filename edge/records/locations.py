"""Locations: create, list, change and delete, and their tree.

The functions expect validated values. Every write is one transaction and is recorded in the audit log.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from blinker import Signal

from edge import clock
from edge.audit.actors import Actor
from edge.database.connection import reading
from edge.database.lists import Page, SortTerm
from edge.errors import Conflict
from edge.records import location_tree
from edge.records.external_keys import LOCATION_KEYS
from edge.records.listing import read_rows
from edge.records.record import Kind, RecordFilter
from edge.records.tags import TagRow
from edge.texts import N_, fill
from edge.validation import json_text

# Sent with `location_id` in the transaction that deletes the location. A receiver refuses by raising Conflict.
location_deleting = Signal()


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


def _resolve_parent(actor: Actor, current: LocationRow | None, columns: dict[str, Any]) -> None:
    """Replace the id or key of a parent, or both, by its id."""
    given = {name: columns.pop(name) for name in location_tree.PARENT if name in columns}
    if given:
        columns["parent_id"] = location_tree.resolve(actor.organization_id, given)
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


_COLUMNS = {field: f"l.{field}" for field in LocationRow._fields[:-1]}
KIND = Kind(
    "location",
    LOCATION_KEYS,
    LocationRow,
    "l",
    "location l LEFT JOIN location p ON p.id = l.parent_id AND p.deleted_at IS NULL",
    {**_COLUMNS, "parent_id": "p.id", "parent_external_key": "p.external_key"},
    {"is_active": True},
    _resolve_parent,
    check_delete=_check_delete,
    affected=location_tree.count_descendants,
)
create, get, list_page, patch, rename = KIND.create, KIND.get, KIND.list_page, KIND.patch, KIND.rename
edit, delete, attach_tag, detach_tag = KIND.edit, KIND.delete, KIND.attach_tag, KIND.detach_tag


def list_ancestors(organization_id: int, location_id: int, *, limit: int, offset: int = 0) -> Page[LocationRow]:
    """Return the ancestors, root first. Windows are ignored to keep paths complete. Raises NotFound, Corrupt."""
    with reading():
        get(organization_id, location_id)
        chain = location_tree.ancestors(location_id)[::-1]
        return Page(_by_ids(chain[offset : offset + limit]), len(chain))


def list_children(organization_id: int, location_id: int, *, limit: int, offset: int = 0) -> Page[LocationRow]:
    """Return the direct sub-locations by name. Raises NotFound, Corrupt."""
    filters, by_name = RecordFilter(parent_ids=(location_id,)), (SortTerm("name"),)
    with reading():
        get(organization_id, location_id)
        location_tree.ancestors(location_id)  # raises Corrupt if there is a cycle
        return list_page(organization_id, filters, limit=limit, offset=offset, sort=by_name)


def list_descendants(organization_id: int, location_id: int, *, limit: int, offset: int = 0) -> Page[LocationRow]:
    """Return all sub-locations, depth first, siblings by name. Raises NotFound, Corrupt."""
    with reading():
        get(organization_id, location_id)
        shown = location_tree.visible_descendants(location_id, clock.now())
        return Page(_by_ids(shown[offset : offset + limit]), len(shown))


def _by_ids(ids: Sequence[int]) -> list[LocationRow]:
    """Return locations in the order of `ids`."""
    page = f"FROM json_each(:shown) shown CROSS JOIN {KIND.tables} WHERE l.id = shown.value ORDER BY shown.key"
    _, rows = read_rows(KIND.source, page, {"shown": json_text.text(ids)})
    return [LocationRow._make(row) for row in rows]
