"""The log: lines on standard error; those of the last hour also in memory, for administrators without a shell."""

from __future__ import annotations

import json
import logging
import sys
from collections import deque
from typing import NamedTuple

from edge import clock
from edge.terminal import printable

KEPT = 1_000  # lines
LONGEST = 2_000  # characters of one
LONGEST_PATH = 500  # characters

_access_log = logging.getLogger("edge.access")


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


class Access(NamedTuple):
    """A request and its response. `ms` is the time until the response began; `actor` is empty if nobody signed in."""

    method: str
    path: str  # without the query string, which may contain personal data
    status: int
    ms: float
    request_id: str
    actor: str


def write_access(access: Access, as_json: bool) -> None:
    """Write the line of one request to standard error (setting `http.access_log`)."""
    access = access._replace(path=access.path[:LONGEST_PATH], ms=round(access.ms, 1))
    if as_json:
        _access_log.info(json.dumps(access._asdict()))
    else:
        _access_log.info("%s %s %d %.1f ms %s %s", *access[:5], access.actor or "-")


def set_up_log(level: str) -> None:
    """Write plain lines to standard error, for the journal, which adds the time.

    The access log stays out of the recent lines on the Status page: it would push out those of the service.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(OneLine("%(levelname)s %(message)s"))
    HANDLER.setFormatter(OneLine("%(message)s"))
    logging.basicConfig(handlers=[handler, HANDLER], level=level.upper(), force=True)
    access_handler = logging.StreamHandler(sys.stderr)
    access_handler.setFormatter(OneLine("%(message)s"))
    _access_log.handlers, _access_log.propagate = [access_handler], False
    _access_log.setLevel(logging.INFO)
    logging.getLogger("waitress.queue").setLevel(logging.ERROR)  # a busy moment is not worth a line each
