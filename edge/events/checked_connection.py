"""HTTP connection to a host that somebody entered: its address is checked, see `edge.outbound`.

One deadline covers a whole request, so a partner that trickles bytes cannot block a thread. An answer is read only as
far as the memory budget has room.
"""

from __future__ import annotations

import contextlib
import http.client
import select
import socket
import ssl
import threading
from collections.abc import Callable, Mapping
from datetime import UTC
from email.message import Message
from email.utils import parsedate_to_datetime
from functools import partial
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from edge import clock
from edge.conversations import talking
from edge.memory_budget import WORK
from edge.outbound import Network, NotAllowed, connect

ANSWER_SECONDS = 20.0
MAX_WAIT_SECONDS = 3600.0  # that a partner or a proxy can ask for
_CLOSED_MEANWHILE = (ConnectionResetError, BrokenPipeError, http.client.RemoteDisconnected)
_PIECE = 64 * 1024  # many small chunks in one call would take many times their size


class Answer(NamedTuple):
    """An answer of a partner; `headers.get` takes names in lower case."""

    status: int
    headers: Message | Mapping[str, str]
    content: bytes

    @property
    def is_success(self) -> bool:
        return 200 <= self.status < 300

    @property
    def wait_seconds(self) -> float:
        """The seconds of Retry-After: a number, or a date as proxies send it."""
        text = self.headers.get("retry-after")
        if not text or not text.isascii():
            return 0.0
        if text.isdigit():
            return min(float(text[:9]), MAX_WAIT_SECONDS)
        try:
            moment = parsedate_to_datetime(text)
        except (ValueError, OverflowError):  # the latter for a year or an hour of many digits
            return 0.0
        aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        return min(max((clock.to_micros(aware) - clock.now()) / clock.SECOND, 0.0), MAX_WAIT_SECONDS)


def trust(authority_file: Path | None, authority: str = "") -> ssl.SSLContext:
    """Return the TLS settings: trust only `authority` (PEM) if there is one, otherwise the system's and the file's."""
    if authority:
        return ssl.create_default_context(cadata=authority)
    context = ssl.create_default_context()
    if authority_file:
        context.load_verify_locations(authority_file)
    return context


class CheckedConnection(http.client.HTTPConnection):
    """A connection to the checked IP address; the host name is used for the certificate and the `Host` header."""

    def __init__(self, url: str, network: Network, tls: ssl.SSLContext, seconds: float | None = None) -> None:
        """Prepare a connection to the host of a URL, without TLS unless it is https.

        `network`: the farthest that may be reached; `seconds`: of one wait for the partner, otherwise ANSWER_SECONDS.
        """
        address = urlsplit(url)
        self._encryption = tls if address.scheme == "https" else None
        self.default_port = 443 if self._encryption else 80  # omitted from `Host`
        # `hostname` has no brackets around an IPv6 address, so the port must not be None.
        super().__init__(address.hostname or "", address.port or self.default_port, timeout=seconds or ANSWER_SECONDS)
        self._network = network
        self.is_cut = False

    def connect(self) -> None:
        self.sock = connect(self.host, self.port, self._network, is_encrypted=self._encryption is not None)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sock.settimeout(self.timeout)
        if self._encryption:
            encrypted = self._encryption.wrap_socket(
                self.sock, server_hostname=self.host, do_handshake_on_connect=False
            )
            self.sock = encrypted  # lets `cut` end the connection during the handshake
            encrypted.do_handshake()

    def exchange(
        self,
        method: str,
        path: str,
        body: bytes | None,
        headers: Mapping[str, str],
        most: int,
        seconds: float,
        *,
        is_complete: bool = True,
        is_repeatable: bool = False,
    ) -> Answer:
        """Send a request, connecting first if needed, and return the answer with at most `most` bytes of its content.

        A connection that cannot be used again is closed. With `is_complete` the content matters, so it is an error if
        it ends before its time. With `is_repeatable` the request is sent once more if the partner closes an idle
        connection at that moment. Raises TimeoutError after `seconds`, OSError, HTTPException or NotAllowed.
        """
        ask = partial(self.request, method, path, body, headers)
        send = partial(self._exchange, ask, most, seconds, is_complete=is_complete)
        if self._is_closed_by_peer():
            self.close()
        try:
            if self.sock is not None and is_repeatable:
                with contextlib.suppress(*_CLOSED_MEANWHILE):
                    return send()
                self.close()
            return send()
        except (OSError, http.client.HTTPException, NotAllowed):
            self.close()
            raise
        except ValueError as error:  # for example a chunk of negative length, which http.client does not check
            self.close()
            raise http.client.HTTPException(str(error)) from error

    def _exchange(self, ask: Callable[[], None], most: int, seconds: float, is_complete: bool) -> Answer:
        self.is_cut = False
        deadline = threading.Timer(seconds, self.cut)
        deadline.daemon = True
        deadline.start()
        try:
            with talking(f"{self.host}:{self.port}"):
                ask()
                answer = self.getresponse()
                content = _content(answer, most)
        except (OSError, http.client.HTTPException) as error:
            if self.is_cut:
                raise TimeoutError from error
            raise
        finally:
            deadline.cancel()
        if self.is_cut or answer.will_close or not answer.isclosed():
            self.close()
        if is_complete and self.is_cut:
            raise TimeoutError
        if is_complete and answer.length and len(content) < most:  # `read` reports no end before its time
            raise http.client.IncompleteRead(content, answer.length)
        return Answer(answer.status, answer.headers, content)

    def _is_closed_by_peer(self) -> bool:
        """Return True if the idle connection is readable, which an open one is not before a request."""
        if self.sock is None:
            return False
        poll = select.poll()
        poll.register(self.sock, select.POLLIN)
        return bool(poll.poll(0))

    def cut(self) -> None:
        """Shut the connection down at the deadline, so that a blocked read or write fails."""
        self.is_cut = True
        with contextlib.suppress(OSError):  # already closed
            if self.sock:
                # The plain socket, since another thread is reading the TLS one.
                socket.socket.shutdown(self.sock, socket.SHUT_RDWR)


def _content(answer: http.client.HTTPResponse, most: int) -> bytes:
    """Return at most `most` bytes. Raises OSError if the memory budget has no room for them."""
    room = 2 * min(most, most if answer.length is None else answer.length)  # while it is copied
    if not WORK.take(room):
        raise OSError("this box is busy; its memory is in use")
    try:
        content = bytearray()
        while piece := answer.read(min(_PIECE, most - len(content))):
            content += piece
        return bytes(content)
    finally:
        WORK.give_back(room)
