"""The threads that answer requests: a leader/followers pool, used by waitress instead of its own.

Python runs one thread at a time. A thread that reads from SQLite releases the interpreter at every step, and each time
a waiting thread is woken on another core, mostly for nothing; that costs more than the step itself. So one worker is
the leader and takes request after request while the others sleep. It promotes another one before a request that
writes, since that waits for the disk and can share its commit, and is replaced when a request takes so long that
others wait.

A caller never has all threads: beyond a number its requests wait for its own, while others are answered. So a client
with many connections is served as fast as the box can, and not refused within its stated rate.

Probes (/healthz) have a thread of their own: whoever watches the service is answered while all others are slow.

Decision record: web/manual/decisions/workers.md
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter, deque
from typing import Any

from edge.limits import RESERVED

MAX_LEAD_SECONDS = 0.005
PROBE = "/healthz"
_READS = ("GET", "HEAD", "OPTIONS")

log = logging.getLogger(__name__)

Worker = threading.Condition  # what it sleeps on


class Workers:
    """A task dispatcher for waitress. A task is a connection with at least one request that was read in full."""

    def __init__(self, count: int) -> None:
        self._lock = threading.Lock()
        self._tasks: deque[Any] = deque()
        self._most_of_caller = max(1, count - RESERVED)
        self._busy: Counter[str] = Counter()  # requests that are being answered, by caller
        self._held: dict[str, deque[Any]] = {}  # tasks of callers that have as many as they may
        self._idle: list[Worker] = []  # the one that worked last is woken first: its connection and caches are warm
        self._leader: Worker | None = None
        self._probes: deque[Any] = deque()
        self._prober = Worker(self._lock)
        self._begun_at = time.monotonic()  # when the last request was begun
        self._monitor = Worker(self._lock)
        self._is_stopping = threading.Event()
        self._threads = [threading.Thread(target=self._work, name=f"http-{n}", daemon=True) for n in range(count)]
        self._threads.append(threading.Thread(target=self._watch_leader, name="http-monitor", daemon=True))
        self._threads.append(threading.Thread(target=self._probe, name="http-probes", daemon=True))
        for thread in self._threads:
            thread.start()

    def add_task(self, task: Any) -> None:
        with self._lock:
            if _path(task) == PROBE:
                self._probes.append(task)
                self._prober.notify()
                return
            if not self._tasks:
                self._begun_at = time.monotonic()
            self._tasks.append(task)
            if self._leader is None:
                self._promote()
            else:
                self._monitor.notify()

    def shutdown(self, cancel_pending: bool = True, timeout: float = 5) -> None:
        """Nobody begins another request; those that are being answered get `timeout` seconds."""
        with self._lock:
            self._is_stopping.set()
            for sleeping in (*self._idle, self._monitor, self._prober):
                sleeping.notify()
        deadline = time.monotonic() + timeout
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        with self._lock:
            for waiting in (self._tasks, self._probes, *self._held.values()):
                while cancel_pending and waiting:
                    waiting.popleft().cancel()

    def stuck_seconds(self) -> float:
        """How long requests have waited while no thread began one."""
        with self._lock:
            return time.monotonic() - self._begun_at if self._tasks else 0.0

    def _work(self) -> None:
        worker = Worker(self._lock)
        while task := self._next(worker):
            caller = _caller(task)  # before it is served: afterwards the request is gone
            _serve(task)
            self._finish(caller)

    def _finish(self, caller: str) -> None:
        """Let the next request of the caller go on, if it has one waiting."""
        with self._lock:
            self._busy[caller] -= 1
            if not self._busy[caller]:
                del self._busy[caller]
            held = self._held.get(caller)
            if not held:
                return
            self._tasks.appendleft(held.popleft())
            if not held:
                del self._held[caller]
            if self._leader is None:
                self._promote()

    def _probe(self) -> None:
        while True:
            with self._lock:
                while not self._probes and not self._is_stopping.is_set():
                    self._prober.wait()
                if self._is_stopping.is_set():
                    return
                task = self._probes.popleft()
            _serve(task)

    def _next(self, worker: Worker) -> Any:
        """Waits to be the leader and for a task; None is the end."""
        with self._lock:
            while not self._is_stopping.is_set():
                if self._leader in (None, worker) and (task := self._take()):
                    self._leader = worker
                    self._begun_at = time.monotonic()
                    if _writes(task):
                        self._promote()
                    return task
                if self._leader is worker:
                    self._leader = None
                self._idle.append(worker)
                worker.wait()
            return None

    def _take(self) -> Any:
        """Return the first task whose caller may have one more; the tasks before it wait for their caller's own."""
        while self._tasks:
            task = self._tasks.popleft()
            caller = _caller(task)
            if not caller or self._busy[caller] < self._most_of_caller:
                self._busy[caller] += 1
                return task
            self._held.setdefault(caller, deque()).append(task)
        return None

    def _promote(self) -> None:
        """An idle worker becomes the leader if there is something to do, else the first that asks."""
        self._leader = self._idle.pop() if self._tasks and self._idle else None
        if self._leader:
            self._leader.notify()

    def _watch_leader(self) -> None:
        """While tasks wait: when the first of them is still the first after a while, another worker is promoted."""
        while True:
            with self._lock:
                while not self._tasks and not self._is_stopping.is_set():
                    self._monitor.wait()
                first = self._tasks[0] if self._tasks else None
            if self._is_stopping.wait(MAX_LEAD_SECONDS):
                return
            with self._lock:
                if self._tasks and self._tasks[0] is first:
                    self._promote()


def _serve(task: Any) -> None:
    try:
        task.service()
    except Exception:
        log.exception("A connection failed outside the application")


def _caller(task: Any) -> str:
    """Return the credential that a request carries; "" without one, when it counts as nobody's."""
    headers: dict[str, str] = getattr(task.requests[0], "headers", {})
    return headers.get("AUTHORIZATION") or headers.get("COOKIE", "")


def _path(task: Any) -> str:
    path: str = getattr(task.requests[0], "path", "")
    return path


def _writes(task: Any) -> bool:
    return getattr(task.requests[0], "command", "GET") not in _READS
