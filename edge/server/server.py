"""The HTTP server: waitress with custom channels and workers, see `channels` and `workers`."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from flask import Flask
from waitress.server import BaseWSGIServer, MultiSocketServer, create_server

from edge.rate_limits import client_network
from edge.server import connections
from edge.server.channels import Channel
from edge.server.turns import Turns
from edge.server.workers import Workers

MAX_READ = 8 * 1024 * 1024
MAX_IN_MEMORY = 64 * 1024  # bytes of a body; larger ones go to a temporary file
MAX_HEADERS = 64 * 1024
# The kernel would buffer up to 4 MB per connection, which counts as memory of this unit.
MOST_SENDING = 128 * 1024


def create(app: Flask, host: str, port: int, threads: int, **options: Any) -> BaseWSGIServer | MultiSocketServer:
    """Return a server that is listening; call `run()` to serve. Raises OSError if the address is in use."""
    server = create_server(
        app,
        host=host,
        port=port,
        _dispatcher=Workers(threads),  # type: ignore[arg-type]  # typed as waitress's own class
        connection_limit=connections.MOST + 2 * connections.MOST_REFUSED,  # closing connections count, too
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
        listener.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, MOST_SENDING)  # inherited by its connections
        listener.channel_class = partial(Channel, app=app, trusted_network=trusted_network, turns=turns)
        listener.readable = partial(_begin_turns, turns, listener.readable)
        listener.maintenance = _Maintenance(listener)
    return server


def stop(server: BaseWSGIServer | MultiSocketServer, seconds: int) -> None:
    """Wait for current requests, at most `seconds`, and close all listeners on the serving thread, as select()
    requires.
    """
    server.task_dispatcher.shutdown(timeout=seconds)
    for listener in _listeners(server):
        _close(listener)


def stuck_seconds(server: BaseWSGIServer | MultiSocketServer) -> float:
    """Return how long the serving thread, or all workers with requests waiting, have made no progress."""
    workers: Any = server.task_dispatcher
    oldest: float = min(listener.maintenance.looked_at for listener in _listeners(server))
    waited: float = workers.stuck_seconds()
    return max(time.monotonic() - oldest, waited)


def _close(listener: Any) -> None:
    """Close a listener on the serving thread. It waits until the trigger is written, because `close` closes the
    trigger, too.
    """
    is_triggered = threading.Event()

    def close() -> None:
        is_triggered.wait()
        for channel in listener.active_channels.values():  # browsers and Caddy keep connections open for minutes
            channel.close_soon()
        listener.close()

    try:
        listener.trigger.pull_trigger(close)
    finally:
        is_triggered.set()


def _begin_turns(turns: Turns, readable: Callable[[], bool]) -> bool:
    """Start a round of turns. waitress calls `readable` of each listener first in each round."""
    turns.begin()
    return readable()


def _listeners(server: BaseWSGIServer | MultiSocketServer) -> list[Any]:
    sockets = list((server.map or {}).values()) if isinstance(server, MultiSocketServer) else [server]
    return [one for one in sockets if isinstance(one, BaseWSGIServer)]


class _Maintenance:
    """Disconnects late clients. Called by the serving thread about once a second."""

    def __init__(self, listener: BaseWSGIServer) -> None:
        self._listener = listener
        self.looked_at = time.monotonic()

    def __call__(self, _now: float) -> None:
        self.looked_at = time.monotonic()
        open_channels: dict[int, Any] = self._listener.active_channels  # type: ignore[assignment]
        for channel in list(open_channels.values()):
            if connections.is_late(channel, time.monotonic()):
                channel.leave()
