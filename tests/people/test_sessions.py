"""Refused sign-ins, as the database counts them."""

from __future__ import annotations

from edge.audit.actors import shell
from edge.people import people, sessions
from edge.people.people import Role
from tests.conftest import Cast


def test_wrong_pins_that_are_given_at_the_same_time_add_up(cast: Cast) -> None:
    olga = people.add_person(shell(cast.acme), "Olga", Role.OPERATOR, pin_hash="hash")
    for _ in range(3):
        sessions.refuse(olga, None, "192.0.2.7", is_wrong_pin=True)  # each of them has read the same row before
    found = people.find_person(cast.acme, olga.id)
    assert found
    assert found.wrong_pins == 3
