"""Worker threads for requests: a leader/followers pool that replaces waitress's own.

Python runs one thread at a time. A thread that reads from SQLite releases the interpreter lock at each step, which
wakes a waiting thread on another core, usually for nothing, at more cost than the step. Therefore one worker, the
leader, handles all requests in turn while the others sleep. It promotes another worker before a write, which waits for
the disk and can share a commit. A monitor promotes another one if a request is slow and others wait.

A caller never occupies all threads: further requests of the same person, API key or, before its credential is known,
network wait while others are handled. Neither does an
organization on a box with several: the last free thread is for one without a running request. Callers whose
organization is not known yet have half of the threads together.

Probes (/healthz) have their own thread, so monitoring works while all other requests are slow.

Decision record: web/manual/decisions/workers.md
"""

from __future__ import annotations

import logging
import re
import threading
import time
from collections import Counter, deque
from typing import Any

from edge.rate_limits import PERSON, RESERVED, Caller, count_down, find_caller, has_several_organizations

MAX_LEAD_SECONDS = 0.005
PROBE = "/healthz"
_READS = ("GET", "HEAD", "OPTIONS")
_SESSION = re.compile(r"edge_session=([^;]*)")
_OTHERS = "\0"  # no caller has this name
_MOST_OF_PERSON = 3  # the largest pages take 50 MB each while they are made
_LEAST_THREADS = 4  # with fewer, none is kept free for other organizations

log = logging.getLogger(__name__)

Worker = threading.Condition  # a worker is represented by the condition that it waits on


class Workers:
    """Task dispatcher for waitress. A task is a connection with at least one complete request."""

    def __init__(self, count: int) -> None:
        self._lock = threading.Lock()
        self._tasks: deque[Any] = deque()
        self._count = count
        self._busy: Counter[str] = Counter()  # number of requests in progress, by caller
        self._busy_of: Counter[int | None] = Counter()  # the same by organization
        self._held: dict[str, deque[Any]] = {}  # by callers that have reached their limit; _OTHERS: by organizations
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
        while begun := self._next(worker):
            task, caller = begun
            _serve(task)
            self._finish(caller)

    def _finish(self, caller: Caller) -> None:
        """Release the requests that were held back for this one."""
        with self._lock:
            count_down(self._busy, caller.name)
            count_down(self._busy_of, caller.organization_id)
            waiting = self._held.pop(_OTHERS, deque())
            if held := self._held.pop(caller.name, None):
                waiting.appendleft(held.popleft())
                if caller.name in self._busy:
                    self._held[caller.name] = held
                else:  # nobody of that name is left to release the others
                    waiting.extend(held)
            if not waiting:
                return
            self._tasks.extendleft(reversed(waiting))
            if self._leader is None:
                self._promote()
            else:
                self._monitor.notify()  # the leader may be slow

    def _probe(self) -> None:
        while True:
            with self._lock:
                while not self._probes and not self._is_stopping.is_set():
                    self._prober.wait()
                if self._is_stopping.is_set():
                    return
                task = self._probes.popleft()
            _serve(task)

    def _next(self, worker: Worker) -> tuple[Any, Caller] | None:
        """Wait to become the leader and for a task. Returns None at shutdown."""
        with self._lock:
            while not self._is_stopping.is_set():
                if self._leader in (None, worker) and (begun := self._take()):
                    self._leader = worker
                    self._begun_at = time.monotonic()
                    if _writes(begun[0]):
                        self._promote()
                    return begun
                if self._leader is worker:
                    self._leader = None
                self._idle.append(worker)
                worker.wait()
            return None

    def _take(self) -> tuple[Any, Caller] | None:
        """Return the first task whose caller is below its limit, and the caller; hold back the tasks before it."""
        while self._tasks:
            task = self._tasks.popleft()
            caller = _caller(task)
            if caller.name and self._busy[caller.name] >= self._most_of(caller):
                self._held.setdefault(caller.name, deque()).append(task)
            elif not self._has_thread(caller.organization_id):
                self._held.setdefault(_OTHERS, deque()).append(task)
            else:
                self._busy[caller.name] += 1
                self._busy_of[caller.organization_id] += 1
                return task, caller
        return None

    def _most_of(self, caller: Caller) -> int:
        """Return how many threads a caller may occupy. With few of them, unknown ones of one network may use all."""
        is_stranger = caller.organization_id is None
        if caller.name.startswith(PERSON) and self._count >= _LEAST_THREADS:
            return _MOST_OF_PERSON
        return self._count if is_stranger and self._count < _LEAST_THREADS else max(1, self._count - RESERVED)

    def _has_thread(self, organization_id: int | None) -> bool:
        """Return True if an organization may occupy one more thread. None: it is not known."""
        if self._count < _LEAST_THREADS or not has_several_organizations():
            return True
        own = self._busy_of[organization_id]
        if organization_id is None and own >= self._count // 2:
            return False
        return own == 0 or self._busy_of.total() < self._count - 1

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


def _caller(task: Any) -> Caller:
    """Return who sent the request: without a known credential, the network of the client."""
    request = task.requests[0]
    headers: dict[str, str] = getattr(request, "headers", {})
    credential = headers.get("AUTHORIZATION") or headers.get("COOKIE", "")
    session = _SESSION.search(credential)
    return find_caller(session[1] if session else credential) or Caller(task.owner_of(request), None)


def _path(task: Any) -> str:
    path: str = getattr(task.requests[0], "path", "")
    return path


def _writes(task: Any) -> bool:
    return getattr(task.requests[0], "command", "GET") not in _READS
