"""Fair queue of turns of receivers: organizations take turns, and none can occupy all threads.

A slow receiver may take ten seconds per event without failing. Without turns, four of them would occupy all threads,
and other organizations would receive nothing.
"""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Callable, Hashable
from typing import NamedTuple


class Turn(NamedTuple):
    """A turn of one receiver, which `key` identifies. `serve` returns True if it needs another turn."""

    organization_id: int
    key: Hashable
    name: str
    serve: Callable[[], bool]


class FairQueue:
    def __init__(self, most_at_once: int) -> None:
        """Create a queue that serves at most `most_at_once` receivers of one organization at a time."""
        self._most_at_once = most_at_once
        self._waiting: dict[int, deque[Turn]] = {}  # by organization, next one first
        self._busy: Counter[int] = Counter()
        self._changed = threading.Condition()
        self._is_closed = False

    def put(self, turn: Turn) -> None:
        with self._changed:
            self._waiting.setdefault(turn.organization_id, deque()).append(turn)
            self._changed.notify()

    def take(self) -> Turn | None:
        """Wait for the next turn; the caller must call `done`. Returns None once the queue is closed."""
        with self._changed:
            while not self._is_closed:
                turn = self._next()
                if turn is not None:
                    self._busy[turn.organization_id] += 1
                    return turn
                self._changed.wait()
            return None

    def done(self, turn: Turn) -> None:
        with self._changed:
            self._busy[turn.organization_id] -= 1
            self._changed.notify()

    def close(self) -> None:
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()

    def _next(self) -> Turn | None:
        for organization_id in list(self._waiting):
            if self._busy[organization_id] < self._most_at_once:
                turns = self._waiting.pop(organization_id)
                turn = turns.popleft()
                if turns:
                    self._waiting[organization_id] = turns  # moved to the end of the line
                return turn
        return None
