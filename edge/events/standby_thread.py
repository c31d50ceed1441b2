"""A thread that runs only while there is something for it to do, such as a channel or an upstream."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from edge.database.connection import close_database
from edge.errors import EdgeError

log = logging.getLogger(__name__)

UNEXPECTED_SECONDS = 60.0
FAULT_SECONDS = UNEXPECTED_SECONDS / 10  # after an error with a known cause
STOP_SECONDS = 2.0  # a thread that waits for a server ends with the process


class StandbyThread:
    """Call `start_if_needed` regularly. The thread ends by itself once it is not needed, and never by an error."""

    def __init__(
        self,
        name: str,
        is_needed: Callable[[], bool],
        work: Callable[[], float],
        on_end: Callable[[], None] = lambda: None,
    ) -> None:
        """Prepare without a thread. `work` does one round and returns the seconds until the next one."""
        self._name, self._is_needed, self._do_round, self._on_end = name, is_needed, work, on_end
        self._stopping = threading.Event()
        self._fault = ""
        self._thread: threading.Thread | None = None

    @property
    def is_stopping(self) -> bool:
        return self._stopping.is_set()

    def start_if_needed(self) -> None:
        if self.is_stopping or self.is_running() or not self._is_needed():
            return
        self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
        self._thread.start()

    def is_running(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def stop(self) -> None:
        self._stopping.set()
        self.join(STOP_SECONDS)

    def join(self, seconds: float) -> None:
        """Wait for the end of the thread, if there is one."""
        if self._thread:
            self._thread.join(seconds)

    def trouble(self) -> str:
        """Return the current fault, or an empty text."""
        return self._fault

    def _run(self) -> None:
        wait = 0.0
        while not self._stopping.wait(wait):
            try:
                if not self._is_needed():
                    break
                wait = self._do_round()
                self._fault = ""
            except EdgeError as error:
                if str(error) != self._fault:
                    log.warning("%s: %s", self._name.capitalize(), error)
                self._fault = str(error)
                wait = FAULT_SECONDS
            except Exception as error:
                log.exception("%s failed unexpectedly; trying again in a minute", self._name.capitalize())
                self._fault = repr(error)
                wait = UNEXPECTED_SECONDS
        self._on_end()
        close_database()
