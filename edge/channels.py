"""One connection of the HTTP server: waitress's channel, reading requests and sending answers by our rules.

Decision record. What: classes of our own for what waitress has attributes for, with four changes. Refusals of the
server carry the envelope, see `refusals` (contract: Requests, limits, headers). A broken absolute address is a refusal
instead of a trace in the log. A response without a body keeps the connection: closing it cost a client 0.3 ms for each
DELETE. The serving thread does not wake up while a worker sends: a fifth more small responses a second. Clients that
are slow or greedy are shut out, see `connections`; answers that go on have no worker, see `events.stream`. Unnecessary
once waitress does these itself. The minor version is pinned, and `tests/test_newest_releases.py` runs the tests of
this module against the newest release.
"""

from __future__ import annotations

import contextlib
import socket
import time
from typing import Any

from flask import Flask
from waitress.buffers import OverflowableBuffer
from waitress.channel import ClientDisconnected, HTTPChannel
from waitress.parser import HTTPRequestParser, ParsingError
from waitress.task import WSGITask
from waitress.utilities import BadRequest

from edge import connections
from edge.addresses import client_network
from edge.api import guard
from edge.events.stream import ATTACH
from edge.pages import guard as pages_guard
from edge.refusals import Refusal
from edge.sync import wire

# No route takes a larger body. The excess is read and dropped, so that the client receives the application's refusal.
MAX_BODY = max(guard.MAX_BODY, wire.MAX_BODY, pages_guard.MAX_UPLOAD)


class Body(OverflowableBuffer):  # type: ignore[misc, unused-ignore]
    """Counts the bytes beyond what any route takes, and keeps none of them."""

    dropped = 0

    def append(self, data: bytes) -> None:
        if super().__len__() + len(data) > MAX_BODY:
            self.dropped += len(data)
        else:
            super().append(data)

    def __len__(self) -> int:
        return super().__len__() + self.dropped


class Parser(HTTPRequestParser):  # type: ignore[misc, unused-ignore]
    pieces = 0

    def received(self, data: bytes) -> int:
        """The head is looked at whole with each piece of it: in single bytes that would take the thread for seconds."""
        self.pieces += 1
        if not self.headers_finished and self.pieces > connections.MOST_PIECES:
            self.parse_header(b"GET / HTTP/1.0\r\n")
            self.error, self.completed = BadRequest("The head of the request came in too many pieces"), True
            return len(data)
        consumed: int = super().received(data)
        return consumed

    def parse_header(self, header_plus: bytes) -> None:
        """An absolute address with a broken host would only close the connection, with a trace in the log."""
        try:
            super().parse_header(header_plus)
        except ValueError as error:
            raise ParsingError("Invalid URI") from error
        if self.body_rcv is not None:
            self.body_rcv.buf = Body(self.adj.inbuf_overflow)


class Task(WSGITask):  # type: ignore[misc, unused-ignore]
    """One request on its way through the application."""

    def get_environment(self) -> dict[str, Any]:
        environment: dict[str, Any] = super().get_environment()
        channel: Any = self.channel
        environment[ATTACH] = channel.attach
        return environment

    def finish(self) -> None:
        """A streamed response has only begun."""
        channel: Any = self.channel
        if channel.listener is None:
            super().finish()
            return
        channel.is_chunked = self.chunked_response

    def set_close_on_finish(self) -> None:
        """Not for want of a length where there is no body: after each DELETE and 304 the client would connect anew."""
        request: Any = self.request
        asks_for_it = self.version == "1.0" or request.headers.get("CONNECTION", "").lower() == "close"
        if self.has_body or asks_for_it:
            super().set_close_on_finish()


class Channel(HTTPChannel):  # type: ignore[misc, unused-ignore]
    """A connection as waitress has it, and how a listener takes over the answer to the present request."""

    parser_class = Parser
    task_class = Task
    error_task_class = Refusal
    listener: Any = None  # which answers the current request from its own thread
    is_chunked = False
    _closes_when_flushed = False

    def __init__(self, server: Any, sock: Any, addr: Any, adj: Any, *, app: Flask, trusted_network: str, **more: Any):
        """The newcomer may cost the connection that was waited for longest its place."""
        self.app = app
        self.network = client_network(addr[0])
        self.waiting_since = time.monotonic()
        super().__init__(server, sock, addr, adj, **more)
        extra = connections.connection_to_close(server.active_channels.values(), self, trusted_network)
        if extra is not None:
            extra.leave()

    def received(self, data: bytes) -> bool:
        if self.listener is not None:
            return False  # nothing more is expected from it
        if self.request is None:
            self.waiting_since = time.monotonic()
        return bool(super().received(data))

    def service(self) -> None:
        super().service()
        self.waiting_since = time.monotonic()
        if self.listener is not None:
            self.listener.begin(self)

    def writable(self) -> bool:
        """Not while a worker is sending: the serving thread would wake up again and again, find nothing to do, and
        keep the worker from the interpreter. A worker that waits for space to write does need it.
        """
        if not self.outbuf_lock.acquire(blocking=False):
            return bool(self.total_outbufs_len > self.adj.outbuf_high_watermark)
        self.outbuf_lock.release()
        return bool(super().writable())

    def handle_close(self) -> None:
        if self.request is not None:
            self.request.close()  # its body may be in a file
        super().handle_close()

    def leave(self) -> None:
        """Closed by the serving thread, which the socket has to wake even if its client reads nothing."""
        self.will_close = True
        with contextlib.suppress(OSError):  # the client has left meanwhile
            if self.socket:
                self.socket.shutdown(socket.SHUT_RDWR)

    # A streamed response ------------------------------------------------------------------------------------------

    def attach(self, listener: Any) -> None:
        """The present request is answered by `listener.begin(channel)`, until that says `end`; no worker waits.

        waitress closes a connection once an answer of unknown length is written. Here that waits for the end, and
        the serving thread goes on to send what is pushed and to see when the client leaves.
        """
        self.listener = listener

    @property
    def close_when_flushed(self) -> bool:
        return self._closes_when_flushed and self.listener is None

    @close_when_flushed.setter
    def close_when_flushed(self, closes: bool) -> None:
        self._closes_when_flushed = closes

    def is_open(self) -> bool:
        return bool(self.connected and not self.will_close)

    def push(self, data: bytes) -> bool:
        """From any thread. False where the client is gone, or too much waits for it."""
        if not self.is_open() or self.total_outbufs_len > connections.MOST_UNREAD:
            return False
        try:
            self.write_soon(b"%x\r\n%s\r\n" % (len(data), data) if self.is_chunked else data)
        except ClientDisconnected:
            return False
        return True

    def end(self) -> None:
        if self.is_open() and self.total_outbufs_len <= connections.MOST_UNREAD:
            with contextlib.suppress(ClientDisconnected):
                self.write_soon(b"0\r\n\r\n" if self.is_chunked else b"")
        else:
            self.leave()
        self.listener = None
        self.server.pull_trigger()
