"""Estimate the offset of one reader's clock from the newest read of each message.

A message cannot contain future reads, so its newest read minus the time of receipt is never more than the offset. The
offset is the maximum of these differences, because some messages arrive without delay.

A higher difference than the current offset is accepted immediately. A much lower one (*late*) has two explanations: the
message was buffered, or the clock is behind. The first late messages are held for a few seconds until one applies:

* A message arrives that is not late: the held messages were buffered.
* The reads progress faster than real time: the messages were buffered.
* Several messages stay late by the same amount: the clock was set.
* They stay late by a similar amount and repeat a time span that was already reported: the clock was set.
* The reader is new: its clock is behind.

If no more messages arrive, the most likely explanation is used after `HOLD`.

A message late by less than `USUAL_AGE` is held only if the reader's time goes back. A slow network delays messages but
never reorders them, so a prompt reader whose time goes back has probably been set. For other readers, and for intervals
longer than the step, the cases cannot be distinguished. Their reads count as they arrive, and two consecutive minutes
that agree give the new offset.

A reader with a wildcard has many clocks; in `BySource` it can evict only its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import ItemsView, ValuesView
from math import inf
from typing import Generic, NamedTuple, TypeVar

from msgspec import Struct

from edge.clock import NOTICEABLE, SECOND

MOST = 10_000
MOST_OF_READER = 1_000
LONGEST_TOPIC = 200  # characters; devices with longer ones share the clock of their reader
TOLERANCE = SECOND  # error of the offset that is not corrected
USUAL_AGE = 30 * SECOND  # maximum age of a message's newest read: gateways collect reads before they send
PROMPT = 2 * SECOND  # a reader is prompt if no message of the last minute was older
HOLD = 10 * SECOND
ENOUGH = 5 * SECOND  # how long messages must be late by the same amount
CAUGHT_UP = 60 * SECOND  # a larger jump in a moment means that the messages were buffered
SLOWEST_BUFFER = 2  # times real time; readers empty their buffers as fast as they can
LONGEST_BATCH = 15 * SECOND  # maximum age difference of two consecutive batches
WATCHED_FOR = 60 * SECOND
LEAST_WATCHED = 20  # messages
MOST_HELD = 1_000  # messages
MOST_HELD_BYTES = 8 * 1024 * 1024


class Sample(Struct, frozen=True, gc=False):
    """Time of receipt of a message, and how far its newest read is ahead of it, in microseconds."""

    received_at: int
    ahead: int

    @property
    def newest(self) -> int:
        """Time of the newest read, by the reader's clock."""
        return self.received_at + self.ahead


class ReaderClock:
    """Offset of a clock in microseconds (positive: ahead; None: unknown), and its held messages."""

    def __init__(self, offset: int | None = None, newest_read_at: int = 0, stands_at: int | None = None) -> None:
        """Start from stored values. `newest_read_at`: time of the newest read so far. `stands_at`: see Standstill."""
        self.offset = offset
        self._newest_read_at = newest_read_at
        self.is_contested = False  # the box's clock may have jumped instead
        self._standstill = Standstill(stands_at)
        self._last = offset or 0  # difference of the last message that was not late; set with the offset
        self._held: list[Sample] = []
        self._held_bytes = 0
        self._buffered: Sample | None = None  # first of the late messages that are assumed to be buffered
        self._highest_late = 0  # maximum difference since that message
        self._minute = _Minute()
        self._age = USUAL_AGE  # age of the oldest message of the last full minute
        self._in_time_from = inf if offset is None else offset - USUAL_AGE  # minimum difference that is not late

    @property
    def correction(self) -> int:
        """Microseconds to subtract from the reader's times."""
        return 0 if self.offset is None or abs(self.offset) <= NOTICEABLE else self.offset

    @property
    def stands_at(self) -> int | None:
        """Time of a stopped clock, None for a running clock."""
        return self._standstill.stands_at if self._standstill.is_standing else None

    def has_stood_at(self, newest: int) -> bool:
        """Return True if the clock is or was stopped at this time."""
        return self._standstill.stands_at == newest

    def observe(self, sample: Sample, size: int, is_known: bool = False) -> bool:
        """Update the estimate. Returns True if the message must be held until `is_undecided` returns False.

        `size`: bytes of the message. `is_known`: an identical message was recorded before.
        """
        if self._held:
            self.is_undecided(sample.received_at)
        if self._standstill.observe(sample, size):
            if self._standstill.is_standing:
                self._release()
            return self._standstill.is_undecided(sample.received_at)
        if is_known:
            return False
        if not self._is_late(sample):
            self._follow(sample)
            return False
        if self._buffered:
            self._watch_buffered(sample, self._buffered)
            return False
        self._held.append(sample)
        self._held_bytes += size
        if self._is_conclusive() or len(self._held) > MOST_HELD or self._held_bytes > MOST_HELD_BYTES:
            self._decide()
        return bool(self._held)

    def restore(self, offset: int) -> None:
        """Reset the offset after a jump of the box's clock was mistaken for a jump of this clock."""
        self._set(offset)
        self._release()

    def is_undecided(self, now: int) -> bool:
        """Return True while messages must be held. Decides when the hold time is over."""
        if self._held and not 0 <= now - self._held[0].received_at < HOLD:
            self._decide()
        return self._standstill.is_undecided(now) or bool(self._held)

    def _is_late(self, sample: Sample) -> bool:
        """Return True for a late message. A steadily growing delay is not late: the box or the network is slow."""
        if sample.ahead >= self._in_time_from:
            return False
        if self.offset is None:
            return sample.ahead < -NOTICEABLE
        return sample.ahead < min(self.offset, self._last) - USUAL_AGE or self._goes_back(sample, self.offset)

    def _goes_back(self, sample: Sample, offset: int) -> bool:
        """Return True if a prompt reader repeats a time span that it already reported, or has just done so."""
        back_by = self._newest_read_at - (sample.newest - offset)
        return self._age <= PROMPT and (bool(self._held) or back_by > self._age + TOLERANCE)

    def _follow(self, sample: Sample) -> None:
        """Update the offset from a message that is not late. Held messages were therefore buffered."""
        if self.offset is None or sample.ahead > self.offset + TOLERANCE:
            self._set(sample.ahead)
        elif self._minute.is_over(sample):
            self._finish_minute(self._minute, self.offset)
        self._last = sample.ahead
        newest_read_at = sample.newest - (self.offset or 0)
        if newest_read_at > self._newest_read_at:
            self._newest_read_at = newest_read_at
        self._buffered = None
        if self._held:
            self._release()

    def _finish_minute(self, minute: _Minute, offset: int) -> None:
        """Follow the drift of the clock and measure how prompt the reader is, once a minute."""
        if minute.is_as_before and offset - USUAL_AGE <= minute.highest < offset - TOLERANCE:
            self.offset = offset = minute.highest
        self._age = offset - minute.lowest
        self._in_time_from = offset - min(self._age + TOLERANCE, USUAL_AGE)

    def _decide(self) -> None:
        if self._is_buffered():
            self._buffered, self._highest_late = self._held[-1], self._held[-1].ahead
        else:
            self._set(max(sample.ahead for sample in self._held))
        self._release()

    def _is_buffered(self) -> bool:
        if self.offset is None:
            return self._caught_up() > LONGEST_BATCH
        is_news = self._held[0].newest - self.offset >= self._newest_read_at - USUAL_AGE
        return not self._is_steady(2) if is_news else len(self._held) == 1 or self._spread() > LONGEST_BATCH

    def _is_conclusive(self) -> bool:
        """Return True if the held messages already allow a decision."""
        return (self._is_steady(4) and not self.is_contested) or (len(self._held) > 2 and self._caught_up() > CAUGHT_UP)

    def _caught_up(self) -> int:
        """Return by how many microseconds the held reads progressed faster than the slowest buffer."""
        first, last = self._held[0], self._held[-1]
        return last.newest - first.newest - SLOWEST_BUFFER * (last.received_at - first.received_at)

    def _is_steady(self, more_than: int) -> bool:
        lasted = self._held[-1].received_at - self._held[0].received_at
        return len(self._held) > more_than and lasted >= ENOUGH and self._spread() <= NOTICEABLE

    def _spread(self) -> int:
        aheads = [sample.ahead for sample in self._held]
        return max(aheads) - min(aheads)

    def _watch_buffered(self, sample: Sample, since: Sample) -> None:
        """Detect a clock that was set: late messages that no longer catch up do not come from a buffer."""
        self._highest_late = max(self._highest_late, sample.ahead)
        lasted = sample.received_at - since.received_at
        if 0 <= lasted < 2 * HOLD:
            return
        if sample.newest - since.newest <= lasted * 3 // 2:
            self._set(self._highest_late)
        else:
            self._buffered, self._highest_late = sample, sample.ahead

    def _set(self, offset: int) -> None:
        self.offset = self._last = offset
        self._in_time_from = offset - min(self._age + TOLERANCE, USUAL_AGE)
        self._buffered = None
        self._minute = _Minute()

    def _release(self) -> None:
        self._held, self._held_bytes = [], 0


class _Minute:
    """Range of the differences in one minute. Two minutes with the same maximum give the offset of a drifting clock."""

    def __init__(self) -> None:
        self.highest = self.lowest = 0
        self.is_as_before = False  # the maximum equals that of the previous minute; set at the end of the minute
        self._before: int | None = None
        self._begun_at = self._count = 0

    def is_over(self, sample: Sample) -> bool:
        """Add a sample. Returns True if it is the last one of the minute."""
        if not self._count:
            self._begun_at, self.highest = sample.received_at, sample.ahead
            self.lowest = self.highest
        self._count += 1
        if sample.ahead > self.highest:
            self.highest = sample.ahead
        elif sample.ahead < self.lowest:
            self.lowest = sample.ahead
        if 0 <= sample.received_at - self._begun_at < WATCHED_FOR or self._count < LEAST_WATCHED:
            return False
        self.is_as_before = self._before is not None and abs(self._before - self.highest) <= TOLERANCE
        self._before, self._count = self.highest, 0
        return True


class Standstill:
    """Detects that one clock has stopped. `stands_at`: time at which it is stopped, or was stopped last.

    Several messages with the same newest time are repeats, or come from a stopped clock. They are held until one of
    these cases applies:

    * A message with another time follows: the clock runs, and they were repeats.
    * At least `PROOF` of them arrive, over at least `ENOUGH`: the clock is stopped. Its time is then no longer used,
      and each read counts at its time of receipt.
    * Neither happens within `HOLD`: they are processed as repeats, which changes nothing.
    """

    AT_ONCE = SECOND  # maximum time between messages of the same moment
    PROOF = 3  # messages after the first
    ENOUGH = 4 * SECOND
    HOLD = 60 * SECOND

    def __init__(self, stands_at: int | None = None) -> None:
        self.stands_at = stands_at
        self._newest = stands_at
        self._since = self._count = 0
        self._held_since: int | None = None
        self._held = self._held_bytes = 0

    @property
    def is_standing(self) -> bool:
        return self.stands_at is not None and self.stands_at == self._newest

    def observe(self, sample: Sample, size: int) -> bool:
        """Note a message of `size` bytes. Returns True if its time has not changed for more than `AT_ONCE`."""
        if sample.newest != self._newest:
            self._newest, self._since, self._count = sample.newest, sample.received_at, 0
            self._release()
            return False
        if self.is_standing:
            return True
        lasted = sample.received_at - self._since
        if lasted <= self.AT_ONCE:
            return False
        self._count += 1
        if self._count >= self.PROOF and lasted >= self.ENOUGH:
            self.stands_at = self._newest
            self._release()
        else:
            self._hold(sample, size)
        return True

    def is_undecided(self, now: int) -> bool:
        """Return True while messages must be held."""
        if self._held_since is not None and not 0 <= now - self._held_since < self.HOLD:
            self._release()
        return self._held_since is not None

    def _hold(self, sample: Sample, size: int) -> None:
        if self._held_since is None:
            self._held_since = sample.received_at
        self._held += 1
        self._held_bytes += size
        if self._held > MOST_HELD or self._held_bytes > MOST_HELD_BYTES:
            self._release()

    def _release(self) -> None:
        self._held_since, self._held, self._held_bytes = None, 0, 0


class Source(NamedTuple):
    """A clock: of a reader, or of one device that publishes for a reader with a wildcard."""

    reader_id: int
    topic: str = ""
    organization_id: int = 0


Value = TypeVar("Value")


class BySource(Generic[Value]):
    """Values by source: at most MOST, and at most MOST_OF_READER of one reader."""

    def __init__(self) -> None:
        self._values: dict[Source, Value] = {}
        self._numbers: Counter[int] = Counter()  # by reader

    def get(self, source: Source) -> Value | None:
        return self._values.get(source)

    def put(self, source: Source, value: Value) -> None:
        """Store a value. At a limit, all values of this reader, or of the reader with the most values, are evicted."""
        if source not in self._values:
            if self._numbers[source.reader_id] >= MOST_OF_READER:
                self._evict(source.reader_id)
            elif len(self._values) >= MOST:
                self._evict(max(self._numbers, key=self._numbers.__getitem__))
            self._numbers[source.reader_id] += 1
        self._values[source] = value

    def values(self) -> ValuesView[Value]:
        return self._values.values()

    def items(self) -> ItemsView[Source, Value]:
        return self._values.items()

    def _evict(self, reader_id: int) -> None:
        self._values = {source: value for source, value in self._values.items() if source.reader_id != reader_id}
        del self._numbers[reader_id]
