"""The threads that answer requests, and whose turn it is.

Python runs one thread at a time. A thread that reads from SQLite lets go of the interpreter at every step, and each
time one of those that wait for it is woken on another core, mostly for nothing; that costs more than the step. So one
worker has the turn, and takes request after request while the others sleep. It gives the turn up for a request that
writes, since that waits for the disk and can share its commit, and loses it when one takes so long that others wait.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from typing import Any

PATIENCE_SECONDS = 0.005
_READS = ("GET", "HEAD", "OPTIONS")

log = logging.getLogger(__name__)

Worker = threading.Condition  # what it sleeps on


class Workers:
    """A task dispatcher for waitress. A task is a connection with at least one request that was read in full."""

    def __init__(self, count: int) -> None:
        self._lock = threading.Lock()
        self._tasks: deque[Any] = deque()
        self._idle: list[Worker] = []  # the one that worked last is woken first: its connection and caches are warm
        self._turn: Worker | None = None
        self._overseer = Worker(self._lock)
        self._is_stopping = threading.Event()
        self._threads = [threading.Thread(target=self._work, name=f"http-{n}", daemon=True) for n in range(count)]
        self._threads.append(threading.Thread(target=self._oversee, name="http-overseer", daemon=True))
        for thread in self._threads:
            thread.start()

    def add_task(self, task: Any) -> None:
        with self._lock:
            self._tasks.append(task)
            if self._turn is None:
                self._hand_on()
            else:
                self._overseer.notify()

    def shutdown(self, cancel_pending: bool = True, timeout: float = 5) -> None:
        """Nobody begins another request; those that are being answered get `timeout` seconds."""
        with self._lock:
            self._is_stopping.set()
            for sleeping in (*self._idle, self._overseer):
                sleeping.notify()
        deadline = time.monotonic() + timeout
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        with self._lock:
            while cancel_pending and self._tasks:
                self._tasks.popleft().cancel()

    def _work(self) -> None:
        me = Worker(self._lock)
        while task := self._next(me):
            try:
                task.service()
            except Exception:
                log.exception("A connection failed outside the application")

    def _next(self, me: Worker) -> Any:
        """Waits for the turn and a task; None is the end."""
        with self._lock:
            while not self._is_stopping.is_set():
                if self._tasks and self._turn in (None, me):
                    task = self._tasks.popleft()
                    self._turn = me
                    if _writes(task):
                        self._hand_on()
                    return task
                if self._turn is me:
                    self._turn = None
                self._idle.append(me)
                me.wait()
            return None

    def _hand_on(self) -> None:
        """The turn goes to an idle worker if there is something to do, else to the first that asks."""
        self._turn = self._idle.pop() if self._tasks and self._idle else None
        if self._turn:
            self._turn.notify()

    def _oversee(self) -> None:
        """While tasks wait: when the first of them is still the first after a while, the turn is handed on."""
        while True:
            with self._lock:
                while not self._tasks and not self._is_stopping.is_set():
                    self._overseer.wait()
                first = self._tasks[0] if self._tasks else None
            if self._is_stopping.wait(PATIENCE_SECONDS):
                return
            with self._lock:
                if self._tasks and self._tasks[0] is first:
                    self._hand_on()


def _writes(task: Any) -> bool:
    return getattr(task.requests[0], "command", "GET") not in _READS
