"""When a message is due: digests and quiet hours in the local time of the site, also when clocks change."""

from __future__ import annotations

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from edge import clock
from edge.clock import SECOND
from edge.rules.channels.channels import Schedule, due_at, is_late, is_quiet

BERLIN = ZoneInfo("Europe/Berlin")
NIGHT = Schedule(quiet_from=22 * 60, quiet_until=6 * 60)


def at(text: str) -> int:
    return clock.to_micros(datetime.fromisoformat(text).replace(tzinfo=BERLIN))


def test_without_a_schedule_a_message_is_due_at_once() -> None:
    assert due_at(5, Schedule(), BERLIN) == 5


def test_a_digest_is_due_after_its_time() -> None:
    assert due_at(5, Schedule(digest=900), BERLIN) == 5 + 900 * SECOND


@pytest.mark.parametrize(
    ("schedule", "moment", "due"),
    [
        (NIGHT, "2026-03-02T21:59", "2026-03-02T21:59"),
        (NIGHT, "2026-03-02T22:00", "2026-03-03T06:00"),
        (NIGHT, "2026-03-03T05:59", "2026-03-03T06:00"),
        (NIGHT, "2026-03-03T06:00", "2026-03-03T06:00"),
        (NIGHT, "2026-03-28T23:00", "2026-03-29T06:00"),  # the night that is an hour shorter
        (NIGHT, "2026-10-24T23:00", "2026-10-25T06:00"),  # the night that is an hour longer
        (Schedule(900, 22 * 60, 6 * 60), "2026-03-02T21:50", "2026-03-03T06:00"),
        (Schedule(quiet_from=12 * 60, quiet_until=13 * 60), "2026-03-02T12:30", "2026-03-02T13:00"),
        (Schedule(quiet_from=12 * 60, quiet_until=13 * 60), "2026-03-02T13:00", "2026-03-02T13:00"),
    ],
)
def test_quiet_hours_move_a_message_to_their_end(schedule: Schedule, moment: str, due: str) -> None:
    assert due_at(at(moment), schedule, BERLIN) == at(due)


def test_quiet_hours_are_those_of_the_site() -> None:
    assert is_quiet(at("2026-03-02T23:00"), NIGHT, BERLIN)
    assert not is_quiet(at("2026-03-02T23:00"), NIGHT, ZoneInfo("America/New_York"))


def test_a_message_that_waited_for_the_morning_is_not_late() -> None:
    assert not is_late(at("2026-03-02T23:00"), NIGHT, BERLIN, at("2026-03-03T06:01"))
    assert is_late(at("2026-03-02T23:00"), NIGHT, BERLIN, at("2026-03-03T06:03"))
