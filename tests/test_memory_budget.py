"""The budget of memory, and the server that keeps to it: bodies, responses nobody reads, requests in a pipeline."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from flask import Flask, Response, request
from waitress.server import BaseWSGIServer

from edge import memory_budget
from edge.errors import TooLarge, Unavailable
from edge.memory_budget import HELD, MB, SMALL, WORK, Budget, cost_of, marks_in
from edge.server import connections
from tests.server.test_server import ASK, serving
from tests.service import wait_for

PATIENCE = 60.0
LARGE = 1 * MB
HEAD = b"POST / HTTP/1.1\r\nHost: box\r\n"


@pytest.fixture
def app() -> Flask:
    app = Flask("budget")
    app.add_url_rule("/", "size", view_func=lambda: f"{len(request.get_data())} bytes", methods=["GET", "POST"])
    app.add_url_rule("/large", "large", view_func=lambda: Response(b"#" * LARGE))
    return app


@pytest.fixture
def listener(app: Flask) -> Iterator[BaseWSGIServer]:
    with serving(app) as listener:
        yield listener
    assert (HELD.used, WORK.used) == (0, 0)


Connect = Callable[..., socket.socket]


@pytest.fixture
def connect(listener: BaseWSGIServer) -> Iterator[Connect]:
    """Connections with small receive buffers."""
    opened = []

    def connect(address: str = "127.0.0.1") -> socket.socket:
        client = socket.socket()
        opened.append(client)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.settimeout(PATIENCE)
        client.bind((address, 0))
        client.connect(("127.0.0.1", int(listener.effective_port)))
        return client

    yield connect
    for client in opened:
        client.close()
    wait_for(lambda: not listener.active_channels, PATIENCE)


def small_budget(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    monkeypatch.setattr(HELD, "_size", size)
    monkeypatch.setattr(HELD, "_most_of_owner", size)


def test_one_owner_has_a_share_and_all_together_the_whole() -> None:
    budget = Budget(10, most_of_owner=6)
    assert budget.take(6, "a")
    assert not budget.take(1, "a")
    assert budget.take(4, "b")
    assert not budget.take(1, "c")
    budget.give_back(6, "a")
    assert budget.take(5, "a")
    assert budget.used == 9


def test_a_small_request_is_granted_when_all_is_used() -> None:
    full = Budget(SMALL)
    assert full.take(SMALL)
    with full.holding(SMALL):
        assert full.used == SMALL
    with pytest.raises(Unavailable), full.holding(SMALL + 1):
        pass


def test_the_number_of_values_counts_and_not_only_their_bytes() -> None:
    for text in (b"[" + b"{}," * 400_000 + b"1]", b"&".join([b"a="] * 200_000)):
        with pytest.raises(TooLarge):
            cost_of(len(text), marks_in(text))
    assert cost_of(1_000_000, marks_in(b'{"name": "x"}')) < memory_budget.MOST_OF_REQUEST


def test_a_body_of_small_objects_is_refused_before_it_is_parsed(connect: Connect) -> None:
    body = b"[" + b"{}," * 300_000 + b"1]"
    with connect() as client:
        client.sendall(HEAD + b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        answer = client.recv(4096)
    assert answer.startswith(b"HTTP/1.1 413")


def test_bodies_beyond_the_budget_are_refused_and_small_ones_are_not(
    connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_budget(monkeypatch, MB)
    begun = HEAD + b"Content-Length: 2000000\r\n\r\n"
    slow, refused, small = connect(), connect(), connect()
    slow.sendall(begun + b"#" * 900_000)
    wait_for(lambda: HELD.used > 800_000, PATIENCE)
    refused.sendall(begun + b"#" * 2_000_000)
    answer = refused.recv(4096)
    assert answer.startswith(b"HTTP/1.1 503")
    assert b"Retry-After" in answer
    small.sendall(HEAD + b"Content-Length: 1000\r\n\r\n" + b"#" * 1000)
    assert small.recv(4096).startswith(b"HTTP/1.1 200")
    slow.close()
    wait_for(lambda: not HELD.used, PATIENCE)


def test_responses_nobody_reads_are_bounded_and_others_are_answered(
    connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before, 48 connections with a pipeline of 40 requests killed the service."""
    small_budget(monkeypatch, 3 * MB)
    greedy = [connect() for _ in range(8)]
    for client in greedy:
        client.sendall(b"GET /large HTTP/1.1\r\nHost: box\r\n\r\n" * 40)
    wait_for(lambda: HELD.used > 2 * MB, PATIENCE)
    statuses = sorted(client.recv(12)[-3:] for client in greedy)
    assert statuses == [b"200"] * 3 + [b"503"] * 5
    assert HELD.used <= 3 * MB
    other = connect("127.0.0.2")
    other.sendall(ASK)
    assert other.recv(4096).startswith(b"HTTP/1.1 200")


def test_requests_in_a_pipeline_are_answered_one_after_another(connect: Connect, listener: BaseWSGIServer) -> None:
    with connect() as client:
        client.sendall(b"GET /large HTTP/1.1\r\nHost: box\r\n\r\n" * 3 + b"GET / HTTP/1.1\r\nHost: box\r\n\r\n")
        assert client.recv(12)
        channels: list[Any] = list(listener.active_channels.values())
        assert sum(len(channel.requests) for channel in channels) <= 1
        received = b""
        while not received.endswith(b"0 bytes"):
            received += client.recv(65_536)
    assert received.count(b"#") == 3 * LARGE


@pytest.mark.parametrize("rest", [b"1;" + b"x" * 100_000, b"0\r\n" + b"x: y\r\n" * 20_000])
def test_the_framing_of_a_body_is_bounded(connect: Connect, rest: bytes) -> None:
    with connect() as client:
        client.sendall(HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + rest)
        assert client.recv(4096).startswith(b"HTTP/1.1 400")


def test_the_lines_of_a_head_are_bounded(connect: Connect) -> None:
    with connect() as client:
        client.sendall(b"GET / HTTP/1.1\r\n" + b"".join(b"X%d: \r\n" % n for n in range(500)) + b"\r\n")
        assert client.recv(4096).startswith(b"HTTP/1.1 400")


def test_memory_that_threads_have_freed_is_returned_to_the_system() -> None:
    """Before, each thread that had opened images kept their memory."""
    program = """
import threading
from pathlib import Path
from edge.memory_budget import return_freed_memory
return_freed_memory()
for _ in range(8):
    def work():
        for _ in range(3):
            pieces = [b"#" * (16 << 20) for _ in range(4)]
            rest = bytes(10)
            del pieces
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
print(Path("/proc/self/status").read_text().partition("VmRSS:")[2].split()[0])
"""
    printed = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, text=True).stdout
    assert int(printed) < 60_000


@pytest.mark.parametrize("path", [b"/large", b"/endless"])
def test_a_client_that_does_not_read_is_shut_out(
    app: Flask, connect: Connect, monkeypatch: pytest.MonkeyPatch, path: bytes
) -> None:
    """Before, eight of them kept all threads for as long as they liked."""
    app.add_url_rule("/endless", "endless", lambda: Response(b"#" * 65_536 for _ in range(10_000)))
    monkeypatch.setattr(connections, "ANSWER_SECONDS", 0.1)
    client = connect()
    client.sendall(b"GET %b HTTP/1.1\r\nHost: box\r\n\r\n" % path)
    assert client.recv(12).endswith(b"200")
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:  # it closes, although nothing is read meanwhile
        try:
            client.sendall(b"x")
        except OSError:
            break
        time.sleep(0.05)
    assert time.monotonic() < deadline


def test_a_client_that_reads_slowly_and_steadily_is_served(connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "ANSWER_SECONDS", 1.0)
    client = connect()
    client.sendall(b"GET /large HTTP/1.1\r\nHost: box\r\n\r\n")
    received = 0
    while received < LARGE:
        piece = client.recv(16_384)
        assert piece
        received += piece.count(b"#")
        time.sleep(0.01)


def test_behind_a_proxy_each_of_its_clients_has_a_share(app: Flask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(HELD, "_most_of_owner", MB)
    options: dict[str, Any] = {"trusted_proxy": "127.0.0.1", "trusted_proxy_headers": {"x-forwarded-for"}}
    statuses = []
    with serving(app, **options) as listener:
        clients = []
        for address in (b"10.0.0.1", b"10.0.0.1", b"10.0.0.2"):
            client = socket.socket()
            clients.append(client)
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.settimeout(PATIENCE)
            client.connect(("127.0.0.1", int(listener.effective_port)))
            client.sendall(b"GET /large HTTP/1.1\r\nHost: box\r\nX-Forwarded-For: %b\r\n\r\n" % address)
            statuses.append(client.recv(12)[-3:])
        for client in clients:
            client.close()
    assert statuses == [b"200", b"503", b"200"]


def test_one_address_or_site_never_has_all_memory_of_parsed_bodies() -> None:
    """Before, two large batches of one site kept those of all others from being unpacked."""
    budget = Budget(WORK._size, WORK._most_of_owner)
    with budget.holding(64 * MB, "site 1"), pytest.raises(Unavailable), budget.holding(64 * MB, "site 1"):
        pass
    with budget.holding(88 * MB, "site 1"), budget.holding(32 * MB, "site 2"):
        pass
    with budget.holding(104 * MB):  # an image, one at a time
        pass
    assert budget.used == 0


def test_temporary_files_of_the_service_are_not_in_memory() -> None:
    """Debian 13 has /tmp in memory, which counts toward the limit of the unit."""
    unit = Path(__file__).parents[1] / "systemd" / "edge.service"
    assert "Environment=TMPDIR=/var/tmp" in unit.read_text("utf-8").splitlines()
