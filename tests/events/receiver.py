"""A webhook receiver on a free port of 127.0.0.1, with answers chosen by the test."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple


class Received(NamedTuple):
    headers: dict[str, str]
    body: bytes

    @property
    def id(self) -> str:
        return self.headers["webhook-id"]

    @property
    def event(self) -> Any:
        return json.loads(self.body)


class Receiver:
    """`answer` maps a request to a status or (status, headers[, content]); None hangs until the test ends."""

    def __init__(self) -> None:
        self.received: list[Received] = []
        self.answer: Callable[[Received], Any] = lambda _: 204
        self.is_over = threading.Event()
        self._news = threading.Condition()
        handler = type("Handler", (_Handler,), {"receiver": self})
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/hook?from=edge"

    def take(self, one: Received) -> Any:
        with self._news:
            self.received.append(one)
            self._news.notify_all()
        return self.answer(one)

    def wait_for(self, number: int, seconds: float = 60) -> list[Received]:
        with self._news:
            if not self._news.wait_for(lambda: len(self.received) >= number, seconds):
                raise TimeoutError(f"{len(self.received)} of {number} within {seconds} s")
        return self.received

    def kinds(self) -> list[str]:
        return [one.event["type"] for one in self.received]


class _Handler(BaseHTTPRequestHandler):
    receiver: Receiver
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        answer = self.receiver.take(Received({name.lower(): value for name, value in self.headers.items()}, body))
        if answer is None:
            self.receiver.is_over.wait(60)
            self.close_connection = True
            return
        if answer == "drip":
            self._drip()
            return
        status, headers, *content = answer if isinstance(answer, tuple) else (answer, {})
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", "0")
        self.end_headers()
        self.wfile.write(b"".join(content))

    def _drip(self) -> None:
        """Send one byte at a time while the connection is open."""
        self.close_connection = True
        for byte in b"HTTP/1.1 200 OK\r\n" + b"X-Slow: 1\r\n" * 1000:
            try:
                self.wfile.write(bytes([byte]))
            except OSError:
                return
            if self.receiver.is_over.wait(0.05):
                return

    def log_message(self, *_: object) -> None:
        """Log nothing."""


@contextmanager
def receiving() -> Iterator[Receiver]:
    receiver = Receiver()
    thread = threading.Thread(target=receiver.server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield receiver
    finally:
        receiver.is_over.set()
        receiver.server.shutdown()
        thread.join()
        receiver.server.server_close()
