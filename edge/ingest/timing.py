"""The time of a read: by the reader's clock if it can be believed, else the moment of receipt."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from msgspec import Struct

from edge import clock
from edge.clock import DAY, EARLIEST, HOUR, SECOND
from edge.ingest.reader_clock import ReaderClock
from edge.ingest.reads import Read, WallTime
from edge.ingest.sample import Sample
from edge.store.reader_clocks import NOT_ZONES, READER, RECEIPT, Known
from edge.store.stays import Quality

FUTURE = 10 * SECOND
FARTHEST = 366 * DAY  # ahead: what is farther is no clock
MOST_CLOCKS = 10_000
AHEAD = 400 * DAY  # of the newest scan: the box was off for long, or its clock is wrong
# Python 3.11 takes as long to look a member of an Enum up as to call a function.
_READER, _CORRECTED, _RECEIVED = Quality.READER, Quality.CORRECTED, Quality.RECEIVED
STEP = HOUR  # a longer one between two messages, while the clock is not trusted, is a jump


class Stamp(Struct, frozen=True, gc=False):
    observed_at: int
    quality: Quality


class Source(NamedTuple):
    """Which clock it is: that of a reader, or of one of the devices that publish for a reader with a wildcard."""

    reader_id: int
    topic: str = ""


def times_of(reads: Sequence[Read], setting: str) -> list[int | None]:
    """When the reads were made by the reader's clock; None where that says nothing. `setting`: see `reader_clocks`."""
    if setting == RECEIPT:
        return [None] * len(reads)
    return [time if type(time := read.observed_at) is int else _in_zone(time, setting) for read in reads]


def _newest_of(times: Sequence[int | None]) -> int:
    """0 where no time is known."""
    newest = 0
    for time in times:  # there are few: max() of those that are known takes three times as long
        if time is not None and time > newest:
            newest = time
    return newest


def _in_zone(time: int | WallTime | None, setting: str) -> int | None:
    if not isinstance(time, WallTime):
        return time
    return None if setting in NOT_ZONES else clock.of_wall(time.micros, setting)


class Timekeeper:
    """The times of a site: the box's clock, compared with what was recorded, and the readers' clocks."""

    def __init__(
        self,
        newest_scan: int,
        replay_days: int,
        known: Mapping[int, Known],
        is_vouched: Callable[[], bool] = lambda: True,
    ) -> None:
        """`is_vouched` tells whether somebody vouches for a clock that is far ahead of the newest scan."""
        self._newest = newest_scan
        self._is_vouched = is_vouched
        self._replay = replay_days * DAY
        self._known = known
        self._clocks: dict[Source, ReaderClock] = {}
        self._untrusted_at: int | None = None  # what the clock said last, while it is not trusted
        self._since_newest = 0  # the time that has passed since then

    @property
    def is_trusted(self) -> bool:
        """False while the box's own clock is behind the newest scan, or far ahead of it with nobody to vouch for it."""
        return self._untrusted_at is None

    def offset(self, source: Source) -> int | None:
        return self._clock_of(source).offset

    def stands_at(self, source: Source) -> int | None:
        """The time that a clock shows if it stands still."""
        return self._clock_of(source).stands_at

    def receive(self, box_time: int) -> int:
        """The time of receipt. While the clock is not trusted, time goes on from the newest scan instead."""
        is_behind = box_time < self._newest - FUTURE
        is_ahead = 0 < self._newest < box_time - AHEAD and not self._is_vouched()
        if not (is_behind or is_ahead):
            self._untrusted_at = None
            return box_time
        if self._untrusted_at is None:
            self._since_newest = 0
        elif 0 < box_time - self._untrusted_at <= STEP:
            self._since_newest += box_time - self._untrusted_at
        self._untrusted_at = box_time
        return self._newest + self._since_newest

    def hear(
        self, source: Source, times: Sequence[int | None], received_at: int, size: int = 0, is_known: bool = False
    ) -> bool:
        """Learn from a message of `size` bytes how far the reader's clock is ahead.

        Returns True if the message must be held, because it is not known yet what its time is worth. `is_known`: the
        very same message was recorded before.
        """
        newest = _newest_of(times)
        if self._untrusted_at is not None or not EARLIEST <= newest <= received_at + FARTHEST:
            return False
        return self._clock_of(source).hear(Sample(received_at, newest - received_at), size, is_known)

    def is_undecided(self, source: Source, now: int) -> bool:
        """Whether messages that were held back are still to be held back."""
        return self._clock_of(source).is_undecided(now)

    def stamp(self, source: Source, times: Sequence[int | None], received_at: int, setting: str) -> list[Stamp]:
        """The times of one message's reads, by what is known of the reader's clock now."""
        if self._untrusted_at is not None:
            return [Stamp(received_at, Quality.UNTRUSTED)] * len(times)
        correction = 0
        if setting != READER:
            known = self._clock_of(source)
            if known.has_stood_at(_newest_of(times)):
                return [Stamp(received_at, _RECEIVED)] * len(times)
            correction = known.correction
        quality = _CORRECTED if correction else _READER
        earliest, latest = received_at - self._replay, received_at + FUTURE
        return [
            Stamp(time - correction, quality)
            if time is not None and time >= EARLIEST and earliest <= time - correction <= latest
            else Stamp(received_at, _RECEIVED)
            for time in times
        ]

    def recorded(self, observed_at: int) -> None:
        """A scan of that time is in the database now."""
        if self.is_trusted and observed_at > self._newest:
            self._newest = observed_at

    def _clock_of(self, source: Source) -> ReaderClock:
        found = self._clocks.get(source)
        if found is None:
            if len(self._clocks) >= MOST_CLOCKS:
                self._clocks.clear()
            known = self._known.get(source.reader_id) if not source.topic else None
            found = self._clocks[source] = ReaderClock(*known) if known else ReaderClock()
        return found
