"""Floor plans: the drawing of an area, and the shapes of the locations on it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from edge.audit import quotas
from edge.audit.actors import Actor
from edge.audit.audit import Subject, acting
from edge.clock import now
from edge.database.connection import column, execute, execute_many, reading
from edge.errors import Conflict, Invalid, NotFound
from edge.records import locations
from edge.texts import N_, fill
from edge.validation import json_text

MOST_SHAPES = 500
MOST_POINTS = 60
EDGE_OF_PLAN = 1000  # coordinates are between 0 and this

Point = tuple[int, int]


class Plan(NamedTuple):
    """A plan without its image."""

    location_id: int
    location_name: str
    width: int
    height: int
    updated_at: int


class Shape(NamedTuple):
    location_id: int
    points: Sequence[Point]


_PLANS = """
SELECT p.location_id, l.name, p.width, p.height, p.updated_at FROM floor_plan p
JOIN location l ON l.id = p.location_id AND l.deleted_at IS NULL WHERE p.organization_id = ?
"""


def list_plans(organization_id: int) -> list[Plan]:
    return [Plan(*row) for row in execute(f"{_PLANS} ORDER BY l.name, l.id", (organization_id,))]


def find_plan(organization_id: int, location_id: int) -> Plan | None:
    row = execute(f"{_PLANS} AND p.location_id = ?", (organization_id, location_id)).fetchone()
    return Plan(*row) if row else None


def image(organization_id: int, location_id: int) -> tuple[bytes, str]:
    """Return the image with its media type. Raises NotFound."""
    row: tuple[bytes, str] | None = execute(
        "SELECT image, media_type FROM floor_plan WHERE organization_id = ? AND location_id = ?",
        (organization_id, location_id),
    ).fetchone()
    if row is None:
        raise NotFound("no such plan")
    return row


def shapes(organization_id: int, plan_id: int) -> list[Shape]:
    """Return the shapes of live locations, largest first: small ones are drawn on top."""
    rows = execute(
        "SELECT s.location_id, s.points FROM floor_shape s JOIN floor_plan p ON p.location_id = s.plan_id "
        "JOIN location l ON l.id = s.location_id AND l.deleted_at IS NULL "
        "WHERE p.organization_id = ? AND s.plan_id = ?",
        (organization_id, plan_id),
    )
    live = [Shape(location_id, [(x, y) for x, y in json_text.decode(points)]) for location_id, points in rows]
    return sorted(live, key=lambda shape: -_extent(shape.points))


def plans_of(organization_id: int, location_ids: Sequence[int]) -> list[int]:
    """Return the plans with any of these locations, the one with most of them first."""
    return column(
        "SELECT s.plan_id FROM floor_shape s JOIN floor_plan p ON p.location_id = s.plan_id "
        "JOIN location area ON area.id = p.location_id AND area.deleted_at IS NULL "
        "WHERE p.organization_id = ? AND s.location_id IN (SELECT value FROM json_each(?)) "
        "GROUP BY s.plan_id ORDER BY count(*) DESC, s.plan_id",
        (organization_id, json_text.text(list(location_ids))),
    )


class Drawn(NamedTuple):
    """A plan with the shape of one location on it."""

    plan: Plan
    shape: Shape
    name: str  # of the location


MOST_LEVELS = 100  # of the tree; parents that form a circle end here

_DRAWN = f"""
WITH RECURSIVE above (id, level) AS (
    SELECT :location_id, 0
    UNION ALL
    SELECT l.parent_id, level + 1 FROM above JOIN location l ON l.id = above.id
    WHERE l.parent_id IS NOT NULL AND level < {MOST_LEVELS}
)
SELECT p.location_id, area.name, p.width, p.height, p.updated_at, s.location_id, s.points, own.name
FROM above CROSS JOIN floor_shape s ON s.location_id = above.id
JOIN floor_plan p ON p.location_id = s.plan_id AND p.organization_id = :organization_id
JOIN location area ON area.id = p.location_id AND area.deleted_at IS NULL
JOIN location own ON own.id = s.location_id AND own.deleted_at IS NULL
ORDER BY above.level, p.location_id LIMIT 1
"""


def drawn_location(organization_id: int, location_id: int) -> Drawn | None:
    """Return the plan that shows a location, with its shape or that of the nearest drawn area around it."""
    row = execute(_DRAWN, {"organization_id": organization_id, "location_id": location_id}).fetchone()
    if row is None:
        return None
    points = [(x, y) for x, y in json_text.decode(row[6])]
    return Drawn(Plan(*row[:5]), Shape(row[5], points), row[7])


def set_image(actor: Actor, location_id: int, image: bytes, media_type: str, size: tuple[int, int]) -> None:
    """Add the plan, or replace its drawing and keep the shapes. Raises NotFound."""
    with acting(actor) as act:
        location = locations.get(actor.organization_id, location_id)
        execute(
            "INSERT INTO floor_plan (location_id, organization_id, media_type, width, height, updated_at, image) "
            "VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (location_id) DO UPDATE SET media_type = excluded.media_type, "
            "width = excluded.width, height = excluded.height, updated_at = excluded.updated_at, "
            "image = excluded.image",
            (location_id, actor.organization_id, media_type, *size, now(), image),
        )
        quotas.charge(actor, len(image))
        quotas.check_cap(actor, "floor_plan")
        act.note("floor_plan.changed", _subject(location), {"image": f"{size[0]} x {size[1]}, {len(image)} bytes"})


def remove_plan(actor: Actor, location_id: int) -> None:
    """Delete a plan and its shapes. Raises NotFound."""
    with acting(actor) as act:
        location = locations.get(actor.organization_id, location_id)
        if not execute("DELETE FROM floor_plan WHERE location_id = ? RETURNING 1", (location_id,)).fetchone():
            raise NotFound("no such plan")
        act.note("floor_plan.deleted", _subject(location))


def save_shapes(actor: Actor, location_id: int, drawn: Mapping[int, Sequence[Point]], opened_at: int) -> int:
    """Replace all shapes of the plan; returns the new `updated_at`.

    Raises NotFound for the plan, Invalid for a malformed shape or a deleted location, and Conflict if the plan has
    changed since it was opened (its `updated_at` is no longer `opened_at`).
    """
    _check(drawn)
    with acting(actor) as act:
        plan = find_plan(actor.organization_id, location_id)
        if plan is None:
            raise NotFound("no such plan")
        if plan.updated_at != opened_at:
            raise Conflict(N_("someone else has changed this plan; reload it"))
        for shown in drawn:
            try:
                locations.get(actor.organization_id, shown)
            except NotFound as error:
                message = N_("A location on the plan no longer exists")
                raise Invalid.one("location_id", "fk_not_found", message) from error
        moment = max(now(), plan.updated_at + 1)
        execute("DELETE FROM floor_shape WHERE plan_id = ?", (location_id,))
        execute_many(
            "INSERT INTO floor_shape (plan_id, location_id, points) VALUES (?, ?, ?)",
            [(location_id, shown, json_text.text(points)) for shown, points in drawn.items()],
        )
        execute("UPDATE floor_plan SET updated_at = ? WHERE location_id = ?", (moment, location_id))
        subject = _subject(locations.get(actor.organization_id, location_id))
        act.note("floor_plan.changed", subject, {"locations": len(drawn)})
    return moment


def centre(points: Sequence[Point]) -> Point:
    """Return the center of the box around a shape."""
    across, down = [x for x, _ in points], [y for _, y in points]
    return (min(across) + max(across)) // 2, (min(down) + max(down)) // 2


def whole_plan(organization_id: int, location_id: int) -> tuple[Plan, list[Shape]]:
    """Return a plan with its shapes, in one consistent view. Raises NotFound."""
    with reading():
        plan = find_plan(organization_id, location_id)
        if plan is None:
            raise NotFound("no such plan")
        return plan, shapes(organization_id, location_id)


def _check(drawn: Mapping[int, Sequence[Point]]) -> None:
    if len(drawn) > MOST_SHAPES:
        message = fill(N_("A plan can have at most %(number)s locations"), number=MOST_SHAPES)
        raise Invalid.one("shapes", "too_long", message)
    for points in drawn.values():
        is_shape = 3 <= len(points) <= MOST_POINTS
        if not is_shape or not all(0 <= number <= EDGE_OF_PLAN for point in points for number in point):
            message = fill(N_("A shape must have 3 to %(number)s corners, all inside the plan"), number=MOST_POINTS)
            raise Invalid.one("shapes", "invalid_value", message)


def _extent(points: Sequence[Point]) -> int:
    across, down = [x for x, _ in points], [y for _, y in points]
    return (max(across) - min(across)) * (max(down) - min(down))


def _subject(location: locations.LocationRow) -> Subject:
    return Subject("location", location.id, f"{location.name} ({location.external_key})")
