"""Logging to standard error. The last hour is also kept in memory for the Status page."""

from __future__ import annotations

import json
import logging
import sys
from collections import deque
from typing import NamedTuple
from urllib.parse import quote

from edge import clock
from edge.terminal import printable

KEPT = 1_000  # lines
LONGEST = 2_000  # characters per line
LONGEST_PATH = 500  # characters

_WITH_CODE = ("enrol", "w")

_access_log = logging.getLogger("edge.access")


class LogLine(NamedTuple):
    at: int
    level: str
    text: str


class RecentLog(logging.Handler):
    """Keeps the newest lines in a deque, which is thread-safe."""

    def __init__(self) -> None:
        super().__init__()
        self._lines: deque[LogLine] = deque(maxlen=KEPT)

    def emit(self, record: logging.LogRecord) -> None:
        try:
            text = self.format(record)
        except Exception:  # noqa: BLE001  as logging handlers do
            self.handleError(record)
            return
        self._lines.append(LogLine(clock.now(), record.levelname, text[:LONGEST]))

    def lines(self) -> list[LogLine]:
        """Return the lines of the last hour, newest first."""
        since = clock.now() - clock.HOUR
        return [line for line in reversed(self._lines.copy()) if line.at >= since]


HANDLER = RecentLog()


class OneLine(logging.Formatter):
    """Escapes line breaks and control characters in text from outside, which could otherwise forge log lines."""

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
        # Spaces separate the fields, so none may come from the client.
        path, request_id = quote(access.path), access.request_id.replace(" ", "_")
        _access_log.info(
            "%s %s %d %.1f ms %s %s", access.method, path, access.status, access.ms, request_id, access.actor or "-"
        )


def without_secret(path: str) -> str:
    """Return the path of a request for the log: the code of an enrollment or a wall in it is replaced."""
    folder, _, rest = path.lstrip("/").partition("/")
    return f"/{folder}/CODE" if rest and folder in _WITH_CODE else path


def set_up_log(level: str) -> None:
    """Log plain lines to standard error. The journal adds the time.

    The access log is not shown on the Status page, because it would displace the lines of the service.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(OneLine("%(levelname)s %(message)s"))
    HANDLER.setFormatter(OneLine("%(message)s"))
    logging.basicConfig(handlers=[handler, HANDLER], level=level.upper(), force=True)
    access_handler = logging.StreamHandler(sys.stderr)
    access_handler.setFormatter(OneLine("%(message)s"))
    _access_log.handlers, _access_log.propagate = [access_handler], False
    _access_log.setLevel(logging.INFO)
    logging.getLogger("waitress.queue").setLevel(logging.ERROR)  # it warns for each queued request
