"""The HTTP server: waitress, answering in the API's envelope also where it refuses a request by itself.

Decision record. What: a channel class of our own, for which waitress has an attribute, with four changes. Refusals of
the server carry the envelope (contract: Requests, limits, headers). A broken absolute address is a refusal instead of
a trace in the log. A response without a body keeps the connection: closing it cost a client 0.3 ms for each DELETE.
The serving thread does not wake up while a worker sends: a fifth more small responses a second. Clients that are slow
or greedy are shut out, see `connections`. Unnecessary as far as waitress does these itself. The minor version is
pinned, and `tests/test_newest_releases.py` runs the tests of this module against the newest release.
"""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Callable
from http import HTTPStatus
from typing import Any

from flask import Flask
from waitress.buffers import OverflowableBuffer
from waitress.channel import ClientDisconnected, HTTPChannel
from waitress.parser import HTTPRequestParser, ParsingError
from waitress.server import BaseWSGIServer, MultiSocketServer, create_server
from waitress.task import ErrorTask, WSGITask
from waitress.utilities import BadRequest

from edge import connections
from edge.addresses import network_of
from edge.api import cors, envelope, guard, middleware
from edge.events.stream import ATTACH
from edge.sync import wire
from edge.workers import Workers

# No route takes a larger body. What is beyond is read and dropped, so that the client hears the application's refusal.
MAX_BODY = max(guard.MAX_BODY, wire.MAX_BODY)
MAX_READ = 8 * 1024 * 1024
MAX_IN_MEMORY = 64 * 1024  # of one body; the rest of it waits in a temporary file
MAX_HEADERS = 64 * 1024
_KINDS = {413: "payload_too_large", 500: "internal_error"}


def create(app: Flask, host: str, port: int, threads: int, **options: Any) -> BaseWSGIServer | MultiSocketServer:
    """Listening already, and serving once it runs. Raises OSError when the address cannot be had."""
    server = create_server(
        app,
        host=host,
        port=port,
        _dispatcher=Workers(threads),  # type: ignore[arg-type]  # waitress names its own class, and calls no more of it
        connection_limit=connections.MOST + 100,  # while some of them close
        cleanup_interval=1,
        ident=None,
        inbuf_overflow=MAX_IN_MEMORY,
        max_request_body_size=MAX_READ,
        max_request_header_size=MAX_HEADERS,
        clear_untrusted_proxy_headers=True,
        **options,
    )
    for listener in _listeners(server):
        listener.channel_class = _channel_class(app, options.get("trusted_proxy", ""))
        listener.maintenance = _close_late(listener)
    return server


def stop(server: BaseWSGIServer | MultiSocketServer, seconds: int) -> None:
    """Requests being answered get that long. The serving thread closes its sockets itself, or its select fails."""
    server.task_dispatcher.shutdown(timeout=seconds)
    for listener in _listeners(server):
        listener.trigger.pull_trigger(listener.close)


def _listeners(server: BaseWSGIServer | MultiSocketServer) -> list[Any]:
    parts = list((server.map or {}).values()) if isinstance(server, MultiSocketServer) else [server]
    return [part for part in parts if isinstance(part, BaseWSGIServer)]


def _close_late(listener: BaseWSGIServer) -> Callable[[float], None]:
    def maintenance(_now: float) -> None:
        open_channels: dict[int, Any] = listener.active_channels  # type: ignore[assignment]
        for channel in list(open_channels.values()):
            if connections.is_late(channel, time.monotonic()):
                channel.leave()

    return maintenance


class _Body(OverflowableBuffer):  # type: ignore[misc, unused-ignore]
    """Counts what is beyond what any route takes, and keeps none of it."""

    dropped = 0

    def append(self, data: bytes) -> None:
        if super().__len__() + len(data) > MAX_BODY:
            self.dropped += len(data)
        else:
            super().append(data)

    def __len__(self) -> int:
        return super().__len__() + self.dropped


class _Parser(HTTPRequestParser):  # type: ignore[misc, unused-ignore]
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
            self.body_rcv.buf = _Body(self.adj.inbuf_overflow)


class _Task(WSGITask):  # type: ignore[misc, unused-ignore]
    def get_environment(self) -> dict[str, Any]:
        environment: dict[str, Any] = super().get_environment()
        channel: Any = self.channel
        environment[ATTACH] = channel.attach
        return environment

    def finish(self) -> None:
        """An answer that goes on has only begun."""
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


def _channel_class(app: Flask, trusted_proxy: str) -> type[HTTPChannel]:
    class ApiErrorTask(ErrorTask):  # type: ignore[misc, unused-ignore]
        """A request that is too large or not HTTP, which the application never sees."""

        def execute(self) -> None:
            request: Any = self.request
            path = _path(request)
            request_id = middleware.request_id(request.headers.get("X_REQUEST_ID"))
            if path.startswith("/") and not middleware.is_api_path(path):
                self.response_headers = [(middleware.REQUEST_ID, request_id)]
                super().execute()
                return
            kind = _KINDS.get(request.error.code, "bad_request")
            detail = guard.TOO_LARGE if kind == "payload_too_large" else request.error.body
            content = envelope.body(kind, detail, path, request_id)
            status, _ = envelope.KINDS[kind]
            self.status = f"{status} {HTTPStatus(status).phrase}"
            gate = guard.settings_of(app)
            framing = middleware.response_headers(
                gate.headers, middleware.RequestContext(request_id, gate.buckets.untouched)
            )
            self.response_headers = [*self.response_headers, *cors.ALL, *framing, ("Content-Type", "application/json")]
            self.set_close_on_finish()
            self.content_length = len(content)
            if getattr(request, "command", "") != "HEAD":
                self.write(content)

    class Channel(HTTPChannel):  # type: ignore[misc, unused-ignore]
        parser_class = _Parser
        task_class = _Task
        error_task_class = ApiErrorTask
        listener: Any = None  # who answers the present request from a thread of its own
        is_chunked = False
        _closes_when_flushed = False

        def __init__(self, server: Any, sock: Any, addr: Any, adj: Any, map: Any = None) -> None:  # noqa: A002  its word
            self.network = network_of(addr[0])
            self.waiting_since = time.monotonic()
            super().__init__(server, sock, addr, adj, map)
            extra = connections.in_the_way(server.active_channels.values(), self, network_of(trusted_proxy))
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

        def writable(self) -> bool:
            """Not while a worker is sending: the serving thread would wake up again and again, find nothing to do, and
            keep the worker from the interpreter. A worker that waits for space to write does need it.
            """
            if not self.outbuf_lock.acquire(blocking=False):
                return bool(self.total_outbufs_len > self.adj.outbuf_high_watermark)
            self.outbuf_lock.release()
            return bool(super().writable())

    return Channel


def _path(request: Any) -> str:
    """What was asked for, as far as its first line tells: the parser may have given up before, or made up a path."""
    known: str = getattr(request, "path", "")
    if known and request.error.code != 431:
        return known
    begun: bytes = request.header_plus or getattr(request, "first_line", b"")
    words = begun.lstrip().partition(b"\r\n")[0].split(b" ")
    return words[1].partition(b"?")[0].decode("latin-1") if len(words) > 1 else ""
