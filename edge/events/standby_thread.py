"""A thread that runs only while there is something for it to do, such as a channel, an output or an upstream."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from edge.database.connection import close_database
from edge.errors import EdgeError

log = logging.getLogger(__name__)

UNEXPECTED_SECONDS = 60.0


class StandbyThread:
    """Call `start_if_needed` regularly. The thread ends by itself once it is not needed, and never by an error."""

    unexpected_seconds = UNEXPECTED_SECONDS
    fault_seconds = UNEXPECTED_SECONDS / 10  # after an error with a known cause
    stop_seconds = 2.0  # a thread that waits for a server ends with the process

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
        self._woken = threading.Event()
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

    def wake(self) -> None:
        """Begin the next round at once."""
        self._woken.set()

    def stop(self) -> None:
        self._stopping.set()
        self._woken.set()
        self.join(self.stop_seconds)

    def join(self, seconds: float) -> None:
        """Wait for the end of the thread, if there is one."""
        if self._thread:
            self._thread.join(seconds)

    def trouble(self) -> str:
        """Return the current fault, or an empty text."""
        return self._fault

    def note(self, fault: str) -> None:
        """Set the current fault, and log it if it is a new one."""
        if fault != self._fault:
            log.warning("%s: %s", self._name.capitalize(), fault)
        self._fault = fault

    def _run(self) -> None:
        while not self.is_stopping:
            try:
                if not self._is_needed():
                    self._fault = ""
                    break
                wait = self._do_round()
                self._fault = ""
            except EdgeError as error:
                self.note(str(error))
                wait = self.fault_seconds
            except Exception as error:
                log.exception("%s failed unexpectedly; trying again later", self._name.capitalize())
                self._fault = repr(error)
                wait = self.unexpected_seconds
            if self._woken.wait(wait):
                self._woken.clear()
        self._on_end()
        close_database()
