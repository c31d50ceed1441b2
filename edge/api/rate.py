"""Token buckets, one for each credential, in memory (contract: Rate limit). A restart fills them."""

from __future__ import annotations

import math
import threading
from typing import NamedTuple

_MANY = 10_000


class Budget(NamedTuple):
    """After one request was asked for: what is left, and in how many seconds there is again one, or all of them."""

    allowed: bool
    remaining: int
    retry_after: int
    full_after: int


class Buckets:
    """Each holds `burst` requests and gets `per_second` of them back every second."""

    def __init__(self, per_second: int, burst: int) -> None:
        self._per_second = per_second
        self._burst = burst
        self._buckets: dict[str, tuple[float, float]] = {}  # what was left, and when
        self._lock = threading.Lock()
        self.untouched = Budget(True, burst, 0, 0)

    def take(self, key: str, now: float) -> Budget:
        """One request of `key` at `now`, in seconds of a clock that never goes back."""
        with self._lock:
            left, since = self._buckets.get(key, (self._burst, now))
            left = min(self._burst, left + (now - since) * self._per_second)
            allowed = left >= 1
            if allowed:
                left -= 1
            if len(self._buckets) >= _MANY and key not in self._buckets:
                self._forget_full(now)
            self._buckets[key] = (left, now)
        full_after = math.ceil((self._burst - left) / self._per_second)
        return Budget(allowed, int(left), 0 if allowed else math.ceil((1 - left) / self._per_second), full_after)

    def _forget_full(self, now: float) -> None:
        """A full bucket is as good as none."""
        self._buckets = {
            key: (left, since)
            for key, (left, since) in self._buckets.items()
            if left + (now - since) * self._per_second < self._burst
        }
