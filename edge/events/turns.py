"""Whose turn it is: destinations that wait for a thread, each organization in turn, and none with all threads.

A receiver may take ten seconds for each event and never fail. Without turns, four of them keep all threads for as long
as their events come faster than that, and no other organization's destination receives anything.
"""

from __future__ import annotations

import threading
from collections import Counter, deque

from edge.events.destinations import Destination


class Turns:
    def __init__(self, most_at_once: int) -> None:
        """`most_at_once`: destinations of one organization that are served at the same time."""
        self._most_at_once = most_at_once
        self._waiting: dict[int, deque[Destination]] = {}  # by organization, in the order of their turns
        self._busy: Counter[int] = Counter()
        self._changed = threading.Condition()
        self._is_closed = False

    def put(self, row: Destination) -> None:
        with self._changed:
            self._waiting.setdefault(row.organization_id, deque()).append(row)
            self._changed.notify()

    def take(self) -> Destination | None:
        """Wait for the next destination; `done` must follow. None once it is closed."""
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
                    self._waiting[organization_id] = rows  # at the end: the others are first now
                return row
        return None
