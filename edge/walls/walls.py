"""Walls of an organization: add, list, renew the link, revoke, and find one by its link."""

from __future__ import annotations

import secrets
from enum import StrEnum
from typing import NamedTuple

from edge import clock
from edge.audit import quotas
from edge.audit.actors import Actor
from edge.audit.audit import Subject, acting
from edge.database.connection import execute, writing
from edge.doors import doors
from edge.errors import Invalid, NotFound
from edge.people.secrets import hash_secret
from edge.texts import N_
from edge.tracking import floor_plans
from edge.validation import values

SEEN_EVERY = 300 * clock.SECOND  # minimum time between two updates of `last_seen_at`
ALPHABET = "23456789abcdefghjkmnpqrstvwxyz"  # without characters that look alike on a television
GROUPS, GROUP = 4, 5  # 20 characters of 30 are 98 bits


class Shows(StrEnum):
    OVERVIEW = "overview"
    ALERTS = "alerts"
    DOOR = "door"
    PLAN = "plan"
    LISTS = "lists"
    MUSTER = "muster"


class Wall(NamedTuple):
    """A wall. `subject` is the name of its door or area, None if it was removed or the wall has none."""

    id: int
    organization_id: int
    name: str
    shows: Shows
    door_id: int | None
    location_id: int | None
    language: str
    created_at: int
    last_seen_at: int | None
    subject: str | None


class NewWall(NamedTuple):
    name: str
    shows: Shows
    door_id: int | None = None
    location_id: int | None = None
    language: str = "en"


_SELECT = """
SELECT w.id, w.organization_id, w.name, w.shows, w.door_id, w.location_id, w.language, w.created_at, w.last_seen_at,
       ifnull(d.name, l.name)
FROM wall w LEFT JOIN door d ON d.id = w.door_id AND d.deleted_at IS NULL
LEFT JOIN location l ON l.id = w.location_id AND l.deleted_at IS NULL
"""


def add(actor: Actor, entered: NewWall) -> tuple[Wall, str]:
    """Create a wall and return it with the code of its link. Raises Invalid, and Conflict over the cap."""
    name = values.name("name", entered.name)
    code = _new_code()
    with acting(actor) as act:
        _check(actor.organization_id, entered)
        wall_id = execute(
            "INSERT INTO wall (organization_id, name, shows, door_id, location_id, language, link_hash, created_at) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?) RETURNING id",
            (
                actor.organization_id,
                name,
                entered.shows,
                entered.door_id,
                entered.location_id,
                entered.language,
                hash_of(code),
                clock.now(),
            ),
        ).fetchone()[0]
        quotas.check_cap(actor, "wall")
        wall = get(actor.organization_id, wall_id)
        detail = {"shows": wall.shows, "of": wall.subject} if wall.subject else {"shows": wall.shows}
        act.note("wall.created", _subject(wall), detail)
    return wall, code


def renew(actor: Actor, wall_id: int) -> tuple[Wall, str]:
    """Replace the link. Screens with the old one stop. Raises NotFound."""
    code = _new_code()
    with acting(actor) as act:
        wall = get(actor.organization_id, wall_id)
        execute("UPDATE wall SET link_hash = ?, last_seen_at = NULL WHERE id = ?", (hash_of(code), wall_id))
        act.note("wall.renewed", _subject(wall))
    return wall, code


def revoke(actor: Actor, wall_id: int) -> None:
    """Remove a wall. Its link stops working. Raises NotFound."""
    with acting(actor) as act:
        wall = get(actor.organization_id, wall_id)
        execute("DELETE FROM wall WHERE id = ?", (wall_id,))
        act.note("wall.revoked", _subject(wall))


def list_walls(organization_id: int) -> list[Wall]:
    rows = execute(f"{_SELECT} WHERE w.organization_id = ? ORDER BY w.name, w.id", (organization_id,))
    return [_wall(row) for row in rows]


def get(organization_id: int, wall_id: int) -> Wall:
    """Return a wall. Raises NotFound."""
    row = execute(f"{_SELECT} WHERE w.id = ? AND w.organization_id = ?", (wall_id, organization_id)).fetchone()
    if row is None:
        raise NotFound("no such wall")
    return _wall(row)


def find_by_code(code: str) -> Wall | None:
    """Return the wall that a code opens, as typed on a screen, or None."""
    row = execute(f"{_SELECT} WHERE w.link_hash = ?", (hash_of(code),)).fetchone()
    return _wall(row) if row else None


def record_seen(wall: Wall) -> None:
    """Update `last_seen_at`, at most every five minutes."""
    now = clock.now()
    if wall.last_seen_at is None or not wall.last_seen_at <= now < wall.last_seen_at + SEEN_EVERY:
        with writing():
            execute("UPDATE wall SET last_seen_at = ? WHERE id = ?", (now, wall.id))


def hash_of(code: str) -> bytes:
    """Return the hash of a code. Case, hyphens and spaces do not count."""
    return hash_secret(plain(code))


def plain(code: str) -> str:
    """Return a code without what does not count."""
    return "".join(letter for letter in code.lower() if letter not in "- ")


def _new_code() -> str:
    return "-".join("".join(secrets.choice(ALPHABET) for _ in range(GROUP)) for _ in range(GROUPS))


def _check(organization_id: int, entered: NewWall) -> None:
    if entered.shows == Shows.DOOR:
        if entered.door_id is None:
            raise Invalid.one("door_id", "required", N_("Choose a door"))
        try:
            doors.find_door(organization_id, entered.door_id)
        except NotFound as error:
            raise Invalid.one("door_id", "fk_not_found", N_("This door no longer exists")) from error
    if entered.shows == Shows.PLAN:
        if entered.location_id is None:
            raise Invalid.one("location_id", "required", N_("Choose a floor plan"))
        if floor_plans.find_plan(organization_id, entered.location_id) is None:
            raise Invalid.one("location_id", "fk_not_found", N_("This floor plan no longer exists"))


def _wall(row: tuple[object, ...]) -> Wall:
    wall = Wall._make(row)
    return wall._replace(shows=Shows(wall.shows))


def _subject(wall: Wall) -> Subject:
    return Subject("wall", wall.id, wall.name)
