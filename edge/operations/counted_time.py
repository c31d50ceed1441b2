"""The time as this box itself has counted it, for what must never be done by a clock that is wrong: deleting.

The box's clock may boot in 1970, be years ahead, or jump. What is counted goes on with the time the service has run,
is set back at once when the clock is earlier, which deletes less, and follows the clock forward over a weekend at
most, unless a time service, or a person, vouches for it. Deleting late does no harm.
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
OFF = 4 * clock.DAY  # a box may be switched off for so long without anybody vouching for its clock


class CountedTime:
    def __init__(
        self,
        data_dir: Path,
        is_vouched: Callable[[], bool],
        running: Callable[[], float] = time.monotonic,
    ) -> None:
        """`running` counts seconds, whatever becomes of the date."""
        self._file = data_dir / FILE_NAME
        self._is_vouched = is_vouched
        self._running = running
        self._at = running()
        self._counted = self._read()

    def now(self) -> int:
        """In microseconds since the epoch, at most what the clock says; remembered over a restart."""
        moment, running = clock.now(), self._running()
        counted = self._counted + round((running - self._at) * clock.SECOND)
        if moment > counted + OFF and not self._is_vouched():
            log.warning("The clock is %d days ahead of what was counted; nothing is deleted by it", self.ahead())
        else:
            counted = moment
        self._counted, self._at = counted, running
        replace_text(self._file, str(counted))
        return counted

    def ahead(self) -> int:
        """By how many days the clock is ahead of what was counted."""
        return max(0, clock.now() - self._counted) // clock.DAY

    def _read(self) -> int:
        """At the very first start, and when the file is damaged, the clock is all there is."""
        try:
            return int(self._file.read_text("ascii"))
        except (FileNotFoundError, ValueError):
            return clock.now()
