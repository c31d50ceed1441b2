"""Walls: the link is a hash in the database, and a wall belongs to one organization."""

from __future__ import annotations

import pytest

from edge.audit import actors, quotas
from edge.audit.actors import shell
from edge.database.connection import execute
from edge.doors import doors
from edge.errors import Conflict, Invalid, NotFound
from edge.people import people
from edge.people.people import Role
from edge.walls import walls
from edge.walls.walls import NewWall, Shows
from tests.conftest import Cast


def test_the_code_is_stored_as_a_hash_and_opens_one_wall(cast: Cast) -> None:
    wall, code = walls.add(shell(cast.acme), NewWall("Dispatch", Shows.ALERTS, language="de"))
    assert len(code.replace("-", "")) == 20
    (row,) = execute("SELECT * FROM wall").fetchall()
    assert all(code not in str(value) and code.replace("-", "") not in str(value) for value in row)
    assert walls.find_by_code(code) == wall
    assert walls.find_by_code(f" {code.upper().replace('-', ' ')} ") == wall
    assert walls.find_by_code(code[:-1]) is None
    assert walls.find_by_code("") is None


def test_a_new_link_ends_the_old_one_and_revoking_ends_both(cast: Cast) -> None:
    wall, old = walls.add(shell(cast.acme), NewWall("Dispatch", Shows.ALERTS))
    _, code = walls.renew(shell(cast.acme), wall.id)
    assert walls.find_by_code(old) is None
    assert walls.find_by_code(code) == wall
    with pytest.raises(NotFound):
        walls.revoke(shell(cast.rival), wall.id)
    with pytest.raises(NotFound):
        walls.renew(shell(cast.rival), wall.id)
    walls.revoke(shell(cast.acme), wall.id)
    assert walls.find_by_code(code) is None


def test_a_wall_shows_a_door_or_plan_of_its_organization_only(cast: Cast) -> None:
    door = doors.add_door(shell(cast.rival), "Gate")
    for entered in (
        NewWall("W", Shows.DOOR),
        NewWall("W", Shows.DOOR, door_id=door),
        NewWall("W", Shows.PLAN),
        NewWall("W", Shows.PLAN, location_id=1),
        NewWall("", Shows.ALERTS),
    ):
        with pytest.raises(Invalid):
            walls.add(shell(cast.acme), entered)
    assert walls.list_walls(cast.acme) == []


def test_an_organization_has_a_bounded_number_of_walls(cast: Cast) -> None:
    ada = people.add_person(shell(cast.acme), "Ada", Role.ADMINISTRATOR)
    actor = actors.person(cast.acme, ada.id, ada.name)
    for number in range(quotas.CAPS["wall"].limit):
        walls.add(actor, NewWall(f"Wall {number}", Shows.ALERTS))
    with pytest.raises(Conflict):
        walls.add(actor, NewWall("One more", Shows.ALERTS))


def test_the_time_of_the_last_request_is_written_rarely(cast: Cast) -> None:
    wall, code = walls.add(shell(cast.acme), NewWall("Dispatch", Shows.ALERTS))
    walls.record_seen(wall)
    seen = walls.find_by_code(code)
    assert seen is not None
    assert seen.last_seen_at is not None
    walls.record_seen(seen)
    assert walls.find_by_code(code) == seen
