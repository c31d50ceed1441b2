"""Fair queue of destinations: organizations take turns, and none can occupy all threads.

A slow receiver may take ten seconds per event without failing. Without turns, four of them would occupy all threads,
and other organizations would receive nothing.
"""

from __future__ import annotations

import threading
from collections import Counter, deque

from edge.events.destinations import Destination


class FairQueue:
    def __init__(self, most_at_once: int) -> None:
        """Create a queue that serves at most `most_at_once` destinations of one organization at a time."""
        self._most_at_once = most_at_once
        self._waiting: dict[int, deque[Destination]] = {}  # by organization, next one first
        self._busy: Counter[int] = Counter()
        self._changed = threading.Condition()
        self._is_closed = False

    def put(self, row: Destination) -> None:
        with self._changed:
            self._waiting.setdefault(row.organization_id, deque()).append(row)
            self._changed.notify()

    def take(self) -> Destination | None:
        """Wait for the next destination; the caller must call `done`. Returns None once the queue is closed."""
        with self._changed:
            while not self._is_closed:
                row = self._next()
                if row is not None:
                    self._busy[row.organization_id] += 1
                    return row
                self._changed.wait()
            return None

    def done(self, row: Destination) -> None:
        with self._changed:
            self._busy[row.organization_id] -= 1
            self._changed.notify()

    def close(self) -> None:
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()

    def _next(self) -> Destination | None:
        for organization_id in list(self._waiting):
            if self._busy[organization_id] < self._most_at_once:
                rows = self._waiting.pop(organization_id)
                row = rows.popleft()
                if rows:
                    self._waiting[organization_id] = rows  # moved to the end of the line
                return row
        return None
