"""Rules by which readers decide that the box's clock is wrong, without messages or a database."""

from __future__ import annotations

import pytest

from edge.clock import HOUR, SECOND
from edge.ingest.box_clock import ACTIVE, GAP, HOLD, REMEMBERED, BoxClock
from edge.ingest.reader_clock import Sample, Source

START = 1_772_439_330 * SECOND
DOCK, GATE, YARD = (Source(number, organization_id=1) for number in (1, 2, 3))


class Clock:
    """A clock that got messages of the given readers in time at second 0."""

    def __init__(self, *in_time: Source) -> None:
        self.box = BoxClock()
        for source in in_time:
            self.receive(source, 0)

    def receive(self, source: Source, second: float, late: float = 0, offset: int | None = 0) -> int:
        """Receive a message whose newest read is `late` seconds old, as after a step of the box's clock by as much.

        Returns the change.
        """
        at = self.pass_time(second, late)
        return self.box.observe(source, Sample(at, -round(late * SECOND)), offset)

    def pass_time(self, second: float, set_by: float = 0) -> int:
        """Return the time of a message at this second by the box's clock, which was set by so many seconds."""
        at = START + round(second * SECOND)
        self.box.pass_time(at, at - round(set_by * SECOND))
        return at

    def is_doubted(self, second: float) -> bool:
        return self.box.is_doubted(START + round(second * SECOND))


def test_one_reader_that_jumps_was_set_and_holds_no_messages() -> None:
    clock = Clock(DOCK)
    assert clock.receive(DOCK, 1, late=3600) == 0
    assert not clock.is_doubted(1)


def test_a_jump_is_doubted_for_seconds_while_another_reader_is_active() -> None:
    clock = Clock(DOCK, GATE)
    clock.receive(DOCK, 59, late=3600)
    assert clock.is_doubted(59)
    assert clock.is_doubted(59 + HOLD / SECOND - 0.1)
    assert not clock.is_doubted(59 + HOLD / SECOND)


def test_a_jump_is_not_doubted_if_the_other_reader_was_silent_for_a_minute() -> None:
    clock = Clock(DOCK, GATE)
    clock.receive(GATE, 1)
    clock.receive(DOCK, 50)
    clock.receive(DOCK, 1 + ACTIVE / SECOND + 1, late=3600)
    assert not clock.is_doubted(63)


def test_each_message_in_time_keeps_a_reader_active() -> None:
    clock = Clock(DOCK, GATE)
    for second in (50, 100, 150):
        clock.receive(GATE, second)
    clock.receive(DOCK, 160, late=3700)
    assert clock.is_doubted(160)


def test_a_reader_in_time_ends_the_doubt() -> None:
    clock = Clock(DOCK, GATE)
    clock.receive(DOCK, 1, late=3600)
    clock.receive(GATE, 2)
    assert not clock.is_doubted(2)


def test_a_second_reader_that_agrees_ahead_decides_immediately() -> None:
    clock = Clock(DOCK, GATE)
    assert clock.receive(DOCK, 1, late=-3600) == 0
    assert clock.receive(GATE, 2, late=-3600) == HOUR
    assert clock.box.shift == -HOUR
    assert not clock.is_doubted(2)


def test_two_late_readers_decide_after_one_of_them_was_late_for_seconds() -> None:
    clock = Clock(DOCK, GATE)
    changes = [clock.receive(source, second, late=3600) for second in (1, 3, 5) for source in (DOCK, GATE)]
    assert changes == [0, 0, 0, 0, -HOUR, 0]
    assert clock.box.shift == HOUR


def test_two_messages_are_too_few_however_long_they_are_late() -> None:
    clock = Clock(DOCK, GATE)
    assert [clock.receive(source, second, late=3600) for second in (1, 9) for source in (DOCK, GATE)] == [0] * 4


def test_readers_that_jump_by_different_times_were_set() -> None:
    clock = Clock(DOCK, GATE)
    for second in range(1, 20):
        assert clock.receive(DOCK, second, late=-3600) == clock.receive(GATE, second, late=-3605) == 0


def test_readers_that_are_late_by_different_times_were_set() -> None:
    clock = Clock(DOCK, GATE)
    for second in range(1, 20):
        assert clock.receive(DOCK, second, late=3600) == clock.receive(GATE, second, late=3700) == 0


def test_a_reader_whose_delay_changes_is_not_steady() -> None:
    clock = Clock(DOCK, GATE)
    assert [clock.receive(DOCK, second, late=3600 + 20 * (second % 2)) for second in range(1, 20)] == [0] * 19
    assert clock.receive(GATE, 20, late=3600) == 0


def test_devices_of_one_reader_are_one_witness() -> None:
    devices = [Source(1, topic, 1) for topic in ("site/a", "site/b", "site/c")]
    clock = Clock(*devices)
    assert [clock.receive(device, 1, late=-3600) for device in devices] == [0, 0, 0]


def test_with_several_organizations_readers_of_two_of_them_must_agree() -> None:
    theirs = Source(9, organization_id=2)
    clock = Clock(DOCK, GATE, YARD, theirs)
    clock.box.organizations = 3
    assert [clock.receive(source, 1, late=-3600) for source in (DOCK, GATE, YARD)] == [0, 0, 0]
    assert clock.receive(theirs, 2, late=-3600) == HOUR


def test_a_jump_of_one_reader_is_forgotten_when_another_is_in_time() -> None:
    clock = Clock(DOCK, GATE, YARD)
    clock.receive(DOCK, 1, late=-3600)
    clock.receive(YARD, 2)
    assert clock.receive(GATE, 3, late=-3600) == 0


def test_a_jump_of_one_reader_waits_two_minutes_for_a_second_reader() -> None:
    for wait, change in ((REMEMBERED // SECOND - 1, HOUR), (REMEMBERED // SECOND + 2, 0)):
        clock = Clock(DOCK, GATE)
        clock.receive(DOCK, 1, late=-3600)
        clock.receive(DOCK, 1 + wait, late=-3600, offset=HOUR)  # its new offset was learned meanwhile
        assert clock.receive(GATE, 1 + wait, late=-3600) == change


def test_a_delay_that_grows_slowly_is_not_a_jump() -> None:
    clock = Clock(DOCK, GATE)
    for second in range(1, 100):
        assert clock.receive(DOCK, second, late=second) == clock.receive(GATE, second, late=second) == 0
    assert not clock.is_doubted(99)


def test_a_first_offset_may_be_a_delay_and_is_believed_after_a_minute_in_time() -> None:
    far = 20 * SECOND
    for lasted, change in ((59, 0), (61, HOUR)):
        clock = Clock()
        for second in (0, lasted):
            for source in (DOCK, GATE):
                clock.receive(source, second, late=-20, offset=far)
        assert clock.receive(DOCK, lasted + 1, late=-3620, offset=far) == 0
        assert clock.receive(GATE, lasted + 2, late=-3620, offset=far) == change


def test_an_unknown_offset_says_nothing() -> None:
    clock = Clock(DOCK, GATE)
    assert clock.receive(DOCK, 1, late=-3600, offset=None) == clock.receive(GATE, 1, late=-3600, offset=None) == 0


@pytest.mark.parametrize(
    ("next_second", "is_doubted"),
    [(GAP // SECOND - 1, False), (GAP // SECOND + 1, True), (-2, False), (-4, True)],
)
def test_a_gap_or_a_step_back_is_doubted(next_second: float, is_doubted: bool) -> None:
    clock = Clock(DOCK, GATE)
    clock.pass_time(next_second)
    assert clock.is_doubted(next_second) is is_doubted


def test_a_gap_after_a_quiet_minute_is_not_doubted() -> None:
    clock = Clock(DOCK, GATE)
    clock.pass_time(120)
    clock.pass_time(3600)
    assert not clock.is_doubted(3600)


def test_an_expired_doubt_does_not_begin_again_for_two_minutes() -> None:
    clock = Clock(DOCK, GATE)
    for second in range(1, 50):
        clock.receive(DOCK, second, late=3600 + 20 * (second % 2))
    assert not clock.is_doubted(50)


def test_messages_that_were_held_are_corrected_and_earlier_and_later_ones_not() -> None:
    clock = Clock(DOCK, GATE)
    clock.receive(DOCK, 3, late=-3600)
    clock.receive(GATE, 5, late=-3600)
    held = [START + second * SECOND for second in (2, 3, 4, 5)]
    assert [clock.box.recall(at) - at for at in held] == [0, HOUR, HOUR, HOUR]
    assert clock.box.recall(START + 6 * SECOND) == START + 6 * SECOND


def test_corrections_of_held_messages_are_forgotten_after_the_hold() -> None:
    clock = Clock(DOCK, GATE)
    clock.receive(DOCK, 3, late=-3600)
    clock.receive(GATE, 5, late=-3600)
    for second, change in ((3600 + 20, HOUR), (3600 + 5 + 21, 0)):
        clock.pass_time(second)
        assert clock.box.recall(START + 4 * SECOND) == START + 4 * SECOND + change


def test_a_box_that_agrees_again_is_trusted_again() -> None:
    clock = Clock(DOCK, GATE)
    clock.receive(DOCK, 1, late=3600)
    for second in (3, 5):
        clock.receive(DOCK, second, late=3600)
        clock.receive(GATE, second, late=3600)
    assert clock.box.shift == HOUR
    still_wrong, right = Sample(START + 10 * SECOND, 0), Sample(START + 10 * SECOND, HOUR)
    assert not clock.box.is_right_again(still_wrong, 0)
    assert not clock.box.is_right_again(right, None)
    assert clock.box.is_right_again(right, 0)
    assert clock.box.shift == 0
    assert not clock.box.is_right_again(still_wrong, 0), "nothing is left to correct"


def test_a_reader_stays_active_over_a_correction() -> None:
    clock = Clock(DOCK, GATE)
    clock.receive(DOCK, 1, late=-3600)
    clock.receive(GATE, 2, late=-3600)  # one hour passes by the box's clock
    clock.receive(DOCK, 3603, late=3600)
    assert clock.is_doubted(3603)


@pytest.mark.parametrize(("seconds", "change"), [(-31, 0), (-29, 1), (3599, 1), (3601, 0)])
def test_a_reader_that_continues_from_the_newest_scan_contradicts_the_box(seconds: int, change: int) -> None:
    box = BoxClock()
    newest_scan, at = START, START - 10 * HOUR
    sample = Sample(at, newest_scan + seconds * SECOND - at)
    assert box.observe_with_history(sample, 0, newest_scan) == change * sample.ahead
    assert box.shift == -change * sample.ahead


def test_known_readers_may_follow_the_first_message_after_a_start() -> None:
    """Nobody was in time yet, but the clock may have been set while the service was stopped."""
    for known_readers, is_doubted in ((1, False), (2, True)):
        clock = Clock()
        clock.box = BoxClock(known_readers)
        clock.receive(DOCK, 0, late=3600)
        assert clock.is_doubted(0) is is_doubted


@pytest.mark.parametrize("set_by", [3 * 3600, -3600, 0])
def test_readers_do_not_move_a_box_that_a_person_has_just_confirmed(set_by: int) -> None:
    """The ten minutes of a confirmation pass, whatever the clock shows."""
    clock = Clock(DOCK, GATE)
    clock.box.trust(START, START)
    for after, is_moved in ((GAP // SECOND - 30, False), (GAP // SECOND + 30, True)):
        begun = START + (set_by + after) * SECOND
        for number in range(12):
            at = begun + number * SECOND
            clock.box.pass_time(at, START + (after + number) * SECOND)
            clock.box.observe((DOCK, GATE)[number % 2], Sample(at, 3700 * SECOND), 0)
        assert bool(clock.box.shift) is is_moved
