"""Connections of the HTTP server: waitress's channel with changes.

Differences: refusals carry the error envelope and reach clients that are still sending, responses without a body keep
the connection, the serving thread sleeps while a worker sends, slow and greedy clients are disconnected, and streamed
responses need no worker.

Decision record: web/manual/decisions/channels.md
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from functools import partial
from typing import Any

from flask import Flask
from waitress.channel import ClientDisconnected, HTTPChannel
from waitress.task import WSGITask
from waitress.utilities import Error, RequestEntityTooLarge

from edge.errors import TooLarge, Unavailable
from edge.events.stream import ATTACH
from edge.memory_budget import HELD, SMALL, WORK
from edge.rate_limits import client_network
from edge.server import connections
from edge.server.receiving import Parser
from edge.server.refusals import Overloaded, Refusal
from edge.server.turns import Turns


class NoRoom(Exception):
    """The response does not fit into the memory budget."""


class Task(WSGITask):  # type: ignore[misc, unused-ignore]
    """One request that the application handles."""

    def get_environment(self) -> dict[str, Any]:
        environment: dict[str, Any] = super().get_environment()
        channel: Any = self.channel
        environment[ATTACH] = channel.attach
        return environment

    def execute(self) -> None:
        """Reserve memory for the parsed body, then handle the request."""
        request: Any = self.request
        channel: Any = self.channel
        try:
            cost = request.body_rcv.buf.cost(request.headers.get("CONTENT_TYPE", "")) if request.body_rcv else 0
            with WORK.holding(cost, channel.owner_of(request)):
                super().execute()
        except TooLarge as error:
            self._refuse(RequestEntityTooLarge(str(error)))
        except (NoRoom, Unavailable) as error:
            self._refuse(Overloaded(str(error)))

    def _refuse(self, error: Error) -> None:
        request: Any = self.request
        request.error = error
        refusal = Refusal(self.channel, request)
        refusal.start()
        refusal.execute()
        self.wrote_header, self.close_on_finish = True, True

    def write(self, data: bytes) -> None:
        """Reserve memory for the whole response before sending its first bytes."""
        channel: Any = self.channel
        if not self.wrote_header and len(data) > SMALL and not channel.reserve(self.request, len(data)):
            raise NoRoom("Too many unread responses")
        super().write(data)

    def finish(self) -> None:
        """Leave a streamed response open."""
        channel: Any = self.channel
        if channel.listener is None:
            super().finish()
            return
        channel.is_chunked = self.chunked_response

    def set_close_on_finish(self) -> None:
        """Keep the connection after responses without a body, such as 204 and 304, which need no length."""
        request: Any = self.request
        closes = self.version == "1.0" or request.headers.get("CONNECTION", "").lower() == "close"
        if self.has_body or closes:
            super().set_close_on_finish()


class Channel(HTTPChannel):  # type: ignore[misc, unused-ignore]
    """A connection. A listener can take over the response to the current request."""

    task_class = Task
    error_task_class = Refusal
    listener: Any = None  # answers the current request from its own thread
    is_chunked = False
    sending_since: float | None = None  # start of the current period with unread data, see `connections`
    sent = 0  # bytes in this period
    drains = False  # the client may still be sending a refused request, see `_drain`
    drained_since: float | None = None
    is_refused = False  # there is no place for it; its request is answered 503
    _drained = 0  # bytes
    _closes_when_flushed = False
    _pieces: int | None = None  # pieces sent in the current turn of the serving thread
    _takes_turns = True
    _rest = b""  # received data after the current request
    _reserved = 0  # bytes reserved for the response
    _owner = ""

    def __init__(
        self,
        server: Any,
        sock: Any,
        addr: Any,
        adj: Any,
        *,
        app: Flask,
        trusted_network: str,
        turns: Turns,
        **more: Any,
    ):
        """Accept a connection. It may evict another one, or have its request refused."""
        self.app = app
        self._turns = turns
        self.network = client_network(addr[0])
        self.parser_class: Any = partial(Parser, channel=self)
        self._trusted_network = trusted_network
        self._reserving = threading.Lock()
        self.waiting_since = self.answering_since = time.monotonic()
        super().__init__(server, sock, addr, adj, **more)
        others = server.active_channels.values()
        extra = connections.connection_to_close(others, self, trusted_network)
        self.is_refused = extra is self and connections.is_answered(others, self)
        if extra is not None and not self.is_refused:
            extra.leave()

    def received(self, data: bytes) -> bool:
        if self.drained_since is not None:
            self._drained += len(data)
            if self._drained > connections.MOST_DRAINED:
                self.leave()
            return False
        if self.listener is not None:
            return False  # no further request is expected
        if self.request is None:
            self.waiting_since = time.monotonic()
        return bool(super().received(data))

    def readable(self) -> bool:
        """Start the next pipelined request once the last response is sent. Called by the serving thread in each
        round.
        """
        if self.drains:
            return self._drain()
        if self._rest and not (self.requests or self.total_outbufs_len or self.will_close):
            rest, self._rest = self._rest, b""
            self.received(rest)
        return bool(super().readable())

    def _drain(self) -> bool:
        """Begin to drop what the client sends once the refusal is sent. Returns True if data should be read.

        The client reads the refusal after its request, or at once. It then closes the connection.
        """
        if self.drained_since is None and self._closes_when_flushed and not self.total_outbufs_len:
            self.drained_since, client = time.monotonic(), self.socket
            try:
                if client:
                    client.shutdown(socket.SHUT_WR)
            except OSError:  # already disconnected
                self.will_close = True
        return self.drained_since is not None and not self.will_close

    def service(self) -> None:
        self.answering_since = time.monotonic()
        answered: Any = self.requests[0]
        self._rest = answered.rest
        super().service()
        self.waiting_since = time.monotonic()
        if not self.total_outbufs_len:
            self._release()
        if self.listener is not None:
            self.listener.begin(self)

    def writable(self) -> bool:
        """Return False while a worker is sending.

        Otherwise the serving thread would wake up repeatedly for nothing and take the interpreter lock from the
        worker. A worker that waits for buffer space still needs it.
        """
        if not self.outbuf_lock.acquire(blocking=False):
            return bool(self.total_outbufs_len > self.adj.outbuf_high_watermark)
        self.outbuf_lock.release()
        return bool(super().writable())

    def handle_write(self) -> None:
        """Send more of the response. Called by the serving thread when the client can receive."""
        if self._takes_turns and self.total_outbufs_len and not self._turns.take(self):
            return
        self._pieces = 0
        try:
            super().handle_write()
        finally:
            self._pieces = None
        if self._reserved and not self.requests and not self.total_outbufs_len:
            self._release()

    def handle_close(self) -> None:
        if self.request is not None:
            self.request.close()  # closes the temporary file of its body
        super().handle_close()
        self._release()

    def send(self, data: bytes, do_close: bool = True) -> int:
        if self._pieces is not None:
            if self._takes_turns and self._pieces and self._turns.is_over():
                return 0  # as if the client's buffer were full
            self._pieces += 1
        number: int = super().send(data, do_close=do_close)
        self.sent += number
        return number

    def owner_of(self, request: Any) -> str:
        """Return the address that the memory budget is charged to. Requests of the trusted proxy are charged to
        its client.
        """
        if self.network != self._trusted_network:
            return self.network
        forwarded: str = request.headers.get("X_FORWARDED_FOR", "")
        return client_network(forwarded.rpartition(",")[2].strip()) if forwarded else ""

    def reserve(self, request: Any, size: int) -> bool:
        """Reserve memory for a response until the client has read it."""
        self._release()
        more, owner = size - SMALL, self.owner_of(request)
        if not HELD.take(more, owner):
            return False
        with self._reserving:
            self._reserved, self._owner = more, owner
        if not self.connected:  # closed by the serving thread in the meantime
            self._release()
        return True

    def _release(self) -> None:
        with self._reserving:
            HELD.give_back(self._reserved, self._owner)
            self._reserved = 0

    def close_soon(self) -> None:
        """Close once the response is sent, without waiting for turns: the listener that starts them is closed."""
        self._takes_turns = self.drains = False
        self.close_when_flushed = True

    def leave(self) -> None:
        """Make the serving thread close the connection. Shutting the socket down wakes it even if the client
        reads nothing.
        """
        self.will_close = True
        with contextlib.suppress(OSError):  # already disconnected
            if self.socket:
                self.socket.shutdown(socket.SHUT_RDWR)

    # A streamed response ------------------------------------------------------------------------------------------

    def attach(self, listener: Any) -> None:
        """Let `listener` answer the current request without a worker: it gets `begin(channel)` and later calls
        `end`.

        waitress closes a connection after a response of unknown length. Here the connection stays open until
        `end`; the serving thread sends pushed data and notices when the client leaves.
        """
        self.listener = listener

    @property
    def close_when_flushed(self) -> bool:
        return self._closes_when_flushed and self.listener is None and not self.drains

    @close_when_flushed.setter
    def close_when_flushed(self, closes: bool) -> None:
        self._closes_when_flushed = closes

    def is_open(self) -> bool:
        return bool(self.connected and not self.will_close)

    def push(self, data: bytes) -> bool:
        """Send data from any thread. Returns False if the client is gone or has too much unread data."""
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
