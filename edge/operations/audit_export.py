"""Sends each audit entry to a log server outside of the box, by syslog (RFC 5424) over TCP or TLS.

A file of the data directory has the last entry that the server's computer acknowledged. Writers never wait: a job
follows the table.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
import ssl
import struct
import termios
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from edge import clock, outbound
from edge.audit import trail
from edge.audit.trail import AuditRow
from edge.events.checked_connection import trust
from edge.operations.files import replace_text
from edge.outbound import Network

EVERY_SECONDS = 2.0
FILE_NAME = "audit-sent"
MOST = 500  # entries of one connection
USUAL_PORTS = {"tcp": 601, "tls": 6514}
_SECONDS = 10.0
_PRIORITY = 13 * 8 + 6  # log audit, informational
_PAUSE_SECONDS = 0.02


class Sent(NamedTuple):
    """`no` and `at` of the last acknowledged entry. `first`: newest entry at the first run, see `_with_lost`."""

    no: int = 0
    at: int = 0
    first: int = 0
    lost: int = 0  # entries deleted before they were sent
    lost_at: int = 0


def sent(data_dir: Path) -> Sent:
    """Return how far it is. Without a readable file all kept entries are sent, perhaps again."""
    with suppress(OSError, ValueError, TypeError):
        return Sent(**json.loads((data_dir / FILE_NAME).read_text("utf-8")))
    return Sent(first=trail.newest_no())


class AuditExport:
    """The job. Raises OSError if the server does not take the entries, which are sent again later."""

    def __init__(self, data_dir: Path, url: str, authority_file: Path | None) -> None:
        self._data_dir = data_dir
        self._url = urlsplit(url)
        self._tls = trust(authority_file) if self._url.scheme == "tls" else None
        self._host = socket.gethostname()

    def run(self, pause: Callable[[float], bool]) -> None:
        """Send all entries that are not sent yet."""
        known = _after_restore(sent(self._data_dir))
        while rows := trail.entries_after(known.no, MOST):
            known = _with_lost(known, rows)
            self._send(framed(row, self._host) for row in rows)
            known = known._replace(no=rows[-1].no, at=rows[-1].at)
            replace_text(self._data_dir / FILE_NAME, json.dumps(known._asdict()))
            if pause(_PAUSE_SECONDS):
                return

    def _send(self, frames: Iterable[bytes]) -> None:
        host, port = self._url.hostname or "", self._url.port or USUAL_PORTS[self._url.scheme]
        try:
            plain = outbound.connect(host, port, Network.LOOPBACK, is_encrypted=self._tls is not None)
        except outbound.NotAllowed as error:
            raise OSError(str(error)) from error
        with plain:
            plain.settimeout(_SECONDS)
            with self._tls.wrap_socket(plain, server_hostname=host) if self._tls else plain as connection:
                connection.sendall(b"".join(frames))
                _wait_for_acknowledgement(connection)


def _wait_for_acknowledgement(connection: socket.socket | ssl.SSLSocket) -> None:
    """Wait until the other computer has everything. Syslog itself does not acknowledge."""
    deadline = time.monotonic() + _SECONDS
    while struct.unpack("i", fcntl.ioctl(connection.fileno(), termios.TIOCOUTQ, bytes(4)))[0]:
        if time.monotonic() > deadline:
            raise OSError("the log server does not take the entries of the audit")
        time.sleep(_PAUSE_SECONDS)
    if fault := connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
        raise OSError(fault, os.strerror(fault))


def framed(row: AuditRow, host: str) -> bytes:
    """Return an entry as a message of RFC 5424, with its length before it (RFC 6587)."""
    head = f"<{_PRIORITY}>1 {clock.rfc3339(row.at)} {host} edge {os.getpid()} {row.action[:32]} - "
    message = head.encode() + row.as_json.encode()
    return b"%d %s" % (len(message), message)


def _with_lost(known: Sent, rows: list[AuditRow]) -> Sent:
    """Count the missing numbers among entries that were written since the export is on."""
    last = rows[-1].no
    since = max(known.no, known.first)
    lost = last - since - sum(one.no > since for one in rows)
    return known._replace(lost=known.lost + lost, lost_at=clock.now()) if last > since and lost else known


def _after_restore(known: Sent) -> Sent:
    """Go back to the entries that a restored database has in common with the one before."""
    return known if trail.has_entry(known.no, known.at) else known._replace(no=trail.newest_no(known.at), first=0)
