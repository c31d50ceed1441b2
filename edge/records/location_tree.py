"""The location tree by recursive SQL: any depth and width, one query each, and never caught in a cycle.

No write makes a cycle, but a database can be changed by hand. As every location has one parent, a walk down from a
location is in a cycle only if it returns to where it began, and a walk up only if it never reaches a root.

How a client names the parent of a location, and which location that is.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from edge.database.connection import execute
from edge.errors import Conflict, Corrupt, FieldError, Invalid

_UP = """
WITH RECURSIVE up (id, parent_id) AS (
    SELECT id, parent_id FROM location WHERE id = ?
    UNION
    SELECT location.id, location.parent_id FROM up JOIN location ON location.id = up.parent_id
)
SELECT id, parent_id FROM up
"""

# The queue returns the deepest row first, and of those the first by name: depth first, siblings in order.
_DOWN = """
WITH RECURSIVE down (id, name, depth, valid_from, valid_to) AS (
    SELECT id, name, 1, valid_from, valid_to FROM location WHERE parent_id = :top AND deleted_at IS NULL
    UNION ALL
    SELECT location.id, location.name, depth + 1, location.valid_from, location.valid_to
    FROM down JOIN location ON location.parent_id = down.id AND location.deleted_at IS NULL
    WHERE down.id <> :top
    ORDER BY 3 DESC, 2, 1
)
SELECT id, valid_from <= :now AND (valid_to IS NULL OR valid_to > :now) FROM down
"""

_COUNT = """
WITH RECURSIVE down (id) AS (
    SELECT id FROM location WHERE parent_id = :top AND deleted_at IS NULL
    UNION ALL
    SELECT location.id FROM down JOIN location ON location.parent_id = down.id AND location.deleted_at IS NULL
    WHERE down.id <> :top
)
SELECT count(*), total(id = :top) FROM down
"""


def ancestors(location_id: int) -> list[int]:
    """From the parent up to the root. Raises Corrupt when there is no root."""
    chain = execute(_UP, (location_id,)).fetchall()
    if chain and chain[-1][1] is not None:
        raise Corrupt(f"the location tree has a cycle above location {location_id}")
    return [row[0] for row in chain[1:]]


def shown_descendants(location_id: int, now: int) -> list[int]:
    """The live locations below that are within their window, depth first, siblings by name and id."""
    found = execute(_DOWN, {"top": location_id, "now": now}).fetchall()
    if any(row[0] == location_id for row in found):
        raise Corrupt(f"the location tree has a cycle through location {location_id}")
    return [row[0] for row in found if row[1]]


def count_descendants(location_id: int) -> int:
    """All live locations below, whatever their window."""
    count, returns = execute(_COUNT, {"top": location_id}).fetchone()
    if returns:
        raise Corrupt(f"the location tree has a cycle through location {location_id}")
    return int(count)


def refuse_cycle(location_id: int, parent_id: int | None) -> None:
    """Raises Conflict when the location would be above itself."""
    if parent_id is None:
        return
    if parent_id == location_id:
        raise Conflict("cycle: a location cannot be its own parent")
    if location_id in ancestors(parent_id):
        raise Conflict("cycle: the new parent is a descendant of this location")


class Parent(NamedTuple):
    """How a client named a parent: by id, by key, or both. UNSET: the form was not given; None: no parent."""

    id: Any
    external_key: Any


UNSET: Any = object()
NO_PARENT = Parent(UNSET, UNSET)


def resolve(organization_id: int, parent: Parent) -> int | None:
    """Each form that was given is resolved first, then they are compared (spec: Location parentage)."""
    resolved: list[int | None] = []
    for field, column, value in (
        ("parent_id", "id", parent.id),
        ("parent_external_key", "external_key", parent.external_key),
    ):
        if value is not UNSET:
            resolved.append(_find_parent(organization_id, field, column, value))
    if len(set(resolved)) > 1:
        message = "parent_id and parent_external_key name different parents"
        pair = ("parent_id", "parent_external_key")
        raise Invalid([FieldError(field, "ambiguous_fields", message) for field in pair])
    return resolved[0] if resolved else None


def _find_parent(organization_id: int, field: str, column: str, value: Any) -> int | None:
    if value is None:
        return None
    sql = f"SELECT id FROM location WHERE {column} = ? AND organization_id = ? AND deleted_at IS NULL"
    found = execute(sql, (value, organization_id)).fetchone()
    if found is None:
        raise Invalid.one(field, "fk_not_found", f"{field} does not name a live location")
    parent_id: int = found[0]
    return parent_id
