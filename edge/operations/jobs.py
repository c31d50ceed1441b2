"""Periodic jobs in one thread."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from edge.errors import EdgeError
from edge.events.standby_thread import StandbyThread
from edge.operations.health import Check
from edge.texts import N_

log = logging.getLogger(__name__)

TICK_SECONDS = 1.0


class Job(NamedTuple):
    """`run` receives a wait function: it waits at most the given seconds and returns True if the job must stop."""

    name: str
    every_seconds: float
    run: Callable[[Callable[[float], bool]], object]


class Housekeeper(StandbyThread):
    """`name` is that of the thread and of the health check. The thread ends while the jobs are not needed."""

    stop_seconds = 3.0

    def __init__(self, name: str, jobs: Sequence[Job], is_needed: Callable[[], bool] = lambda: True) -> None:
        super().__init__(name, is_needed, self._do_due)
        self._jobs = jobs
        self._due = {job.name: time.monotonic() + TICK_SECONDS for job in jobs}
        self._faults: dict[str, str] = {}

    def check(self) -> Check:
        faults = "; ".join(f"{name}: {fault}" for name, fault in self._faults.items())
        return Check(self._name, not faults, faults or N_("done on time"))

    def _do_due(self) -> float:
        for job in self._jobs:
            if time.monotonic() >= self._due[job.name] and not self.is_stopping:
                self._do(job)
                self._due[job.name] = time.monotonic() + job.every_seconds
        return TICK_SECONDS

    def _do(self, job: Job) -> None:
        """Run one job. A failed job runs again at its next time and does not affect the others."""
        try:
            job.run(self._stopping.wait)
        except (EdgeError, OSError) as error:
            if self._faults.get(job.name) != str(error):
                log.error("%s: %s failed: %s", self._name, job.name, error)
            self._faults[job.name] = str(error)
        except Exception as error:
            log.exception("%s: %s failed unexpectedly", self._name, job.name)
            self._faults[job.name] = repr(error)
        else:
            if self._faults.pop(job.name, None):
                log.info("%s: %s works again", self._name, job.name)
