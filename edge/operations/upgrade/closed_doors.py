"""While an upgrade that changed the database is on probation, nothing new comes in.

systemd/edge-upgrade may still put the database of before back, and whatever had been taken in would be lost with it.
Reads wait at the broker, handhelds and programs are asked to try again; it takes seconds.
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
    """Whoever brought the release died meanwhile, and nobody has started the box anew, which would end it."""
    try:
        since = (data_dir / FILE_NAME).stat().st_mtime_ns // 1000
    except FileNotFoundError:
        return False
    return clock.now() - since > _LONGEST


class StartedAfterUpgrade:
    """A part that is started at once, or when no upgrade is pending any more."""

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
