"""Doors: their names, and the antennas that read their inner and outer side."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

from edge.audit.actors import Actor
from edge.audit.audit import acting, changed
from edge.audit.kinds import Kind
from edge.database.connection import execute, execute_many
from edge.doors.passage_rule import Side
from edge.errors import Conflict, Invalid, NotFound
from edge.records import locations
from edge.texts import N_, fill
from edge.tracking.antenna_names import FIRST_PORT, names_of
from edge.validation import json_text, values

MOST_ANTENNAS = 16  # for each side


class DoorAntenna(NamedTuple):
    """An antenna of a door. `port` None: all antennas of the reader."""

    side: Side
    reader_id: int
    port: int | None


class NamedAntenna(NamedTuple):
    """An antenna of a door as pages show it."""

    side: Side
    reader_id: int
    antenna: str  # empty: all antennas of the reader
    port: int | None
    label: str


class Door(NamedTuple):
    """A door. `site` is the name of the site whose door it is, at a hub."""

    id: int
    organization_id: int
    name: str
    location_id: int | None
    location_name: str | None
    site: str | None


class Readable(NamedTuple):
    """A door of one antenna, for ingest. Part of the stored form of kept messages, so its fields stay."""

    door_id: int
    side: int
    organization_id: int


KIND = Kind(
    "door",
    "door",
    "SELECT door.id, door.organization_id, door.name, door.location_id, location.name, site.name FROM door "
    "LEFT JOIN location ON location.id = door.location_id AND location.deleted_at IS NULL "
    "LEFT JOIN site ON site.no = door.site_no",
    Door._make,
    key="id",
    order="site.name, door.name, door.id",
    live="door.deleted_at IS NULL",
)
find_door, list_doors = KIND.get, KIND.list_of


def door_named(organization_id: int, name: str) -> Door:
    """Return the door of this box with a name. Raises NotFound."""
    own = "door.organization_id = ? AND door.site_no IS NULL AND door.name = ? COLLATE NOCASE"
    for door in KIND.where(own, organization_id, name):
        return door
    raise NotFound(f"no door is named {name}")


def antennas_of(organization_id: int, door_id: int) -> list[NamedAntenna]:
    """Return the antennas of a door with their names, the inner side first."""
    rows = execute(
        "SELECT a.side, a.reader_id, r.name, a.port FROM door_antenna a JOIN reader r ON r.id = a.reader_id "
        "JOIN door d ON d.id = a.door_id WHERE d.organization_id = ? AND a.door_id = ? "
        "ORDER BY a.side, r.name, a.port",
        (organization_id, door_id),
    ).fetchall()
    shown = []
    for side, reader_id, name, port in rows:
        antenna = "" if port is None else _port_label(reader_id, port)
        label = f"{name} / {antenna}" if antenna else name
        shown.append(NamedAntenna(Side(side), reader_id, antenna, port, label))
    return shown


def _with_sides(antennas: Sequence[NamedAntenna]) -> list[str]:
    return [f"{one.side.name.lower()} {one.label}" for one in antennas]


def _port_label(reader_id: int, port: int) -> str:
    return names_of(reader_id).get(port, str(port)) if port >= FIRST_PORT else str(port)


def add_door(actor: Actor, name: str, location_id: int | None = None) -> int:
    """Create a door and return its id. Raises Invalid, and Conflict if the name is taken."""
    name = values.name("name", name)
    with acting(actor):
        _check(actor.organization_id, name, location_id, None)
        return KIND.add(actor, {"name": name, "location_id": location_id}, location_id=location_id).id


def change_door(actor: Actor, door_id: int, name: str, location_id: int | None) -> None:
    """Rename a door, or set its location. Raises NotFound, Invalid and Conflict."""
    name = values.name("name", name)
    with acting(actor):
        door = _own_door(actor.organization_id, door_id)
        _check(actor.organization_id, name, location_id, door_id)
        before: dict[str, object] = {"name": door.name, "location_id": door.location_id}
        after: dict[str, object] = {"name": name, "location_id": location_id}
        KIND.change(actor, door_id, after, **changed(before, after))


def set_antennas(actor: Actor, door_id: int, antennas: Sequence[DoorAntenna]) -> None:
    """Replace the antennas of a door. Raises NotFound, and Invalid for an unknown reader or too many antennas."""
    with acting(actor) as act:
        door = _own_door(actor.organization_id, door_id)
        _check_antennas(actor.organization_id, antennas)
        before = antennas_of(actor.organization_id, door_id)
        execute("DELETE FROM door_antenna WHERE door_id = ?", (door_id,))
        execute_many(
            "INSERT INTO door_antenna (door_id, side, reader_id, port) VALUES (?, ?, ?, ?)",
            [(door_id, *one) for one in antennas],
        )
        after = antennas_of(actor.organization_id, door_id)
        change = {"antennas": {"old": _with_sides(before), "new": _with_sides(after)}} if before != after else {}
        act.note_changes("door.changed", KIND.subject(door), change)


def remove_door(actor: Actor, door_id: int) -> None:
    """Remove a door; its passages are kept. Raises NotFound."""
    with acting(actor):
        _own_door(actor.organization_id, door_id)
        execute("DELETE FROM door_antenna WHERE door_id = ?", (door_id,))
        KIND.remove(actor, door_id)


def all_antennas() -> dict[tuple[int, int | None], list[Readable]]:
    """Return the doors of all organizations by antenna. For ingest only."""
    by_antenna: dict[tuple[int, int | None], list[Readable]] = {}
    rows = execute(
        "SELECT a.reader_id, a.port, d.id, a.side, d.organization_id FROM door_antenna a "
        "JOIN door d ON d.id = a.door_id AND d.deleted_at IS NULL "
        "JOIN reader r ON r.id = a.reader_id AND r.organization_id = d.organization_id"
    )
    for reader_id, port, *door in rows:
        by_antenna.setdefault((reader_id, port), []).append(Readable(*door))
    return by_antenna


def _own_door(organization_id: int, door_id: int) -> Door:
    door = find_door(organization_id, door_id)
    if door.site is not None:
        raise Conflict(fill(N_("this door belongs to %(site)s; change it there"), site=door.site))
    return door


def _check(organization_id: int, name: str, location_id: int | None, door_id: int | None) -> None:
    """Raise Conflict if the name is taken, and Invalid for an unknown location."""
    with suppress(NotFound):
        if door_named(organization_id, name).id != door_id:
            raise Conflict(N_("another door has this name"))
    if location_id is None:
        return
    try:
        locations.get(organization_id, location_id)
    except NotFound as error:
        raise Invalid.one("location_id", "fk_not_found", N_("This location does not exist")) from error


def _check_antennas(organization_id: int, antennas: Sequence[DoorAntenna]) -> None:
    for side in Side:
        if sum(one.side == side for one in antennas) > MOST_ANTENNAS:
            message = fill(N_("A side can have at most %(number)s antennas"), number=MOST_ANTENNAS)
            raise Invalid.one("antennas", "too_many", message)
    seen: set[tuple[int, int | None]] = set()
    for one in antennas:
        if (one.reader_id, one.port) in seen:
            raise Invalid.one("antennas", "invalid_value", N_("An antenna can read one side of a door only"))
        seen.add((one.reader_id, one.port))
    known = execute(
        "SELECT count(*) FROM reader WHERE organization_id = ? AND deleted_at IS NULL "
        "AND id IN (SELECT value FROM json_each(?))",
        (organization_id, json_text.text(sorted({one.reader_id for one in antennas}))),
    ).fetchone()[0]
    if known != len({one.reader_id for one in antennas}):
        raise Invalid.one("antennas", "fk_not_found", N_("A reader does not exist"))
