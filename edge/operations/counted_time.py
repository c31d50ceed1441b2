"""Monotonic uptime clock used for retention, so that a wrong wall clock never deletes data.

The wall clock may boot in 1970, be years ahead, or jump. Counted time advances with the uptime of the service. It goes
back with the wall clock at once, because that deletes less. It follows the wall clock forward by at most OFF, unless
NTP or `sudo edge trust-clock` confirms the time. Deleting late does no harm.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from pathlib import Path

from edge import clock
from edge.operations.files import replace_text

log = logging.getLogger(__name__)

FILE_NAME = "counted-time"
OFF = 4 * clock.DAY  # a box may be off for this long without confirmation of its clock
MEANWHILE = 600 * clock.SECOND  # scans recorded while a person confirms the clock continue after the newest one


class CountedTime:
    def __init__(
        self,
        data_dir: Path,
        is_vouched: Callable[[], bool],
        running: Callable[[], float] = time.monotonic,
    ) -> None:
        """`running` returns monotonic seconds."""
        self._file = data_dir / FILE_NAME
        self._is_vouched = is_vouched
        self._running = running
        self._at = running()
        self._counted = self._read()

    def now(self) -> int:
        """Return microseconds since the epoch, at most the wall clock. Persisted over restarts."""
        moment, running = clock.now(), self._running()
        counted = self._counted + round((running - self._at) * clock.SECOND)
        if moment > counted + OFF and not self._is_vouched():
            log.warning("The clock is %d days ahead of counted time; retention does not use it", self.days_ahead())
        else:
            counted = moment
        self._counted, self._at = counted, running
        replace_text(self._file, str(counted))
        return counted

    def days_ahead(self) -> int:
        """Return by how many days the wall clock is ahead of counted time."""
        return max(0, clock.now() - self._counted) // clock.DAY

    def _read(self) -> int:
        """Read the persisted time. At the first start, or if the file is damaged, only the wall clock is available."""
        try:
            return int(self._file.read_text("ascii"))
        except (FileNotFoundError, ValueError):
            return clock.now()


def confirm(data_dir: Path, newest_scan: int) -> None:
    """Record that a person has checked the system clock, also against later scans up to `newest_scan`."""
    now = clock.now()
    replace_text(data_dir / clock.WAS_AHEAD, str(newest_scan + MEANWHILE if newest_scan > now else 0))
    replace_text(data_dir / clock.CONFIRMED, str(now))
