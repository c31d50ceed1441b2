"""How far one reader's clock is ahead of the box's, found from the newest read of each message.

A message cannot tell of reads that are still to come, so its newest read, less the moment of receipt, is never more
than the clock is ahead. The highest of these differences is the clock's offset, since some messages came at once.

What is higher than the offset so far is believed at once. What is much lower (*late*) has two explanations: the message
waited in a buffer, or the clock is behind. The first late messages are therefore held back for a few seconds, until it
shows which it is:

* A message that is not late comes in between: then the others had waited.
* They catch up: their reads go on faster than time does. Then they had waited, too.
* Several stay late by the same amount, or by much the same and tell of a time that the reader told of already: the
  clock was set.
* Of a reader that was never heard before, a late message means a clock that is behind.

Where nothing more comes, what is likeliest counts after `HOLD`.

Less than `USUAL_AGE` is late only where the reader's time goes back: it tells of a time that it told of already. A
line that is slow delays messages but never turns round their order, so this hints at a clock that was set, if the
reader is one that sends at once. Of any other, and of one whose messages are farther apart than its clock was set back,
nothing tells the two apart: its reads count as they come, and two minutes that agree tell the new offset.
"""

from __future__ import annotations

from math import inf

from edge.clock import NOTICEABLE, SECOND
from edge.ingest.sample import Sample
from edge.ingest.standstill import MOST_HELD, MOST_HELD_BYTES, Standstill

TOLERANCE = SECOND  # by which the offset may be off before it is followed
USUAL_AGE = 30 * SECOND  # of the newest read of a message: gateways collect for a while before they send
PROMPT = 2 * SECOND  # of a reader that sends at once, all messages of the last minute were no older
HOLD = 10 * SECOND
ENOUGH = 5 * SECOND  # of messages that are late by the same amount
CAUGHT_UP = 60 * SECOND  # more than this in a moment, and the messages had waited
SLOWEST_BUFFER = 2  # times as fast as life; readers empty theirs as fast as they can
LONGEST_BATCH = 15 * SECOND  # by which a batch that had just begun may be older than the next one
WATCHED_FOR = 60 * SECOND
LEAST_WATCHED = 20  # messages


class ReaderClock:
    """The offset of a clock (microseconds ahead; None: not known yet), and the messages that are held back."""

    def __init__(self, offset: int | None = None, told_up_to: int = 0, stands_at: int | None = None) -> None:
        """`told_up_to`: when the newest read was made that is known of it. `stands_at`: see Standstill."""
        self.offset = offset
        self._told_up_to = told_up_to
        self.is_contested = False  # whether the box's clock may have jumped instead
        self._standstill = Standstill(stands_at)
        self._last = offset  # how far ahead the last message was that was not late
        self._held: list[Sample] = []
        self._held_bytes = 0
        self._buffered: Sample | None = None  # late messages are believed to have waited, since this one
        self._highest_late = 0  # since then
        self._minute = _Minute()
        self._age = USUAL_AGE  # of the oldest message in the last full minute
        self._in_time_from = inf if offset is None else offset - USUAL_AGE  # what is farther ahead is not late

    @property
    def correction(self) -> int:
        """What to take off the times it tells."""
        return 0 if self.offset is None or abs(self.offset) <= NOTICEABLE else self.offset

    @property
    def stands_at(self) -> int | None:
        """The time it shows if it stands still, None while it moves."""
        return self._standstill.stands_at if self._standstill.is_standing else None

    def has_stood_at(self, newest: int) -> bool:
        """Whether a message with this newest time is from a clock that stands, or stood, still."""
        return self._standstill.stands_at == newest

    def hear(self, sample: Sample, size: int, is_known: bool = False) -> bool:
        """Learn from a message of `size` bytes. Returns True if it must be held until `is_undecided` returns False.

        `is_known`: the very same message was recorded before.
        """
        if self._held:
            self.is_undecided(sample.received_at)
        if self._standstill.sees(sample, size):
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
        if self._is_plain() or len(self._held) > MOST_HELD or self._held_bytes > MOST_HELD_BYTES:
            self._decide()
        return bool(self._held)

    def restore(self, offset: int) -> None:
        """Undo what a jump of the box's clock looked like."""
        self._set(offset)
        self._release()

    def is_undecided(self, now: int) -> bool:
        """Whether messages are still to be held back; decides when it is time."""
        if self._held and not 0 <= now - self._held[0].received_at < HOLD:
            self._decide()
        return self._standstill.is_undecided(now) or bool(self._held)

    def _is_late(self, sample: Sample) -> bool:
        """When all messages come later and later, it is the box or the network that is behind, and no clock."""
        if sample.ahead >= self._in_time_from:
            return False
        if self.offset is None or self._last is None:
            return sample.ahead < -NOTICEABLE
        return sample.ahead < min(self.offset, self._last) - USUAL_AGE or self._goes_back(sample, self.offset)

    def _goes_back(self, sample: Sample, offset: int) -> bool:
        """Whether a reader that sends at once tells of a time that it told of already, or has just done so."""
        back_by = self._told_up_to - (sample.newest - offset)
        return self._age <= PROMPT and (bool(self._held) or back_by > self._age + TOLERANCE)

    def _follow(self, sample: Sample) -> None:
        """A message that came in time: those that are held back had waited."""
        if self.offset is None or sample.ahead > self.offset + TOLERANCE:
            self._set(sample.ahead)
        elif self._minute.is_over(sample):
            self._look_back(self._minute, self.offset)
        self._last = sample.ahead
        told_up_to = sample.newest - (self.offset or 0)
        if told_up_to > self._told_up_to:
            self._told_up_to = told_up_to
        self._buffered = None
        if self._held:
            self._release()

    def _look_back(self, minute: _Minute, offset: int) -> None:
        """At the end of a minute."""
        if minute.is_as_before and offset - USUAL_AGE <= minute.highest < offset - TOLERANCE:
            self.offset = offset = minute.highest
        self._age = offset - minute.lowest
        self._in_time_from = offset - min(self._age + TOLERANCE, USUAL_AGE)

    def _decide(self) -> None:
        if self._had_waited():
            self._buffered, self._highest_late = self._held[-1], self._held[-1].ahead
        else:
            self._set(max(sample.ahead for sample in self._held))
        self._release()

    def _had_waited(self) -> bool:
        if self.offset is None:
            return self._caught_up() > LONGEST_BATCH
        is_news = self._held[0].newest - self.offset >= self._told_up_to - USUAL_AGE
        return not self._is_steady(2) if is_news else len(self._held) == 1 or self._spread() > LONGEST_BATCH

    def _is_plain(self) -> bool:
        """Whether there is nothing to wait for."""
        return (self._is_steady(4) and not self.is_contested) or (len(self._held) > 2 and self._caught_up() > CAUGHT_UP)

    def _caught_up(self) -> int:
        """How much more time the reads of the held messages span than the slowest buffer would let them."""
        first, last = self._held[0], self._held[-1]
        return last.newest - first.newest - SLOWEST_BUFFER * (last.received_at - first.received_at)

    def _is_steady(self, more_than: int) -> bool:
        lasted = self._held[-1].received_at - self._held[0].received_at
        return len(self._held) > more_than and lasted >= ENOUGH and self._spread() <= NOTICEABLE

    def _spread(self) -> int:
        aheads = [sample.ahead for sample in self._held]
        return max(aheads) - min(aheads)

    def _watch_buffered(self, sample: Sample, since: Sample) -> None:
        """A buffer is empty some day. What still comes late then, and catches up no more, is a clock that was set."""
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
    """The samples of a minute: two of which the highest agree tell the offset of a clock that drifts."""

    def __init__(self) -> None:
        self.highest = self.lowest = 0
        self.is_as_before = False  # whether it agrees with the minute before; known when it is over
        self._before: int | None = None
        self._begun_at = self._count = 0

    def is_over(self, sample: Sample) -> bool:
        """Whether this sample is the last one of a minute."""
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
