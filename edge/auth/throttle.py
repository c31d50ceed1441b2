"""How often somebody may be wrong: a bucket of attempts that fills up again with time."""

from __future__ import annotations

import math
import threading

from edge import clock

_MAX_KEYS = 10_000


class Throttle:
    """`burst` wrong attempts at once, then one more every `seconds_each`. Kept in memory: a restart forgives."""

    def __init__(self, burst: int, seconds_each: int) -> None:
        self._burst = burst
        self._each = seconds_each * clock.SECOND
        self._empty_until: dict[str, int] = {}  # when the last of the counted attempts will be forgiven
        self._lock = threading.Lock()

    def wait_seconds(self, key: str) -> int:
        """0 when an attempt may be made now."""
        with self._lock:
            over = self._empty_until.get(key, 0) - clock.now() - (self._burst - 1) * self._each
        return math.ceil(over / clock.SECOND) if over > 0 else 0

    def count(self, key: str) -> None:
        moment = clock.now()
        with self._lock:
            if len(self._empty_until) >= _MAX_KEYS:
                self._empty_until = {name: until for name, until in self._empty_until.items() if until > moment}
            if len(self._empty_until) >= _MAX_KEYS:  # all of them busy: forgive those nearest to forgiveness
                oldest = sorted(self._empty_until, key=self._empty_until.__getitem__)[: _MAX_KEYS // 10]
                for name in oldest:
                    del self._empty_until[name]
            self._empty_until[key] = max(self._empty_until.get(key, 0), moment) + self._each

    def forget(self, key: str) -> None:
        with self._lock:
            self._empty_until.pop(key, None)
