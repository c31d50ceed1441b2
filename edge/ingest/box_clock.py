"""How far the box's own clock is ahead of the site's time, found from the readers whose clocks were known before.

A reader whose time jumps by itself was set. When several jump together, by the same amount, and no other reader says
otherwise, the box's clock was set wrong (or right again): the site's time follows the readers, and `shift` says by how
much the box is off.

* Devices of one reader with a wildcard are one witness: they share an account, and often a clock. Where several
  organizations have readers, readers of two of them must agree, since one must not set the clock of the others.
* A jump ahead cannot be a delay, so a second reader decides at once. Late messages may have waited in buffers, as after
  an outage of the broker, so one of the readers must stay late by the same amount for some seconds.
* Until that is known, messages are held for `HOLD` at most. They are held only while other readers are active.
* A box behind the newest scan contradicts history as well, so a single reader decides.
* The box's clock is believed again as soon as one message fits it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from edge.clock import HOUR, NOTICEABLE, SECOND
from edge.ingest.by_source import BySource, Source
from edge.ingest.sample import Sample

EARLY = 3 * SECOND  # ahead of the quickest message: no network does that
LATE = 30 * SECOND  # gateways collect for so long
STEADY = 4 * SECOND
STEADY_MESSAGES = 3
SPREAD = 2 * SECOND
SUDDEN = 10 * SECOND  # from one message to the next
HOLD = 10 * SECOND
ACTIVE = 60 * SECOND
GAP = 600 * SECOND  # between two messages at the box: a quiet hour, or a jump
REMEMBERED = 120 * SECOND  # a jump of one reader, until another one tells of the same


class _Jump(Struct):
    """What a reader's messages say about a jump since `began_at`; `low` and `high` are differences in microseconds."""

    began_at: int
    last_at: int
    low: int
    high: int
    count: int = 1

    @property
    def is_steady(self) -> bool:
        return self.count >= STEADY_MESSAGES and self.last_at - self.began_at >= STEADY


class _Witness(Struct):
    """`offset` is that of its clock before any jump, `difference` how far its last message was from that."""

    source: Source
    offset: int
    confirmed_from: int = 0
    confirmed_at: int | None = None
    difference: int = 0
    jump: _Jump | None = None

    @property
    def is_credible(self) -> bool:
        """Whether its offset is more than the delay of a first message."""
        lasted = 0 if self.confirmed_at is None else self.confirmed_at - self.confirmed_from
        return abs(self.offset) <= NOTICEABLE or lasted >= ACTIVE


class _Span(Struct, frozen=True):
    """Times of receipt that turned out to be wrong, and by how much."""

    began_at: int
    ended_at: int
    by: int


class BoxClock:
    """The shift of the box's clock in microseconds, and the readers that witness it. For one thread."""

    def __init__(self, known_readers: int = 0) -> None:
        """`known_readers`: how many readers had a known clock before the service started."""
        self.shift = 0
        self.organizations = 1  # that have readers
        self._is_fresh = known_readers > 1  # nobody was in time yet, though several may come
        self._witnesses: BySource[_Witness] = BySource()
        self._doubted_at: int | None = None
        self._was_doubted_at: int | None = None  # for as long as it may be; nobody has been in time since
        self._has_jumps = False
        self._last_at = 0
        self._spans: list[_Span] = []
        self._forget_spans_at = 0

    def pass_time(self, at: int) -> None:
        """Note the time of receipt of any message. A long gap, or a step back, makes the clock doubtful."""
        if self._last_at and not -EARLY <= at - self._last_at <= GAP and self._active(self._last_at):
            self._doubt(at)
        if self._spans and not at <= self._forget_spans_at <= at + HOUR:
            self._spans.clear()
        self._last_at = at

    def is_doubted(self, now: int) -> bool:
        """Return True while messages must be held, because the box's clock may be wrong."""
        if self._doubted_at is not None and not 0 <= now - self._doubted_at < HOLD:
            self._was_doubted_at, self._doubted_at = self._doubted_at, None
        return self._doubted_at is not None

    def hear(self, source: Source, sample: Sample, offset: int | None) -> int:
        """Learn from a message of a reader whose clock is `offset` ahead, None if unknown.

        Returns by how much the site's time changes: what was received at `t` was received at `t` plus that.
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
            return 0  # all messages take longer and longer: that is the network, or a busy box
        self._accuse(witness, difference, sample.received_at)
        if self._active(sample.received_at, but=witness):
            self._doubt(sample.received_at)
        agreeing = list(self._agreeing(difference))
        is_proved = difference > 0 or any(one.jump and one.jump.is_steady for one in agreeing)
        return self._move(agreeing) if is_proved and self._are_enough(agreeing) else 0

    def hear_against_history(self, sample: Sample, offset: int | None, newest_scan: int) -> int:
        """As `hear`, while the box contradicts the newest scan: a reader that goes on from there is right."""
        if offset is None or not newest_scan - LATE <= sample.newest - offset <= newest_scan + HOUR:
            return 0
        change = sample.ahead - offset
        self._shift_by(change, sample.received_at)
        return change

    def fits_box(self, sample: Sample, offset: int | None) -> bool:
        """Whether a message fits the box's own clock, which was wrong before. If so, it is believed again."""
        if not self.shift or offset is None or not -LATE <= sample.ahead - self.shift - offset <= EARLY:
            return False
        self._shift_by(self.shift, sample.received_at)
        return True

    def offset_before(self, source: Source) -> int | None:
        """The offset of a reader's clock before the jump."""
        witness = self._witnesses.get(source)
        return witness.offset if witness else None

    def recall(self, received_at: int) -> int:
        """Correct the time of receipt of a message that was held while the box's clock was doubtful."""
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
            witness.offset = offset  # it drifts
        elif jump is None or sample.received_at - jump.began_at > REMEMBERED:
            witness = _Witness(source, offset)  # it was set
            self._witnesses.put(source, witness)
        return witness

    def _confirm(self, witness: _Witness, at: int) -> None:
        self._doubted_at = self._was_doubted_at = None
        self._is_fresh = False
        witness.confirmed_from = witness.confirmed_from or at
        witness.confirmed_at = at
        if self._has_jumps:
            self._forget_jumps()

    def _forget_jumps(self) -> None:
        self._has_jumps = False
        for one in self._witnesses.values():
            one.jump = None

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
        for one in self._witnesses.values():
            if one.jump and abs(one.jump.high - difference) <= (EARLY if difference > 0 else LATE):
                yield one

    def _are_enough(self, agreeing: Sequence[_Witness]) -> bool:
        readers = {one.source.reader_id for one in agreeing}
        organizations = {one.source.organization_id for one in agreeing}
        return len(readers) > 1 and len(organizations) >= min(self.organizations, 2)

    def _active(self, at: int, but: _Witness | None = None) -> bool:
        """Whether a reader, other than this one, was in time within the last minute, or may be soon."""
        return self._is_fresh or any(
            one is not but and one.confirmed_at is not None and at - one.confirmed_at <= ACTIVE
            for one in self._witnesses.values()
        )

    def _move(self, agreeing: list[_Witness]) -> int:
        jumps = [one.jump for one in agreeing if one.jump]
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
        for one in self._witnesses.values():
            one.difference = 0
            if one.confirmed_at is not None:
                one.confirmed_at += change
                one.confirmed_from += change
