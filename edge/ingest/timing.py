"""The time of a read: by the reader's clock if it can be believed, else the moment of receipt."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

from edge import clock
from edge.clock import DAY, EARLIEST, HOUR, SECOND
from edge.formats.reads import Read, WallTime
from edge.ingest.box_clock import EARLY, BoxClock
from edge.ingest.by_source import BySource, Source
from edge.ingest.reader_clock import ReaderClock
from edge.ingest.sample import Sample
from edge.readers.clocks import NOT_ZONES, READER, RECEIPT, Known
from edge.tracking.stays import Quality

FUTURE = 10 * SECOND
FARTHEST = 366 * DAY  # ahead: what is farther is no clock
AHEAD = 400 * DAY  # of the newest scan: the box was off for long, or its clock is wrong
# Python 3.11 takes as long to look a member of an Enum up as to call a function.
_READER, _CORRECTED, _RECEIVED = Quality.READER, Quality.CORRECTED, Quality.RECEIVED
STEP = HOUR  # a longer one between two messages, while the clock is not trusted, is a jump


class Stamp(Struct, frozen=True, gc=False):
    observed_at: int
    quality: Quality


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
        self._clocks: BySource[ReaderClock] = BySource()
        self._box = BoxClock(len(known))
        self._raw = 0  # the time of receipt of the last message, though it may be impossible
        self._untrusted_at: int | None = None  # what the clock said last, while it is not trusted
        self._since_newest = 0  # the time that has passed since then

    @property
    def is_trusted(self) -> bool:
        """False while the box's own clock is behind the newest scan, or far ahead of it with nobody to vouch for it."""
        return self._untrusted_at is None

    @property
    def box_ahead(self) -> int:
        """By how much the box's own clock is ahead of its readers, if they agree that it is wrong."""
        return self._box.shift

    @property
    def is_box_doubted(self) -> bool:
        """True for the seconds in which it is not known whether the box's clock or a reader's was set."""
        return self._box.is_doubted(self._raw)

    def serve(self, organizations: int) -> None:
        """Note how many organizations have readers: with several, one of them must not set the clock of all."""
        self._box.organizations = organizations

    def offset(self, source: Source) -> int | None:
        return self._clock_of(source).offset

    def stands_at(self, source: Source) -> int | None:
        """The time that a clock shows if it stands still."""
        return self._clock_of(source).stands_at

    def receive(self, box_time: int) -> int:
        """The time of receipt, less what the box's clock is off.

        While the clock is not trusted, time goes on from the newest scan instead.
        """
        self._raw = box_time = box_time - self._box.shift
        if not self._contradicts_history(box_time):
            self._untrusted_at = None
            self._box.pass_time(box_time)
            return box_time
        if self._untrusted_at is None:
            self._since_newest = 0
        elif 0 < box_time - self._untrusted_at <= STEP:
            self._since_newest += box_time - self._untrusted_at
        self._untrusted_at = box_time
        return self._newest + self._since_newest

    def time_of(self, box_time: int) -> int:
        """The site's time. Unlike `receive`, it is not counted as the next message, since older ones may be queued."""
        site_time = box_time - self._box.shift
        return self._newest + self._since_newest if self._contradicts_history(site_time) else site_time

    def _contradicts_history(self, site_time: int) -> bool:
        is_behind = site_time < self._newest - FUTURE
        return is_behind or (0 < self._newest < site_time - AHEAD and not self._is_vouched())

    def hear(
        self, source: Source, times: Sequence[int | None], received_at: int, size: int = 0, is_known: bool = False
    ) -> bool:
        """Learn from a message of `size` bytes how far the reader's clock is ahead.

        Returns True if the message must be held, because it is not known yet what its time is worth. `is_known`: the
        very same message was recorded before.
        """
        newest = _newest_of(times)
        if newest < EARLIEST:
            return bool(times) and self._untrusted_at is None and self._box.is_doubted(received_at)
        reader = self._clock_of(source)
        if not is_known:
            at = received_at if self._untrusted_at is None else self._raw
            received_at += self._hear_of_box(source, reader, Sample(at, newest - at))
        if self._untrusted_at is not None or newest > received_at + FARTHEST:
            return False
        reader.is_contested = self._box.is_doubted(received_at)
        sample = Sample(received_at, newest - received_at)
        if reader.is_contested and not is_known and reader.offset is not None and sample.ahead > reader.offset + EARLY:
            return True
        return reader.hear(sample, size, is_known)

    def recall(self, received_at: int) -> int:
        """Correct the time of receipt of a message that was held while the box's clock was doubtful."""
        return self._box.recall(received_at)

    def _hear_of_box(self, source: Source, reader: ReaderClock, sample: Sample) -> int:
        """Learn whether the box's clock was set. Returns by how much the site's time changes."""
        before = self._box.shift
        is_possible = sample.received_at + before >= self._newest - FUTURE
        if not (is_possible and self._box.fits_box(sample, reader.offset)):
            if self._untrusted_at is None:
                self._box.hear(source, sample, reader.offset)
            else:
                self._box.hear_against_history(sample, reader.offset, self._newest)
        change = before - self._box.shift
        if change:
            self._untrusted_at = None
            self._raw = sample.received_at + change
            self._newest = min(self._newest, self._raw)
            for one, known in self._clocks.items():
                if (offset := self._box.offset_before(one)) is not None:
                    known.restore(offset)
        return change

    def is_undecided(self, source: Source, now: int) -> bool:
        """Whether messages that were held back are still to be held back."""
        return self._clock_of(source).is_undecided(now) or self._box.is_doubted(now)

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
            known = self._known.get(source.reader_id) if not source.topic else None
            found = ReaderClock(*known) if known else ReaderClock()
            self._clocks.put(source, found)
        return found
