"""Periodic jobs in one thread."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from edge.errors import EdgeError
from edge.operations.health import Check
from edge.texts import N_

log = logging.getLogger(__name__)


class Job(NamedTuple):
    """`run` receives a wait function: it waits at most the given seconds and returns True if the job must stop."""

    name: str
    every_seconds: float
    run: Callable[[Callable[[float], bool]], object]


class Housekeeper:
    """`name` is that of the thread and of the health check. `is_needed`: see `start_if_needed`."""

    def __init__(self, name: str, jobs: Sequence[Job], is_needed: Callable[[], bool] = lambda: True) -> None:
        self._name = name
        self._is_needed = is_needed
        self._is_started = False
        self._jobs = jobs
        self._faults: dict[str, str] = {}
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name)

    def start(self) -> None:
        self._is_started = True
        self._thread.start()

    def start_if_needed(self) -> None:
        """Start the thread once there is something to do. It keeps a connection to the database, half a megabyte."""
        if not self._is_started and not self._stopping.is_set() and self._is_needed():
            self.start()

    def stop(self) -> None:
        self._stopping.set()
        if self._is_started:
            self._thread.join(3)

    def check(self) -> Check:
        if self._is_started and not self._thread.is_alive():
            return Check(self._name, False, N_("its thread has stopped; restart the service"))
        faults = "; ".join(f"{name}: {fault}" for name, fault in self._faults.items())
        return Check(self._name, not faults, faults or N_("done on time"))

    def _run(self) -> None:
        due = {job.name: time.monotonic() for job in self._jobs}
        while not self._stopping.wait(1):
            for job in self._jobs:
                if time.monotonic() >= due[job.name] and not self._stopping.is_set():
                    self._do(job)
                    due[job.name] = time.monotonic() + job.every_seconds

    def _do(self, job: Job) -> None:
        """Run one job. A failed job runs again at its next time and does not affect the others."""
        try:
            job.run(self._stopping.wait)
        except (EdgeError, OSError) as error:
            self._note(job, str(error))
        except Exception as error:
            log.exception("%s: %s failed unexpectedly", self._name, job.name)
            self._faults[job.name] = repr(error)
        else:
            if self._faults.pop(job.name, None):
                log.info("%s: %s works again", self._name, job.name)

    def _note(self, job: Job, fault: str) -> None:
        if self._faults.get(job.name) != fault:
            log.error("%s: %s failed: %s", self._name, job.name, fault)
        self._faults[job.name] = fault
