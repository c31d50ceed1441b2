"""The log: lines on standard error; those of the last hour also in memory, for administrators without a shell."""

from __future__ import annotations

import logging
import sys
from collections import deque
from typing import NamedTuple

from edge import clock
from edge.terminal import printable

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


class OneLine(logging.Formatter):
    """What others sent, such as a path or a topic, may hold line ends, and what follows them would look like ours."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        return printable(super().formatMessage(record))


def set_up_log(level: str) -> None:
    """Plain lines on standard error, for the journal, which adds the time."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(OneLine("%(levelname)s %(message)s"))
    HANDLER.setFormatter(OneLine("%(message)s"))
    logging.basicConfig(handlers=[handler, HANDLER], level=level.upper(), force=True)
    logging.getLogger("waitress.queue").setLevel(logging.ERROR)  # a busy moment is not worth a line each
