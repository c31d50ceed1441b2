"""Turns of slow statements: those of one organization together take at most one processor.

SQLite works without the interpreter lock, so several slow searches of one organization would occupy all processors of a
small box. Each of them sleeps as long as the others of its organization work.
"""

from __future__ import annotations

import threading
import time

GONE_SECONDS = 0.5  # without a step, a statement has ended
LONGEST_STEP = 0.05  # seconds; the thread has done something else in between


class SlowStatements:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._steps: dict[int, dict[int, float]] = {}  # time of the last step, by organization and thread

    def pace(self, organization_id: int, step: float) -> None:
        """Sleep for the others of the organization. Call after each step of a statement, with its duration."""
        others = self._count_others(organization_id)
        if others:
            time.sleep(min(step, LONGEST_STEP) * others)

    def _count_others(self, organization_id: int) -> int:
        now, own = time.monotonic(), threading.get_ident()
        with self._lock:
            steps = self._steps.setdefault(organization_id, {})
            steps[own] = now
            for thread in [thread for thread, at in steps.items() if at < now - GONE_SECONDS]:
                del steps[thread]
            return len(steps) - 1
