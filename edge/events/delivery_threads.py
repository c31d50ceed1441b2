"""Threads that send everything to all receivers: events, and messages of channels.

Whoever has something to send offers a turn. Organizations take turns, and none can occupy all threads.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Hashable

from edge.database.connection import close_database
from edge.errors import EdgeError
from edge.events.fair_queue import FairQueue, Turn
from edge.events.standby_thread import UNEXPECTED_SECONDS

log = logging.getLogger(__name__)

SENDERS = 4
STOP_SECONDS = 2.0  # threads blocked by a receiver end with the process; their messages are sent again


class DeliveryThreads:
    def __init__(self, note: Callable[[str], None]) -> None:
        """Create the threads. `note` takes the faults of this program."""
        self._note = note
        self._stopping = threading.Event()
        self._turns = FairQueue(SENDERS - 1)
        self._busy: set[Hashable] = set()  # queued or being served
        self._held_until: dict[Hashable, float] = {}  # after an unexpected error
        self._threads = [threading.Thread(target=self._run, name=f"events-{n}", daemon=True) for n in range(SENDERS)]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._turns.close()
        for thread in self._threads:
            thread.join(STOP_SECONDS)

    def are_running(self) -> bool:
        return all(thread.is_alive() for thread in self._threads)

    def offer(self, turn: Turn) -> None:
        """Queue a turn, unless its receiver has one already or pauses after an unexpected error."""
        if not self.is_busy(turn.key) and time.monotonic() >= self._held_until.get(turn.key, 0):
            self._busy.add(turn.key)
            self._turns.put(turn)

    def is_busy(self, key: Hashable) -> bool:
        return key in self._busy

    def _run(self) -> None:
        while (turn := self._turns.take()) is not None:
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
                if has_more and not self._stopping.is_set():
                    self._turns.put(turn)
                else:
                    self._busy.discard(turn.key)
                self._turns.done(turn)
        close_database()
