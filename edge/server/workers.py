"""Worker threads for requests: a leader/followers pool that replaces waitress's own.

Python runs one thread at a time. A thread that reads from SQLite releases the interpreter lock at each step, which
wakes a waiting thread on another core, usually for nothing, at more cost than the step. Therefore one worker, the
leader, handles all requests in turn while the others sleep. It promotes another worker before a write, which waits for
the disk and can share a commit. A monitor promotes another one if a request is slow and others wait.

A caller never occupies all threads: further requests of the same caller wait while others are handled.

Probes (/healthz) have their own thread, so monitoring works while all other requests are slow.

Decision record: web/manual/decisions/workers.md
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter, deque
from typing import Any

from edge.rate_limits import RESERVED

MAX_LEAD_SECONDS = 0.005
PROBE = "/healthz"
_READS = ("GET", "HEAD", "OPTIONS")

log = logging.getLogger(__name__)

Worker = threading.Condition  # a worker is represented by the condition that it waits on


class Workers:
    """Task dispatcher for waitress. A task is a connection with at least one complete request."""

    def __init__(self, count: int) -> None:
        self._lock = threading.Lock()
        self._tasks: deque[Any] = deque()
        self._most_of_caller = max(1, count - RESERVED)
        self._busy: Counter[str] = Counter()  # number of requests in progress, by caller
        self._held: dict[str, deque[Any]] = {}  # tasks of callers that have reached their limit
        self._idle: list[Worker] = []  # the last one is woken first: its database connection and caches are warm
        self._leader: Worker | None = None
        self._probes: deque[Any] = deque()
        self._prober = Worker(self._lock)
        self._begun_at = time.monotonic()  # start of the last request
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
        """Stop starting requests, and wait `timeout` seconds for those in progress."""
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
        """Return how long requests have waited without any being started."""
        with self._lock:
            return time.monotonic() - self._begun_at if self._tasks else 0.0

    def _work(self) -> None:
        worker = Worker(self._lock)
        while task := self._next(worker):
            caller = _caller(task)  # the request is gone afterwards
            _serve(task)
            self._finish(caller)

    def _finish(self, caller: str) -> None:
        """Release the next request of the caller, if one is held back."""
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
        """Wait to become the leader and for a task. Returns None at shutdown."""
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
        """Return the first task whose caller is below its limit; hold back the tasks before it."""
        while self._tasks:
            task = self._tasks.popleft()
            caller = _caller(task)
            if not caller or self._busy[caller] < self._most_of_caller:
                self._busy[caller] += 1
                return task
            self._held.setdefault(caller, deque()).append(task)
        return None

    def _promote(self) -> None:
        """Make an idle worker the leader if there are tasks. Otherwise the next free worker becomes the leader."""
        self._leader = self._idle.pop() if self._tasks and self._idle else None
        if self._leader:
            self._leader.notify()

    def _watch_leader(self) -> None:
        """Promote another worker if the first task in the queue stays there for `MAX_LEAD_SECONDS`."""
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
    """Return the credential of a request, or "" if it has none."""
    headers: dict[str, str] = getattr(task.requests[0], "headers", {})
    return headers.get("AUTHORIZATION") or headers.get("COOKIE", "")


def _path(task: Any) -> str:
    path: str = getattr(task.requests[0], "path", "")
    return path


def _writes(task: Any) -> bool:
    return getattr(task.requests[0], "command", "GET") not in _READS
