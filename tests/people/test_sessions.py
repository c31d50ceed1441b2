"""Counting of refused sign-ins in the database."""

from __future__ import annotations

from edge.audit.actors import shell
from edge.people import people, sessions
from edge.people.people import Role
from tests.conftest import Cast


def test_wrong_pins_that_are_given_at_the_same_time_add_up(cast: Cast) -> None:
    olga = people.add_person(shell(cast.acme), "Olga", Role.OPERATOR, pin_hash="hash")
    for _ in range(3):
        sessions.refuse(olga, None, "192.0.2.7", is_wrong_pin=True)  # all of them have read the same row before
    person = people.find_person(cast.acme, olga.id)
    assert person
    assert person.wrong_pins == 3
