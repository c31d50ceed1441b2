"""The HTTP server: waitress with our own channels; see `channels` for how they differ, and why."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from flask import Flask
from waitress.server import BaseWSGIServer, MultiSocketServer, create_server

from edge.limits import client_network
from edge.server import connections
from edge.server.channels import Channel
from edge.server.turns import Turns
from edge.server.workers import Workers

MAX_READ = 8 * 1024 * 1024
MAX_IN_MEMORY = 64 * 1024  # of one body; the rest of it goes to a temporary file
MAX_HEADERS = 64 * 1024
# Otherwise the system keeps up to 4 MB of a response for each connection, in the memory of this unit.
MOST_SENDING = 128 * 1024


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
        **{"outbuf_high_watermark": connections.MOST_UNREAD, **options},
    )
    trusted_network = client_network(options.get("trusted_proxy", ""))
    turns = Turns()
    for listener in _listeners(server):
        listener.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, MOST_SENDING)  # its connections have it, too
        listener.channel_class = partial(Channel, app=app, trusted_network=trusted_network, turns=turns)
        listener.readable = partial(_begin_turns, turns, listener.readable)
        listener.maintenance = _Maintenance(listener)
    return server


def stop(server: BaseWSGIServer | MultiSocketServer, seconds: int) -> None:
    """Requests being answered get that long. The serving thread closes its sockets itself, or its select fails."""
    server.task_dispatcher.shutdown(timeout=seconds)
    for listener in _listeners(server):
        _close(listener)


def stuck_seconds(server: BaseWSGIServer | MultiSocketServer) -> float:
    """How long the serving thread has not looked at its connections, or requests waited and no thread began one."""
    workers: Any = server.task_dispatcher
    oldest: float = min(listener.maintenance.looked_at for listener in _listeners(server))
    waited: float = workers.stuck_seconds()
    return max(time.monotonic() - oldest, waited)


def _close(listener: Any) -> None:
    """By the serving thread. It may be awake already, and must not close what is still being written to wake it."""
    is_told = threading.Event()

    def close() -> None:
        is_told.wait()
        for channel in listener.active_channels.values():  # a browser, or Caddy, keeps its connections for minutes
            channel.close_soon()
        listener.close()

    try:
        listener.trigger.pull_trigger(close)
    finally:
        is_told.set()


def _begin_turns(turns: Turns, readable: Callable[[], bool]) -> bool:
    """Each time around, waitress asks every listener first whether it takes more connections."""
    turns.begin()
    return readable()


def _listeners(server: BaseWSGIServer | MultiSocketServer) -> list[Any]:
    parts = list((server.map or {}).values()) if isinstance(server, MultiSocketServer) else [server]
    return [part for part in parts if isinstance(part, BaseWSGIServer)]


class _Maintenance:
    """Called by the serving thread about once a second: closes the connections of clients that are late."""

    def __init__(self, listener: BaseWSGIServer) -> None:
        self._listener = listener
        self.looked_at = time.monotonic()

    def __call__(self, _now: float) -> None:
        self.looked_at = time.monotonic()
        open_channels: dict[int, Any] = self._listener.active_channels  # type: ignore[assignment]
        for channel in list(open_channels.values()):
            if connections.is_late(channel, time.monotonic()):
                channel.leave()
