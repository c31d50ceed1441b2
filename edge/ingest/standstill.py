"""Detect stopped clocks. Several messages with the same newest time are repeats, or come from a stopped clock.

Such messages are held until one of these cases applies:

* A message with another time follows: the clock runs, and they were repeats.
* At least `PROOF` of them arrive, over at least `ENOUGH`: the clock is stopped. Its time is then no longer used, and
  each read counts at its time of receipt.
* Neither happens within `HOLD`: they are processed as repeats, which changes nothing.
"""

from __future__ import annotations

from edge.clock import SECOND
from edge.ingest.sources import Sample

AT_ONCE = SECOND  # maximum time between messages of the same moment
PROOF = 3  # messages after the first
ENOUGH = 4 * SECOND
HOLD = 60 * SECOND
MOST_HELD = 1_000  # messages
MOST_HELD_BYTES = 8 * 1024 * 1024


class Standstill:
    """Newest time of one clock. `stands_at`: time at which the clock is stopped, or was stopped last."""

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
        if lasted <= AT_ONCE:
            return False
        self._count += 1
        if self._count >= PROOF and lasted >= ENOUGH:
            self.stands_at = self._newest
            self._release()
        else:
            self._hold(sample, size)
        return True

    def is_undecided(self, now: int) -> bool:
        """Return True while messages must be held."""
        if self._held_since is not None and not 0 <= now - self._held_since < HOLD:
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
