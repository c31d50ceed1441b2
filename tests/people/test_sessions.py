"""Counting of refused sign-ins in the database."""

from __future__ import annotations

import pytest

from edge.audit.actors import shell
from edge.people import devices, people, sessions, sign_in
from edge.people.people import Role
from edge.people.sign_in import Refused, SignIn
from edge.rate_limits import Buckets
from tests.conftest import Cast


def test_wrong_pins_that_are_given_at_the_same_time_add_up(cast: Cast) -> None:
    olga = people.add_person(shell(cast.acme), "Olga", Role.OPERATOR, pin_hash="hash")
    for _ in range(3):
        sessions.refuse(olga, None, "192.0.2.7", is_wrong_pin=True)  # all of them have read the same row before
    person = people.find_person(cast.acme, olga.id)
    assert person
    assert person.wrong_pins == 3


def test_nobody_signs_in_on_a_device_in_a_loop(cast: Cast, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each sign-in leaves a row for as long as the history, and a badge needs no slow check of a password."""
    monkeypatch.setattr(sign_in, "_sign_ins_of_device", Buckets(burst=3, per_second=1 / 30))
    olga = people.add_person(shell(cast.acme), "Olga", Role.OPERATOR)
    enrolled = devices.enrol(devices.invite(shell(cast.acme), "Handheld 1")[1])
    assert enrolled
    answers = [
        sign_in.sign_in_on_device(enrolled[0], person_id=olga.id, is_pin_required=False, address="192.0.2.7", hours=12)
        for _ in range(5)
    ]
    assert [type(one) for one in answers] == [SignIn, SignIn, SignIn, Refused, Refused]
    assert isinstance(answers[-1], Refused)
    assert answers[-1].reason == sign_in.TOO_OFTEN
    assert 0 < answers[-1].wait_seconds <= 30
