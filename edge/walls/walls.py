"""Walls of an organization: add, list, renew the link, revoke, and find one by its link."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from enum import StrEnum
from typing import Any, NamedTuple

from edge import clock
from edge.audit.actors import Actor
from edge.audit.audit import acting
from edge.audit.kinds import Kind
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


def _row(row: Sequence[Any]) -> Wall:
    wall = Wall._make(row)
    return wall._replace(shows=Shows(wall.shows))


KIND = Kind(
    "wall",
    "wall",
    "SELECT wall.id, wall.organization_id, wall.name, wall.shows, wall.door_id, wall.location_id, wall.language, "
    "wall.created_at, wall.last_seen_at, ifnull(door.name, location.name) FROM wall "
    "LEFT JOIN door ON door.id = wall.door_id AND door.deleted_at IS NULL "
    "LEFT JOIN location ON location.id = wall.location_id AND location.deleted_at IS NULL",
    _row,
    key="id",
    order="wall.name, wall.id",
    detail=lambda wall: {"shows": wall.shows, "of": wall.subject} if wall.subject else {"shows": wall.shows},
)
get, list_walls = KIND.get, KIND.list_of


def add(actor: Actor, entered: NewWall) -> tuple[Wall, str]:
    """Create a wall and return it with the code of its link. Raises Invalid, and Conflict over the cap."""
    columns = {**entered._asdict(), "name": values.name("name", entered.name)}
    code = _new_code()
    with acting(actor):
        _check(actor.organization_id, entered)
        return KIND.add(actor, {**columns, "link_hash": hash_of(code)}), code


def renew(actor: Actor, wall_id: int) -> tuple[Wall, str]:
    """Replace the link. Screens with the old one stop. Raises NotFound."""
    code = _new_code()
    return KIND.mark(actor, wall_id, "renewed", {"link_hash": hash_of(code), "last_seen_at": None}), code


def revoke(actor: Actor, wall_id: int) -> None:
    """Remove a wall. Its link stops working. Raises NotFound."""
    KIND.remove(actor, wall_id, "revoked")


def find_by_code(code: str) -> Wall | None:
    """Return the wall that a code opens, as typed on a screen, or None."""
    return next(iter(KIND.where("wall.link_hash = ?", hash_of(code))), None)


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
