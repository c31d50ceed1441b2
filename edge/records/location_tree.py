"""The location tree: ancestors, descendants and parents, one recursive query each.

Writes cannot create a cycle, but a manual change of the database can. Every location has one parent, so a cycle is
detected if a walk down returns to its start or a walk up never reaches a root.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from edge.database.connection import execute
from edge.errors import Conflict, Corrupt, FieldError, Invalid
from edge.texts import N_, fill

_UP = """
WITH RECURSIVE up (id, parent_id) AS (
    SELECT id, parent_id FROM location WHERE id = ?
    UNION
    SELECT location.id, location.parent_id FROM up JOIN location ON location.id = up.parent_id
)
SELECT id, parent_id FROM up
"""

# ORDER BY makes the recursion depth first, with siblings by name and id.
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
    """Return the ids of the ancestors from the parent to the root. Raises Corrupt if there is a cycle."""
    chain = execute(_UP, (location_id,)).fetchall()
    if chain and chain[-1][1] is not None:
        raise Corrupt(f"the location tree has a cycle above location {location_id}")
    return [row[0] for row in chain[1:]]


def visible_descendants(location_id: int, now: int) -> list[int]:
    """Return the ids of the live descendants within their window, depth first, siblings by name and id.

    `now` is in microseconds. Raises Corrupt if there is a cycle.
    """
    rows = execute(_DOWN, {"top": location_id, "now": now}).fetchall()
    if any(row[0] == location_id for row in rows):
        raise Corrupt(f"the location tree has a cycle through location {location_id}")
    return [row[0] for row in rows if row[1]]


def count_descendants(location_id: int) -> int:
    """Return the number of live descendants, also outside their window. Raises Corrupt if there is a cycle."""
    count, has_cycle = execute(_COUNT, {"top": location_id}).fetchone()
    if has_cycle:
        raise Corrupt(f"the location tree has a cycle through location {location_id}")
    return int(count)


def check_cycle(location_id: int, parent_id: int | None) -> None:
    """Raise Conflict if the new parent is the location itself or a descendant of it."""
    if parent_id is None:
        return
    if parent_id == location_id:
        raise Conflict(N_("cycle: a location cannot be its own parent"))
    if location_id in ancestors(parent_id):
        raise Conflict(N_("cycle: the new parent is a descendant of this location"))


PARENT = {"parent_id": "id", "parent_external_key": "external_key"}  # fields that name a parent, and its columns


def resolve(organization_id: int, given: Mapping[str, Any]) -> int | None:
    """Return the id of the parent that fields of PARENT name, or None for no parent (interface: Write operations 2).

    Raises Invalid if a field names no live location or both fields name different ones.
    """
    resolved = {_find_parent(organization_id, field, PARENT[field], value) for field, value in given.items()}
    if len(resolved) > 1:
        message = "parent_id and parent_external_key name different parents"
        raise Invalid([FieldError(field, "ambiguous_fields", message) for field in PARENT])
    return resolved.pop()


def _find_parent(organization_id: int, field: str, column: str, value: Any) -> int | None:
    if value is None:
        return None
    sql = f"SELECT id FROM location WHERE {column} = ? AND organization_id = ? AND deleted_at IS NULL"
    row = execute(sql, (value, organization_id)).fetchone()
    if row is None:
        raise Invalid.one(field, "fk_not_found", fill(N_("%(field)s does not name a live location"), field=fill(field)))
    parent_id: int = row[0]
    return parent_id
