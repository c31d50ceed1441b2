"""The HTTP server, seen by clients that read slowly or not at all."""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest
from flask import Flask, Response, request
from waitress.channel import HTTPChannel
from waitress.server import BaseWSGIServer

from edge.api import guard
from edge.pages.guard import MAX_UPLOAD
from edge.server import connections, server
from edge.server.channels import Channel
from tests.application import make_services

ASK = b"GET / HTTP/1.1\r\nHost: box\r\n\r\n"
PIECE, PIECES = b"#" * 65_536, 100


@contextmanager
def serving(app: Flask, **options: Any) -> Iterator[BaseWSGIServer]:
    listener = server.create(app, "127.0.0.1", 0, 2, **options)
    assert isinstance(listener, BaseWSGIServer)
    thread = threading.Thread(target=listener.run, daemon=True)
    thread.start()
    try:
        yield listener
    finally:
        server.stop(listener, 5)
        thread.join(60)
        assert not thread.is_alive()


def app_that_answers(content: Iterator[bytes] | bytes) -> Flask:
    app = Flask("slow")
    app.add_url_rule("/", view_func=lambda: Response(content))
    return app


def test_a_worker_that_is_sending_does_not_keep_the_serving_thread_awake(monkeypatch: pytest.MonkeyPatch) -> None:
    is_sending, may_go_on = threading.Event(), threading.Event()
    woken_for: list[HTTPChannel] = []
    send, handle_write = HTTPChannel.send, HTTPChannel.handle_write

    def send_late(channel: HTTPChannel, data: bytes, *, do_close: bool = True) -> Any:
        if not is_sending.is_set():
            is_sending.set()
            assert may_go_on.wait(60)
        return send(channel, data, do_close=do_close)

    def count(channel: HTTPChannel) -> None:
        woken_for.append(channel)
        handle_write(channel)

    monkeypatch.setattr(HTTPChannel, "send", send_late)
    monkeypatch.setattr(HTTPChannel, "handle_write", count)
    with serving(app_that_answers(b"done")) as listener:
        address = ("127.0.0.1", listener.effective_port)
        with socket.create_connection(address, 30) as first:
            first.sendall(ASK)
            assert is_sending.wait(60)
            with socket.create_connection(address, 30) as second:
                second.sendall(ASK)
                assert second.recv(4096).startswith(b"HTTP/1.1 200")
            assert woken_for == []
            may_go_on.set()
            assert first.recv(4096).startswith(b"HTTP/1.1 200")


def test_a_worker_waiting_for_space_to_write_wakes_the_serving_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    has_looked = threading.Event()
    pull_trigger = BaseWSGIServer.pull_trigger

    def pull_trigger_and_be_looked_at(listener: BaseWSGIServer) -> None:
        has_looked.clear()
        pull_trigger(listener)
        assert has_looked.wait(60)

    monkeypatch.setattr(BaseWSGIServer, "pull_trigger", pull_trigger_and_be_looked_at)
    app = app_that_answers(PIECE for _ in range(PIECES))
    with serving(app, outbuf_high_watermark=len(PIECE), asyncore_loop_timeout=3600) as listener:
        writable = Channel.writable

        def look(channel: HTTPChannel) -> bool:
            found: bool = writable(channel)
            has_looked.set()
            return found

        monkeypatch.setattr(Channel, "writable", look)
        with socket.create_connection(("127.0.0.1", listener.effective_port), 30) as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
            client.sendall(ASK)
            received = 0
            while received < PIECES * len(PIECE):
                received += client.recv(65_536).count(b"#")


def test_what_wakes_the_serving_thread_is_open_until_it_was_written_to() -> None:
    """That thread may be awake anyway when the server is stopped, and then acts at once."""
    is_closed = threading.Event()
    with serving(app_that_answers(b"done")) as listener:
        wake, close = listener.trigger._physical_pull, listener.close

        def wake_twice() -> None:
            wake()
            is_closed.wait(0.05)
            wake()

        def closing() -> None:
            close()
            is_closed.set()

        listener.trigger._physical_pull, listener.close = wake_twice, closing  # type: ignore[method-assign]
    assert is_closed.is_set()


def test_a_kept_connection_does_not_delay_the_stop_or_cut_answers() -> None:
    """Each restart and each upgrade waited for half a second where a browser or Caddy was connected."""
    pieces: list[bytes] = []
    with ExitStack() as clients:
        with serving(app_that_answers(PIECE * PIECES)) as listener:
            address = ("127.0.0.1", listener.effective_port)
            idle, busy = (clients.enter_context(socket.create_connection(address, 30)) for _ in "ab")
            busy.sendall(ASK)
            pieces.append(busy.recv(65_536))
            reading = threading.Thread(target=lambda: pieces.extend(iter(lambda: busy.recv(65_536), b"")))
            reading.start()
        assert idle.recv(1) == b""
        reading.join()
    assert b"".join(pieces).count(b"#") == PIECES * len(PIECE)


def test_two_hundred_idle_connections_lock_nobody_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "FRESH_SECONDS", -1)
    with serving(app_that_answers(b"done")) as listener, ExitStack() as idle:
        address = ("127.0.0.1", listener.effective_port)
        for _ in range(200):
            idle.enter_context(socket.create_connection(address, 30))
        with socket.create_connection(address, 30) as client:
            client.sendall(ASK)
            assert client.recv(4096).startswith(b"HTTP/1.1 200")


def test_a_file_as_large_as_the_pages_take_arrives_whole() -> None:
    app = Flask("uploads")
    app.add_url_rule("/", methods=["POST"], view_func=lambda: str(len(request.get_data())))
    size = MAX_UPLOAD - 1
    with serving(app) as listener, socket.create_connection(("127.0.0.1", listener.effective_port), 30) as client:
        client.sendall(b"POST / HTTP/1.1\r\nHost: box\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % size)
        client.sendall(b"#" * size)
        answer = b"".join(iter(lambda: client.recv(4096), b""))
    assert answer.endswith(b"\r\n\r\n%d" % size)


@pytest.mark.parametrize(
    ("version", "head"),
    [
        (b"1", b"Host: box\r\nContent-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nG"),
        (b"1", b"Host: box\r\nHost: other\r\n\r\n"),
        (b"1", b"Host: box, other\r\n\r\n"),
        (b"0", b"Host: box\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n"),
    ],
)
def test_a_request_that_a_proxy_may_read_in_another_way_is_refused(version: bytes, head: bytes) -> None:
    """The connection ends, so what follows is not taken for a request either."""
    asked: list[str] = []
    app = Flask("framing")
    app.before_request(lambda: asked.append(request.method))
    guard.install(app, guard.guard_for(make_services()))
    with serving(app) as listener, socket.create_connection(("127.0.0.1", listener.effective_port), 30) as client:
        client.sendall(b"POST / HTTP/1.%b\r\n" % version + head + ASK)
        answer = b"".join(iter(lambda: client.recv(65_536), b""))
    assert re.findall(rb"HTTP/1\.. \d+", answer) == [b"HTTP/1.%b 400" % version]
    assert asked == []
