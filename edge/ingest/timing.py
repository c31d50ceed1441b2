"""When was it really? The reader's clock if it can be believed, else the moment of receipt."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from statistics import median
from typing import NamedTuple

from edge.clock import DAY, SECOND
from edge.store.stays import Quality

EARLIEST = 1_577_836_800 * SECOND  # 2020-01-01: no reader of ours is older, a reader without battery is
FUTURE = 10 * SECOND
CONSTANT_SPREAD = 2 * SECOND
NOTICEABLE = 2 * SECOND
SAMPLE_EVERY = SECOND
SAMPLES = 30
ENOUGH_SAMPLES = 10
ENOUGH_TIME = 20 * SECOND


class Stamp(NamedTuple):
    observed_at: int
    quality: Quality


class ReaderClock:
    """How far one reader's clock is ahead, learned from live messages.

    One sample a second: an offset that stays the same for a while is the clock's; the offsets of a replayed buffer
    are not constant, so they change nothing.
    """

    def __init__(self, offset: int | None = None) -> None:
        self.offset = offset
        self._samples: deque[tuple[int, int]] = deque(maxlen=SAMPLES)

    def learn(self, reader_time: int, received_at: int) -> None:
        if self._samples and 0 <= received_at - self._samples[-1][0] < SAMPLE_EVERY:
            return
        self._samples.append((received_at, reader_time - received_at))
        offsets = [offset for _, offset in self._samples]
        lasted = received_at - self._samples[0][0]
        if len(offsets) >= ENOUGH_SAMPLES and lasted >= ENOUGH_TIME and max(offsets) - min(offsets) <= CONSTANT_SPREAD:
            self.offset = round(median(offsets))

    def correction(self, message_offset: int) -> int:
        """What to take off the times of a message: nothing, unless it is off by the clock's constant offset."""
        if self.offset is None or abs(self.offset) <= NOTICEABLE:
            return 0
        return self.offset if abs(message_offset - self.offset) <= CONSTANT_SPREAD else 0


class Timekeeper:
    """The times of a site: the box's clock, held against what was recorded, and the readers' clocks."""

    def __init__(self, newest_scan: int, replay_days: int, offsets: Mapping[int, int]) -> None:
        self._newest = newest_scan
        self._replay = replay_days * DAY
        self._clocks = {reader_id: ReaderClock(offset) for reader_id, offset in offsets.items()}
        self._behind_since: int | None = None

    @property
    def is_trusted(self) -> bool:
        """False while the box's own clock is behind the newest scan in the database."""
        return self._behind_since is None

    def offset(self, reader_id: int) -> int | None:
        clock = self._clocks.get(reader_id)
        return clock.offset if clock else None

    def receive(self, box_time: int) -> int:
        """The time of receipt. While the box's clock is behind, time goes on from the newest scan instead."""
        if box_time >= self._newest - FUTURE:
            self._behind_since = None
            return box_time
        if self._behind_since is None:
            self._behind_since = box_time
        return self._newest + max(0, box_time - self._behind_since)

    def stamp(self, reader_id: int, reader_times: list[int | None], received_at: int) -> list[Stamp]:
        """The times of one message's reads."""
        known = [time for time in reader_times if time is not None]
        correction = 0
        if known and self.is_trusted:
            clock = self._clocks.get(reader_id) or self._clocks.setdefault(reader_id, ReaderClock())
            newest = max(known)
            clock.learn(newest, received_at)
            correction = clock.correction(newest - received_at)
        return [self._stamp(time, received_at, correction) for time in reader_times]

    def recorded(self, observed_at: int) -> None:
        """A scan of that time is in the database now."""
        if self.is_trusted and observed_at > self._newest:
            self._newest = observed_at

    def _stamp(self, reader_time: int | None, received_at: int, correction: int) -> Stamp:
        if not self.is_trusted:
            return Stamp(received_at, Quality.UNTRUSTED)
        if reader_time is None:
            return Stamp(received_at, Quality.RECEIVED)
        time = reader_time - correction
        if time < EARLIEST or not -self._replay <= time - received_at <= FUTURE:
            return Stamp(received_at, Quality.RECEIVED)
        return Stamp(time, Quality.CORRECTED if correction else Quality.READER)
