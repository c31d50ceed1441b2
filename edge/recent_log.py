"""The log of the last hour, in memory, for administrators who have no shell at hand."""

from __future__ import annotations

import logging
from collections import deque
from typing import NamedTuple

from edge import clock

KEPT = 1_000  # lines
LONGEST = 2_000  # characters of one


class LogLine(NamedTuple):
    at: int
    level: str
    text: str


class RecentLog(logging.Handler):
    """The newest lines; a deque is safe between threads."""

    def __init__(self) -> None:
        super().__init__()
        self._lines: deque[LogLine] = deque(maxlen=KEPT)

    def emit(self, record: logging.LogRecord) -> None:
        try:
            text = self.format(record)
        except Exception:  # noqa: BLE001  logging's own way with a line that cannot be written
            self.handleError(record)
            return
        self._lines.append(LogLine(clock.now(), record.levelname, text[:LONGEST]))

    def lines(self) -> list[LogLine]:
        """Of the last hour, the newest first."""
        since = clock.now() - clock.HOUR
        return [line for line in reversed(self._lines.copy()) if line.at >= since]


HANDLER = RecentLog()
