"""A scan's time is the reader's if it can be believed, else the moment of receipt, and says which."""

from __future__ import annotations

import pytest

from edge.clock import DAY, HOUR, SECOND
from edge.ingest.timing import EARLIEST, Stamp, Timekeeper
from edge.store.stays import Quality

NOW = 1_772_439_330 * SECOND
READER = 1


def keeper(newest: int = 0, offsets: dict[int, int] | None = None) -> Timekeeper:
    return Timekeeper(newest, 7, offsets or {})


def stamp(timekeeper: Timekeeper, reader_time: int | None, received_at: int = NOW) -> Stamp:
    return timekeeper.stamp(READER, [reader_time], received_at)[0]


@pytest.mark.parametrize("reader_time", [NOW, NOW + 10 * SECOND, NOW - 7 * DAY, NOW - HOUR])
def test_a_credible_time_is_kept(reader_time: int) -> None:
    assert stamp(keeper(), reader_time) == Stamp(reader_time, Quality.READER)


@pytest.mark.parametrize("reader_time", [None, NOW + 10 * SECOND + 1, NOW - 7 * DAY - 1, 0, -1, 2**62])
def test_an_incredible_time_gives_way_to_the_time_of_receipt(reader_time: int | None) -> None:
    assert stamp(keeper(), reader_time) == Stamp(NOW, Quality.RECEIVED)


def test_a_time_before_2020_is_not_believed_however_long_readers_may_buffer() -> None:
    patient = Timekeeper(0, 36_500, {})
    assert stamp(patient, EARLIEST - 1).quality is Quality.RECEIVED
    assert stamp(patient, EARLIEST).quality is Quality.READER


def run_live(timekeeper: Timekeeper, offset: int, seconds: int, start: int = NOW) -> int:
    """A reader that is `offset` ahead and sends once a second; returns the time after it."""
    for second in range(seconds):
        stamp(timekeeper, start + second * SECOND + offset, start + second * SECOND)
    return start + seconds * SECOND


@pytest.mark.parametrize("offset", [HOUR, -HOUR, -3 * SECOND])
def test_a_constant_offset_is_learned_shown_and_taken_off(offset: int) -> None:
    timekeeper = keeper()
    later = run_live(timekeeper, offset, 25)
    assert timekeeper.offset(READER) == offset
    assert stamp(timekeeper, later + offset, later) == Stamp(later, Quality.CORRECTED)


def test_a_small_offset_is_shown_and_left_alone() -> None:
    timekeeper = keeper()
    later = run_live(timekeeper, 400_000, 25)
    assert timekeeper.offset(READER) == 400_000
    assert stamp(timekeeper, later + 400_000, later) == Stamp(later + 400_000, Quality.READER)


def test_a_replayed_buffer_teaches_nothing_and_keeps_its_times() -> None:
    """An hour of events comes back within a minute: their offsets shrink as it goes on."""
    timekeeper = keeper()
    for second in range(60):
        observed, received = NOW - HOUR + second * 60 * SECOND, NOW + second * SECOND
        assert stamp(timekeeper, observed, received) == Stamp(observed, Quality.READER)
    assert timekeeper.offset(READER) is None


def test_a_message_that_is_off_by_something_else_is_not_corrected() -> None:
    timekeeper = keeper(offsets={READER: HOUR})
    assert stamp(timekeeper, NOW - 2 * DAY) == Stamp(NOW - 2 * DAY, Quality.READER)
    assert stamp(timekeeper, NOW + HOUR) == Stamp(NOW, Quality.CORRECTED)


def test_a_clock_that_was_set_right_is_believed_at_once_and_its_offset_forgotten() -> None:
    timekeeper = keeper()
    later = run_live(timekeeper, HOUR, 25)
    assert stamp(timekeeper, later, later) == Stamp(later, Quality.READER)
    run_live(timekeeper, 0, 60, later)
    assert timekeeper.offset(READER) == 0


def test_while_the_box_is_behind_what_it_recorded_times_are_untrusted_and_still_go_on() -> None:
    timekeeper = keeper(newest=NOW)
    box = NOW - DAY
    first = timekeeper.receive(box)
    assert not timekeeper.is_trusted
    assert stamp(timekeeper, NOW, first) == Stamp(first, Quality.UNTRUSTED)
    assert timekeeper.receive(box + SECOND) == first + SECOND >= NOW
    assert timekeeper.receive(NOW + SECOND) == NOW + SECOND
    assert timekeeper.is_trusted


def test_a_scan_from_a_reader_slightly_ahead_does_not_make_the_box_look_behind() -> None:
    timekeeper = keeper()
    timekeeper.recorded(NOW + 9 * SECOND)
    assert timekeeper.receive(NOW) == NOW
    assert timekeeper.is_trusted
