"""Estimate the error of the box's clock from readers with known clocks.

If the time of a single reader jumps, that reader was set. If several readers jump by the same amount and no other
reader disagrees, the box's clock was set. The site's time then follows the readers, and `shift` is the error of the
box.

* Devices of one reader with a wildcard are one witness: they share an account, and often a clock. With several
  organizations, readers of two of them must agree, because one must not change the time of the others.
* A jump ahead cannot be a delay, so a second reader decides immediately. Late messages may have been buffered, for
  example during an outage of the broker, so one of the readers must stay late by the same amount for some seconds.
* Until then, messages are held for at most `HOLD`, and only while other readers are active.
* If readers change by quarters of an hour and the box's clock was not set by as much, their zone has changed: all
  change to winter time together. The time since boot shows each step of the box's clock while the service runs.
* A box behind the newest scan also contradicts the history, so a single reader decides.
* The box's clock is trusted again as soon as one message agrees with it, or a person confirms it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from edge.clock import HOUR, NOTICEABLE, SECOND
from edge.ingest.reader_clock import BySource, Sample, Source

EARLY = 3 * SECOND  # ahead of the fastest message: not explained by the network
LATE = 30 * SECOND  # maximum time that gateways collect reads
STEADY = 4 * SECOND
STEADY_MESSAGES = 3
SPREAD = 2 * SECOND
SUDDEN = 10 * SECOND  # between two messages
HOLD = 10 * SECOND
ACTIVE = 60 * SECOND
GAP = 600 * SECOND  # between two messages at the box: a quiet hour, or a jump
REMEMBERED = 120 * SECOND  # how long a jump of one reader waits for a second reader
ZONE_STEP = HOUR // 4  # differences of zones are multiples of it
FARTHEST_ZONE = 26 * HOUR  # most that two zones differ


class _Jump(Struct):
    """Jump of a reader since `began_at`; `low` and `high` are the range of differences in microseconds."""

    began_at: int
    last_at: int
    low: int
    high: int
    count: int = 1

    @property
    def is_steady(self) -> bool:
        return self.count >= STEADY_MESSAGES and self.last_at - self.began_at >= STEADY


class _Witness(Struct):
    """A reader as a witness. `offset`: before any jump. `difference`: of the last message from that offset."""

    source: Source
    offset: int
    confirmed_from: int = 0
    confirmed_at: int | None = None
    difference: int = 0
    jump: _Jump | None = None
    lead: int | None = None  # of the times of receipt over the time since boot, when last confirmed

    @property
    def is_credible(self) -> bool:
        """True unless the offset may be just the delay of a first message."""
        lasted = 0 if self.confirmed_at is None else self.confirmed_at - self.confirmed_from
        return abs(self.offset) <= NOTICEABLE or lasted >= ACTIVE


class _Span(Struct, frozen=True):
    """Times of receipt that were wrong by `by` microseconds."""

    began_at: int
    ended_at: int
    by: int


class BoxClock:
    """Shift of the box's clock in microseconds, and its witnesses. Not thread-safe."""

    def __init__(self, known_readers: int = 0) -> None:
        """Start without a shift. `known_readers`: number of readers with a known clock before the service started."""
        self.shift = 0
        self.organizations = 1  # number of organizations with readers
        self._is_fresh = known_readers > 1  # no reader was in time yet, but several may follow
        self._witnesses: BySource[_Witness] = BySource()
        self._doubted_at: int | None = None
        self._was_doubted_at: int | None = None  # start of the last doubt, which expired without a reader in time
        self._has_jumps = False
        self._last_at = 0
        self._elapsed = self._lead = 0  # time since boot, and the lead of the times of receipt over it
        self._trusted_until = 0  # in time since boot
        self._spans: list[_Span] = []
        self._forget_spans_at = 0

    def pass_time(self, at: int, elapsed: int) -> None:
        """Note the time of receipt of any message. A long gap or a step back puts the clock in doubt.

        `elapsed`: microseconds since boot.
        """
        self._elapsed, self._lead = elapsed, at - elapsed
        if self._last_at and not -EARLY <= at - self._last_at <= GAP and self._is_active(self._last_at):
            self._doubt(at)
        if self._spans and not at <= self._forget_spans_at <= at + HOUR:
            self._spans.clear()
        self._last_at = at

    def is_doubted(self, now: int) -> bool:
        """Return True while messages must be held because the box's clock may be wrong."""
        if self._doubted_at is not None and not 0 <= now - self._doubted_at < HOLD:
            self._was_doubted_at, self._doubted_at = self._doubted_at, None
        return self._doubted_at is not None

    def observe(self, source: Source, sample: Sample, offset: int | None) -> int:
        """Update the estimate from a message. `offset`: of the reader's clock, None if unknown.

        Returns the change of the site's time: a message received at `t` was received at `t` plus this value.
        """
        witness = self._witness(source, sample, offset)
        if witness is None:
            return 0
        difference = sample.ahead - witness.offset
        is_sudden = abs(difference - witness.difference) >= SUDDEN
        witness.difference = difference
        if -LATE <= difference <= EARLY:
            self._confirm(witness, sample.received_at)
            return 0
        if not witness.is_credible or not (witness.jump or is_sudden or difference > 0):
            return 0  # a steadily growing delay comes from the network or a busy box
        if self._elapsed < self._trusted_until or self._is_zone(witness):
            return 0
        self._accuse(witness, difference, sample.received_at)
        if self._is_active(sample.received_at, except_for=witness):
            self._doubt(sample.received_at)
        agreeing = list(self._agreeing(difference))
        is_proved = difference > 0 or any(witness.jump and witness.jump.is_steady for witness in agreeing)
        return self._move(agreeing) if is_proved and self._has_quorum(agreeing) else 0

    def _is_zone(self, witness: _Witness) -> bool:
        """Return True if a reader changed by a difference of zones, and the box's clock was not set by as much."""
        difference = witness.difference
        beyond = (difference + LATE) % ZONE_STEP - LATE
        if beyond > EARLY or not ZONE_STEP - LATE <= abs(difference) <= FARTHEST_ZONE or witness.lead is None:
            return False
        return abs(self._lead - witness.lead + difference) > ZONE_STEP // 2

    def trust(self, at: int, elapsed: int) -> None:
        """Use the box's clock as it is, because a person has confirmed it. Readers that differ from it were set."""
        self._shift_by(self.shift, at)
        self._trusted_until = elapsed + GAP

    def observe_with_history(self, sample: Sample, offset: int | None, newest_scan: int) -> int:
        """Like `observe`, for a box that contradicts the newest scan: a reader that continues from there is right."""
        if offset is None or not newest_scan - LATE <= sample.newest - offset <= newest_scan + HOUR:
            return 0
        change = sample.ahead - offset
        self._shift_by(change, sample.received_at)
        return change

    def is_right_again(self, sample: Sample, offset: int | None) -> bool:
        """Return True if a message agrees with the box's clock, which was wrong before, and trust the clock again."""
        if not self.shift or offset is None or not -LATE <= sample.ahead - self.shift - offset <= EARLY:
            return False
        self._shift_by(self.shift, sample.received_at)
        return True

    def offset_before(self, source: Source) -> int | None:
        """Return the offset of a reader's clock before the jump, None if unknown."""
        witness = self._witnesses.get(source)
        return witness.offset if witness else None

    def recall(self, received_at: int) -> int:
        """Return the corrected time of receipt of a message that was held while the box's clock was in doubt."""
        for span in self._spans:
            if span.began_at <= received_at <= span.ended_at:
                return received_at + span.by
        return received_at

    def _witness(self, source: Source, sample: Sample, offset: int | None) -> _Witness | None:
        if offset is None:
            return None
        witness = self._witnesses.get(source)
        if witness is None:
            witness = _Witness(source, offset)
            self._witnesses.put(source, witness)
        jump = witness.jump
        if abs(offset - witness.offset) <= EARLY:
            witness.offset = offset  # drift
        elif jump is None or sample.received_at - jump.began_at > REMEMBERED:
            witness = _Witness(source, offset)  # the reader was set
            self._witnesses.put(source, witness)
        return witness

    def _confirm(self, witness: _Witness, at: int) -> None:
        self._doubted_at = self._was_doubted_at = None
        self._is_fresh = False
        witness.confirmed_from = witness.confirmed_from or at
        witness.confirmed_at, witness.lead = at, self._lead
        if self._has_jumps:
            self._forget_jumps()

    def _forget_jumps(self) -> None:
        self._has_jumps = False
        for witness in self._witnesses.values():
            witness.jump = None

    def _doubt(self, at: int) -> None:
        was = self._was_doubted_at
        if self._doubted_at is None and (was is None or not 0 <= at - was <= REMEMBERED):
            self._doubted_at = at

    def _accuse(self, witness: _Witness, difference: int, at: int) -> None:
        jump, self._has_jumps = witness.jump, True
        if jump is None or max(jump.high, difference) - min(jump.low, difference) > SPREAD:
            witness.jump = _Jump(at, at, difference, difference)
            return
        jump.low, jump.high = min(jump.low, difference), max(jump.high, difference)
        jump.last_at, jump.count = at, jump.count + 1

    def _agreeing(self, difference: int) -> Iterator[_Witness]:
        for witness in self._witnesses.values():
            if witness.jump and abs(witness.jump.high - difference) <= (EARLY if difference > 0 else LATE):
                yield witness

    def _has_quorum(self, agreeing: Sequence[_Witness]) -> bool:
        readers = {witness.source.reader_id for witness in agreeing}
        organizations = {witness.source.organization_id for witness in agreeing}
        return len(readers) > 1 and len(organizations) >= min(self.organizations, 2)

    def _is_active(self, at: int, except_for: _Witness | None = None) -> bool:
        """Return True if another reader was in time within the last minute, or may be soon."""
        return self._is_fresh or any(
            witness is not except_for and witness.confirmed_at is not None and at - witness.confirmed_at <= ACTIVE
            for witness in self._witnesses.values()
        )

    def _move(self, agreeing: list[_Witness]) -> int:
        jumps = [witness.jump for witness in agreeing if witness.jump]
        change = max(jump.high for jump in jumps)
        self._shift_by(change, max(jump.last_at for jump in jumps), min(jump.began_at for jump in jumps))
        return change

    def _shift_by(self, change: int, at: int, began_at: int | None = None) -> None:
        began_at = at if began_at is None else began_at
        if self._doubted_at is not None:
            began_at = min(began_at, self._doubted_at)
        self._spans = [*self._spans[-7:], _Span(began_at, at, change)]
        self._forget_spans_at = at + change + 2 * HOLD
        self.shift -= change
        if abs(self.shift) <= EARLY:
            self.shift = 0
        self._doubted_at, self._was_doubted_at, self._last_at = None, None, 0
        self._forget_jumps()
        for witness in self._witnesses.values():
            witness.difference = 0
            if witness.confirmed_at is not None:
                witness.confirmed_at += change
                witness.confirmed_from += change
