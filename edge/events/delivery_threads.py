"""Threads that send everything to all receivers: events, and messages of channels.

Whoever has something to send offers a turn. Organizations take turns, and none can occupy all threads: a slow receiver
may take ten seconds per event without failing.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Hashable
from itertools import count
from typing import NamedTuple

from edge.database.connection import close_database
from edge.errors import EdgeError
from edge.events.standby_thread import UNEXPECTED_SECONDS

log = logging.getLogger(__name__)

SENDERS = 4
MOST_AT_ONCE = SENDERS - 1  # of one organization
STOP_SECONDS = 2.0  # threads blocked by a receiver end with the process; their messages are sent again


class Turn(NamedTuple):
    """A turn of one receiver, which `key` identifies. `serve` returns True if it needs another turn."""

    organization_id: int
    key: Hashable
    name: str
    serve: Callable[[], bool]


class DeliveryThreads:
    def __init__(self, note: Callable[[str], None]) -> None:
        """Create the threads. `note` takes the faults of this program."""
        self._note = note
        self._is_stopping = False
        self._changed = threading.Condition()
        self._waiting: list[Turn] = []
        self._running = Counter[int]()  # turns, by organization
        self._served_at = Counter[int]()  # number of its last turn, by organization
        self._numbers = count(1)
        self._busy: set[Hashable] = set()  # queued or being served
        self._held_until: dict[Hashable, float] = {}  # after an unexpected error
        self._threads = [threading.Thread(target=self._run, name=f"events-{n}", daemon=True) for n in range(SENDERS)]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        with self._changed:
            self._is_stopping = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join(STOP_SECONDS)

    def are_running(self) -> bool:
        return all(thread.is_alive() for thread in self._threads)

    def offer(self, turn: Turn) -> None:
        """Queue a turn, unless its receiver has one already or pauses after an unexpected error."""
        if not self.is_busy(turn.key) and time.monotonic() >= self._held_until.get(turn.key, 0):
            self._busy.add(turn.key)
            self._put(turn)

    def is_busy(self, key: Hashable) -> bool:
        return key in self._busy

    def take(self) -> Turn | None:
        """Wait for a turn of the organization that had none for longest; `done` ends it. Returns None after `stop`."""
        with self._changed:
            while not self._is_stopping:
                free = [one for one in self._waiting if self._running[one.organization_id] < MOST_AT_ONCE]
                if free:
                    turn = min(free, key=lambda one: self._served_at[one.organization_id])
                    self._waiting.remove(turn)
                    self._running[turn.organization_id] += 1
                    self._served_at[turn.organization_id] = next(self._numbers)
                    return turn
                self._changed.wait()
            return None

    def done(self, turn: Turn) -> None:
        with self._changed:
            self._running[turn.organization_id] -= 1
            self._changed.notify()

    def _put(self, turn: Turn) -> None:
        with self._changed:
            self._waiting.append(turn)
            self._changed.notify()

    def _run(self) -> None:
        while (turn := self.take()) is not None:
            has_more = False
            try:
                has_more = turn.serve()
            except EdgeError as error:
                self._note(str(error))
                self._held_until[turn.key] = time.monotonic() + UNEXPECTED_SECONDS / 10
            except Exception:
                log.exception("A delivery to %s failed unexpectedly; trying again in a minute", turn.name)
                self._held_until[turn.key] = time.monotonic() + UNEXPECTED_SECONDS
            finally:
                if has_more:
                    self._put(turn)
                else:
                    self._busy.discard(turn.key)
                self.done(turn)
        close_database()
