"""Hold back all input while an upgrade that changed the database is on probation.

A rollback by systemd/edge-upgrade restores the previous database and would lose any input taken since. Reads wait at
the broker; handhelds and API clients get a retry answer. It takes seconds.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from pathlib import Path

from edge import clock
from edge.clock import SECOND

log = logging.getLogger(__name__)

FILE_NAME = "upgrade-pending"
_LONGEST = 10 * 60 * SECOND


def is_pending(data_dir: Path) -> bool:
    return (data_dir / FILE_NAME).exists()


def is_cut_off(data_dir: Path) -> bool:
    """True if the upgrade script was killed and the machine has not rebooted since."""
    try:
        since = (data_dir / FILE_NAME).stat().st_mtime_ns // 1000
    except FileNotFoundError:
        return False
    return clock.now() - since > _LONGEST


class StartedAfterUpgrade:
    """A component that starts immediately, or as soon as no upgrade is pending."""

    def __init__(self, data_dir: Path, start: Callable[[], None], stop: Callable[[], None]) -> None:
        self._data_dir = data_dir
        self._start = start
        self._stop = stop
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._wait, name="upgrade", daemon=True)
        self.is_started = False

    def start(self) -> None:
        if not is_pending(self._data_dir):
            self._begin()
        else:
            log.info("Reads wait at the broker until the upgrade is complete")
            self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()
        if self.is_started:
            self._stop()

    def _wait(self) -> None:
        while not self._stopping.wait(0.2):
            if not is_pending(self._data_dir):
                self._begin()
                return

    def _begin(self) -> None:
        self._start()
        self.is_started = True
