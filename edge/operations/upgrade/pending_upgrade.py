"""Hold back all input while an upgrade that changed the database is on probation.

A rollback by systemd/edge-upgrade restores the previous database and would lose any input taken since. Reads wait at
the broker; handhelds and API clients get a retry answer. It takes seconds.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

from edge import clock
from edge.clock import SECOND
from edge.events.standby_thread import StandbyThread

log = logging.getLogger(__name__)

FILE_NAME = "upgrade-pending"
_LONGEST = 10 * 60 * SECOND
LOOK_SECONDS = 0.2


def is_pending(data_dir: Path) -> bool:
    return (data_dir / FILE_NAME).exists()


def is_cut_off(data_dir: Path) -> bool:
    """True if the upgrade script was killed and the machine has not rebooted since."""
    try:
        since = (data_dir / FILE_NAME).stat().st_mtime_ns // 1000
    except FileNotFoundError:
        return False
    return clock.now() - since > _LONGEST


class StartedAfterUpgrade(StandbyThread):
    """A component that starts immediately, or as soon as no upgrade is pending."""

    def __init__(self, data_dir: Path, start: Callable[[], None], stop: Callable[[], None]) -> None:
        super().__init__("upgrade", lambda: not self.is_started, self._start_if_complete)
        self._data_dir, self._start, self._stop = data_dir, start, stop
        self.is_started = False

    def start(self) -> None:
        self._start_if_complete()
        if not self.is_started:
            log.info("Reads wait at the broker until the upgrade is complete")
        self.start_if_needed()

    def stop(self) -> None:
        super().stop()
        if self.is_started:
            self._stop()

    def _start_if_complete(self) -> float:
        if not is_pending(self._data_dir):
            self._start()
            self.is_started = True
        return LOOK_SECONDS
