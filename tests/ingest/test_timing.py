"""Time of a scan: from the reader if plausible, otherwise the time of receipt."""

from __future__ import annotations

import pytest

from edge.clock import DAY, HOUR, SECOND, of_wall
from edge.formats.reads import Read, WallTime
from edge.ingest.reader_clock import Source
from edge.ingest.timing import EARLIEST, FARTHEST, Stamp, Timekeeper, times_of
from edge.readers.clocks import AUTO, READER, RECEIPT, Known
from edge.tracking.stays import Quality

NOW = 1_772_439_330 * SECOND  # 2026-03-02T08:15:30Z
SOURCE = Source(1)


def keeper(newest: int = 0, offset: int | None = 0) -> Timekeeper:
    known = {} if offset is None else {SOURCE.reader_id: Known(offset, NOW - DAY)}
    return Timekeeper(newest, 7, known)


def stamp(timekeeper: Timekeeper, reader_time: int | None, received_at: int = NOW, setting: str = AUTO) -> Stamp:
    return timekeeper.stamp(SOURCE, [reader_time], received_at, setting)[0]


@pytest.mark.parametrize("reader_time", [NOW, NOW + 10 * SECOND, NOW - 7 * DAY, NOW - HOUR])
def test_a_plausible_time_is_kept(reader_time: int) -> None:
    assert stamp(keeper(), reader_time) == Stamp(reader_time, Quality.READER)


@pytest.mark.parametrize("reader_time", [None, NOW + 10 * SECOND + 1, NOW - 7 * DAY - 1, 0, -1, 2**62])
def test_an_implausible_time_is_replaced_by_the_time_of_receipt(reader_time: int | None) -> None:
    assert stamp(keeper(), reader_time) == Stamp(NOW, Quality.RECEIVED)


def test_a_time_before_2020_is_never_accepted() -> None:
    patient = Timekeeper(0, 36_500, {})
    assert stamp(patient, EARLIEST - 1).quality is Quality.RECEIVED
    assert stamp(patient, EARLIEST).quality is Quality.READER


@pytest.mark.parametrize("reader_time", [0, EARLIEST - 1, NOW + FARTHEST + 1, 2**62])
def test_an_impossible_time_does_not_change_the_offset(reader_time: int) -> None:
    timekeeper = keeper(offset=None)
    assert not timekeeper.observe(SOURCE, [reader_time], NOW)
    assert timekeeper.clock_of(SOURCE).offset is None


def test_an_offset_is_corrected_unless_small_or_the_reader_is_trusted() -> None:
    assert stamp(keeper(offset=HOUR), NOW + HOUR) == Stamp(NOW, Quality.CORRECTED)
    assert stamp(keeper(offset=2 * SECOND), NOW) == Stamp(NOW, Quality.READER)
    assert stamp(keeper(offset=-HOUR), NOW - HOUR, setting=READER) == Stamp(NOW - HOUR, Quality.READER)


def test_times_without_a_zone_are_in_the_configured_zone() -> None:
    reads = [Read("rfid", "30AA", observed_at=WallTime(NOW)), Read("rfid", "30AB", observed_at=NOW)]
    assert times_of(reads, "Europe/Berlin") == [NOW - HOUR, NOW]
    assert times_of(reads, AUTO) == times_of(reads, READER) == [None, NOW]
    assert times_of(reads, RECEIPT) == [None, None]


def test_daylight_saving_time_is_respected() -> None:
    summer = NOW + 120 * DAY
    assert of_wall(summer, "Europe/Berlin") == summer - 2 * HOUR


def test_times_are_untrusted_but_increase_while_the_box_is_behind() -> None:
    timekeeper = keeper(newest=NOW)
    box = NOW - DAY
    first = timekeeper.receive(box)
    assert not timekeeper.is_trusted
    assert not timekeeper.observe(SOURCE, [NOW - HOUR], first)
    assert stamp(timekeeper, NOW, first) == Stamp(first, Quality.UNTRUSTED)
    assert timekeeper.receive(box + SECOND) == first + SECOND >= NOW
    assert timekeeper.receive(NOW + SECOND) == NOW + SECOND
    assert timekeeper.is_trusted


def test_a_person_may_confirm_a_box_behind_a_scan_of_a_clock_that_was_ahead() -> None:
    """Regression: reads without times were recorded hours late until the clock had passed that scan."""
    confirmed = [0]
    timekeeper = Timekeeper(NOW, 7, {}, lambda later_scan: later_scan <= confirmed[0])
    box = NOW - 3 * HOUR
    assert timekeeper.receive(box) == NOW
    confirmed[0] = NOW
    assert timekeeper.receive(box + SECOND) == box + SECOND
    assert timekeeper.is_trusted
    assert stamp(timekeeper, None, box + SECOND) == Stamp(box + SECOND, Quality.RECEIVED)
    timekeeper.recorded(NOW + HOUR)
    assert timekeeper.receive(box) == NOW + HOUR, "a later scan needs its own confirmation"


def test_a_reader_slightly_ahead_does_not_make_the_box_look_behind() -> None:
    timekeeper = keeper()
    timekeeper.recorded(NOW + 9 * SECOND)
    assert timekeeper.receive(NOW) == NOW
    assert timekeeper.is_trusted


def test_a_clock_years_ahead_needs_confirmation() -> None:
    vouched = [False]
    timekeeper = Timekeeper(NOW, 7, {}, lambda _: vouched[0])
    ahead = NOW + 9 * 365 * DAY
    assert timekeeper.receive(ahead) == NOW
    assert stamp(timekeeper, None, NOW).quality is Quality.UNTRUSTED
    assert timekeeper.receive(ahead + SECOND) == NOW + SECOND
    timekeeper.recorded(NOW + SECOND)
    assert timekeeper.receive(NOW + 2 * SECOND) == NOW + 2 * SECOND  # correct again: the offset of years is gone
    assert timekeeper.is_trusted
    vouched[0] = True
    assert timekeeper.receive(ahead) == ahead


def test_jumps_of_an_untrusted_clock_change_nothing() -> None:
    timekeeper = Timekeeper(NOW, 7, {}, lambda _: False)
    moments = [0, SECOND, 40 * 365 * DAY, 90 * 365 * DAY, 90 * 365 * DAY + SECOND, 0, 2 * SECOND]
    times = [timekeeper.receive(moment) for moment in moments]
    assert times == sorted(times)
    assert times[-1] == NOW + 4 * SECOND


@pytest.mark.parametrize("ahead", [DAY, 399 * DAY])
def test_the_clock_is_trusted_after_months_without_a_scan(ahead: int) -> None:
    assert Timekeeper(NOW, 7, {}, lambda _: False).receive(NOW + ahead) == NOW + ahead


LEAP = 3_700 * SECOND  # no difference of zones


def jump(timekeeper: Timekeeper, *sources: Source) -> int:
    """Return the change of the time of receipt after readers suddenly are ahead by `LEAP`."""
    for second in range(9):
        for source in sources:
            moment = NOW + second * SECOND
            timekeeper.observe(source, [moment + (LEAP if second > 4 else 0)], timekeeper.receive(moment))
    return timekeeper.receive(NOW + 10 * SECOND) - NOW - 10 * SECOND


def test_devices_of_one_reader_do_not_change_the_time_of_the_site() -> None:
    """Regression: one reader with a wildcard could change the time of all readers by up to a year."""
    assert jump(keeper(offset=None), Source(1, "ruuvi/gw/AA"), Source(1, "ruuvi/gw/BB"), Source(1, "ruuvi/gw/CC")) == 0
    assert jump(keeper(offset=None), Source(1), Source(2)) == LEAP


def test_readers_of_one_organization_do_not_change_the_time_of_another() -> None:
    ours, theirs = [Source(number, organization_id=1) for number in (1, 2)], Source(3, organization_id=2)
    for organizations, sources, moved in ((1, ours, LEAP), (2, ours, 0), (2, [ours[0], theirs], LEAP)):
        timekeeper = keeper(offset=None)
        timekeeper.serve(organizations)
        assert jump(timekeeper, *sources) == moved
