"""The location tree: ancestors, descendants and parents, one recursive query each.

Writes cannot create a cycle, but a manual change of the database can. Every location has one parent, so a cycle is
detected if a walk down returns to its start or a walk up never reaches a root.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from edge import clock
from edge.database.connection import execute
from edge.errors import Conflict, Corrupt, FieldError, Invalid
from edge.texts import N_, fill
from edge.validation import json_text

_WAYS_UP = """
WITH RECURSIVE up (id) AS (
    SELECT value FROM json_each(:ids)
    UNION SELECT l.parent_id FROM up CROSS JOIN location l ON l.id = up.id WHERE l.parent_id IS NOT NULL
)
SELECT l.id, l.parent_id, l.deleted_at IS NULL, l.valid_from <= :now AND (l.valid_to IS NULL OR l.valid_to > :now)
FROM up CROSS JOIN location l ON l.id = up.id
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


class Step(NamedTuple):
    """A location on the way up. Deleted locations keep their parent."""

    parent_id: int | None
    is_live: bool
    is_in_window: bool


def ways_up(location_ids: Collection[int]) -> dict[int, Step]:
    """Return these locations and all their ancestors by id, those of one location from itself to the root."""
    rows = execute(_WAYS_UP, {"ids": json_text.text(sorted(location_ids)), "now": clock.now()})
    return {location_id: Step(*columns) for location_id, *columns in rows}


def tops_over(
    location_ids: Collection[int], tops: frozenset[int], *, with_deleted: bool = False
) -> dict[int, frozenset[int]]:
    """Return for each of these locations those of `tops` that it is or is below, as `visible_descendants` finds them.

    Looks upwards from few locations: 50 tops can have 100,000 locations below each. `with_deleted`: any descendants.
    """
    steps = ways_up(location_ids)
    above: dict[int | None, frozenset[int]] = {}
    for location_id in steps:
        way, at = [], location_id
        while at not in above and (with_deleted or steps[at].is_live):
            way.append(at)
            above[at] = frozenset()  # for now, so that a circle made by hand ends
            at = steps[at].parent_id or at
        for one in reversed(way):
            parent = steps[one].parent_id
            above[one] = above.get(parent, frozenset()) | (tops & {parent})
    shown = {one for one, step in steps.items() if with_deleted or step.is_in_window}
    return {one: tops & {one} | (above.get(one, frozenset()) if one in shown else frozenset()) for one in steps}


def ancestors(location_id: int) -> list[int]:
    """Return the ids of the ancestors from the parent to the root. Raises Corrupt if there is a cycle."""
    way = ways_up([location_id])
    if way and all(step.parent_id is not None for step in way.values()):
        raise Corrupt(f"the location tree has a cycle above location {location_id}")
    return [*way][1:]


def visible_descendants(location_id: int, now: int) -> list[int]:
    """Return the ids of the live descendants within their window, depth first, siblings by name and id.

    `now` is in microseconds. Raises Corrupt if there is a cycle.
    """
    return [row[0] for row in _down(location_id, now) if row[1]]


def count_descendants(location_id: int) -> int:
    """Return the number of live descendants, also outside their window. Raises Corrupt if there is a cycle."""
    return len(_down(location_id, 0))


def _down(location_id: int, now: int) -> list[tuple[int, int]]:
    rows = execute(_DOWN, {"top": location_id, "now": now}).fetchall()
    if any(row[0] == location_id for row in rows):
        raise Corrupt(f"the location tree has a cycle through location {location_id}")
    return rows


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
