"""A limit for the requests of one caller that are answered at the same time: never all that the threads can take.

Reads are answered one after another unless they are slow (see `workers`), so only a caller whose requests are slow ever
has many at once; without a bound it would hold every thread, and nobody else would be answered, /healthz included.
"""

from __future__ import annotations

import threading

RESERVED = 2  # threads that are left to others
FILES_OF_CALLER = 2


class ConcurrencyLimit:
    def __init__(self, threads: int) -> None:
        self._most = max(1, threads - RESERVED)
        self._most_files = max(1, threads // 2)
        self._files: dict[str, int] = {}
        self._busy: dict[str, int] = {}
        self._lock = threading.Lock()

    def acquire(self, caller: str) -> bool:
        """Whether there is a slot; then `release` must follow."""
        with self._lock:
            busy = self._busy.get(caller, 0)
            if busy >= self._most:
                return False
            self._busy[caller] = busy + 1
            return True

    def release(self, caller: str) -> None:
        with self._lock:
            _count_down(self._busy, caller)

    def acquire_file(self, caller: str) -> bool:
        """Whether one more file may be sent, each by a thread of its own; then `release_file` must follow."""
        with self._lock:
            own = self._files.get(caller, 0)
            if own >= FILES_OF_CALLER or sum(self._files.values()) >= self._most_files:
                return False
            self._files[caller] = own + 1
            return True

    def release_file(self, caller: str) -> None:
        with self._lock:
            _count_down(self._files, caller)


def _count_down(counts: dict[str, int], caller: str) -> None:
    left = counts.pop(caller) - 1
    if left:
        counts[caller] = left
