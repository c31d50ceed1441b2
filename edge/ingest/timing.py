"""Choose the time of a read: from the reader's clock if it is plausible, otherwise the time of receipt."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

from edge import clock
from edge.clock import DAY, EARLIEST, HOUR, SECOND
from edge.formats.reads import Read, WallTime
from edge.ingest.box_clock import EARLY, BoxClock
from edge.ingest.reader_clock import BySource, ReaderClock, Sample, Source
from edge.readers.clocks import NOT_ZONES, READER, RECEIPT, Known
from edge.tracking.stays import Quality

FUTURE = 10 * SECOND
FARTHEST = 366 * DAY  # offsets beyond a year are treated as garbage, not as a clock
AHEAD = 400 * DAY  # after the newest scan: the box was off for a long time, or its clock is wrong
# Enum members as globals: in Python 3.11 an Enum lookup costs as much as a function call.
_READER, _CORRECTED, _RECEIVED = Quality.READER, Quality.CORRECTED, Quality.RECEIVED
STEP = HOUR  # a longer interval between two messages counts as a jump while the clock is not trusted


class Stamp(Struct, frozen=True, gc=False):
    """Time of a read in microseconds since the epoch, and its source."""

    observed_at: int
    quality: Quality


def times_of(reads: Sequence[Read], setting: str) -> list[int | None]:
    """Return the times of the reads by the reader's clock, None if unknown. `setting`: see `edge.readers.clocks`."""
    if setting == RECEIPT:
        return [None] * len(reads)
    return [time if type(time := read.observed_at) is int else _in_zone(time, setting) for read in reads]


def newest_of(times: Sequence[int | None]) -> int:
    """Return the newest time, 0 if none is known."""
    newest = 0
    for time in times:  # max() takes three times as long for few values
        if time is not None and time > newest:
            newest = time
    return newest


def _in_zone(time: int | WallTime | None, setting: str) -> int | None:
    if not isinstance(time, WallTime):
        return time
    return None if setting in NOT_ZONES else clock.of_wall(time.micros, setting)


class Timekeeper:
    """Times of a site: the box's clock, checked against the recorded scans, and the readers' clocks."""

    def __init__(
        self,
        newest_scan: int,
        replay_days: int,
        known: Mapping[int, Known],
        is_vouched: Callable[[int], bool] = lambda later_scan: not later_scan,
        confirmed_at: Callable[[], int] = lambda: 0,
    ) -> None:
        """Start from stored values.

        `newest_scan`: microseconds since the epoch. `known`: clocks by reader ID. `is_vouched`: returns True if NTP or
        an administrator confirms a clock that is far ahead of the newest scan (0), or behind this one.
        `confirmed_at`: returns when an administrator last confirmed it, by that clock.
        """
        self._newest = newest_scan
        self._is_vouched = is_vouched
        self._replay = replay_days * DAY
        self._known = known
        self._clocks: BySource[ReaderClock] = BySource()
        self._box = BoxClock(len(known))
        self._confirmed_at = confirmed_at
        # `confirmed_at` at the begin of the transaction, and when the box's clock was last found to be wrong.
        self._confirmed_now = self._confirmed_before = 0
        self._raw = 0  # time of receipt of the last message, even if it is impossible
        self._untrusted_at: int | None = None  # last time of the clock while it is not trusted
        self._since_newest = 0  # time that has passed since the newest scan, while the clock is not trusted

    @property
    def is_trusted(self) -> bool:
        """False while the box's clock is behind the newest scan, or far ahead of it and unconfirmed."""
        return self._untrusted_at is None

    @property
    def box_ahead(self) -> int:
        """Microseconds by which the box's clock is ahead, 0 unless the readers agree that it is wrong."""
        return self._box.shift

    @property
    def is_box_doubted(self) -> bool:
        """True while it is undecided whether the box's clock or a reader's clock was set."""
        return self._box.is_doubted(self._raw)

    def serve(self, organizations: int) -> None:
        """Begin a transaction, with the number of organizations that have readers.

        With several, no single one may change the time of all.
        """
        self._box.organizations = organizations
        if self._box.shift:
            self._confirmed_now = self._confirmed_at()

    def receive(self, box_time: int) -> int:
        """Return the time of receipt, corrected by the error of the box's clock.

        While the clock is not trusted, time continues from the newest scan instead.
        """
        if self._box.shift and self._confirmed_now != self._confirmed_before:
            self._box.trust(box_time, clock.elapsed())
        self._raw = box_time = box_time - self._box.shift
        if not self._contradicts_history(box_time):
            self._untrusted_at = None
            self._box.pass_time(box_time, clock.elapsed())
            return box_time
        if self._untrusted_at is None:
            self._since_newest = 0
        elif 0 < box_time - self._untrusted_at <= STEP:
            self._since_newest += box_time - self._untrusted_at
        self._untrusted_at = box_time
        return self._newest + self._since_newest

    def time_of(self, box_time: int) -> int:
        """Return the site's time. Unlike `receive`, changes no state, because older messages may still be queued."""
        site_time = box_time - self._box.shift
        return self._newest + self._since_newest if self._contradicts_history(site_time) else site_time

    def _contradicts_history(self, site_time: int) -> bool:
        if site_time < self._newest - FUTURE:
            return not self._is_vouched(self._newest)
        return 0 < self._newest < site_time - AHEAD and not self._is_vouched(0)

    def observe(
        self, source: Source, times: Sequence[int | None], received_at: int, size: int = 0, is_known: bool = False
    ) -> bool:
        """Update the offset of a reader's clock. Returns True if the message must be held until its time is decided.

        `times`: of its reads, by the reader's clock. `size`: in bytes. `is_known`: an identical message was recorded
        before.
        """
        newest = newest_of(times)
        if newest < EARLIEST:
            return bool(times) and self._untrusted_at is None and self._box.is_doubted(received_at)
        reader = self.clock_of(source)
        if not is_known:
            at = received_at if self._untrusted_at is None else self._raw
            received_at += self._observe_box(source, reader, Sample(at, newest - at))
        if self._untrusted_at is not None or newest > received_at + FARTHEST:
            return False
        reader.is_contested = self._box.is_doubted(received_at)
        sample = Sample(received_at, newest - received_at)
        if reader.is_contested and not is_known and reader.offset is not None and sample.ahead > reader.offset + EARLY:
            return True
        return reader.observe(sample, size, is_known)

    def recall(self, received_at: int) -> int:
        """Return the corrected time of receipt of a message that was held while the box's clock was in doubt."""
        return self._box.recall(received_at)

    def _observe_box(self, source: Source, reader: ReaderClock, sample: Sample) -> int:
        """Update the estimate of the box's clock. Returns the change of the site's time in microseconds."""
        before = self._box.shift
        is_possible = sample.received_at + before >= self._newest - FUTURE
        if not (is_possible and self._box.is_right_again(sample, reader.offset)):
            if self._untrusted_at is None:
                self._box.observe(source, sample, reader.offset)
            else:
                self._box.observe_with_history(sample, reader.offset, self._newest)
        change = before - self._box.shift
        if change:
            self._confirmed_now = self._confirmed_before = self._confirmed_at()
            self._untrusted_at = None
            self._raw = sample.received_at + change
            self._newest = min(self._newest, self._raw)
            for other, other_clock in self._clocks.items():
                if (offset := self._box.offset_before(other)) is not None:
                    other_clock.restore(offset)
        return change

    def is_undecided(self, source: Source, now: int) -> bool:
        """Return True while the messages of this clock must be held."""
        return self.clock_of(source).is_undecided(now) or self._box.is_doubted(now)

    def stamp(self, source: Source, times: Sequence[int | None], received_at: int, setting: str) -> list[Stamp]:
        """Return the times of the reads of one message, by the current estimate of the reader's clock."""
        if self._untrusted_at is not None:
            return [Stamp(received_at, Quality.UNTRUSTED)] * len(times)
        correction = 0
        if setting != READER:
            known = self.clock_of(source)
            if known.has_stood_at(newest_of(times)):
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
        """Note the time of a recorded scan."""
        if self.is_trusted and observed_at > self._newest:
            self._newest = observed_at

    def clock_of(self, source: Source) -> ReaderClock:
        """Return the estimate of a clock."""
        reader_clock = self._clocks.get(source)
        if reader_clock is None:
            known = self._known.get(source.reader_id) if not source.topic else None
            reader_clock = ReaderClock(*known) if known else ReaderClock()
            self._clocks.put(source, reader_clock)
        return reader_clock
