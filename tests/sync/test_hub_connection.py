"""The site's connection to its hub, over a socket."""

from __future__ import annotations

import socket
import ssl
import threading
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.client import IncompleteRead
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from edge.events import checked_connection
from edge.memory_budget import Budget
from edge.outbound import Network, NotAllowed
from edge.sync import hub_connection
from edge.sync.hub_connection import HubConnection

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
MOVED = b"HTTP/1.1 307 Moved\r\nLocation: http://127.0.0.1:9/\r\nContent-Length: 0\r\n\r\n"


@contextmanager
def hub(serve: Callable[[socket.socket], None], seconds: float = 30) -> Iterator[HubConnection]:
    """Run a server in a thread and yield a connection to it."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(10)  # a connection that never comes fails the test
        thread = threading.Thread(target=serve, args=(listening,))
        thread.start()
        connection = HubConnection(f"http://127.0.0.1:{listening.getsockname()[1]}/box/", None, seconds=seconds)
        try:
            yield connection
        finally:
            connection.close()
            thread.join()


def answering(*connections: list[bytes]) -> Callable[[socket.socket], None]:
    """Return a server that accepts one connection for each list, and gives its answers there."""

    def serve(listening: socket.socket) -> None:
        for answers in connections:
            with listening.accept()[0] as accepted:
                for answer in answers:
                    accepted.recv(10_000)
                    accepted.sendall(answer)

    return serve


def test_the_connection_stays_open() -> None:
    with hub(answering([ANSWER, ANSWER])) as connection:
        assert [connection.post("/a", b"", {}).content for _ in range(2)] == [b"ok", b"ok"]


def test_an_idle_connection_that_the_hub_closed_is_replaced() -> None:
    with hub(answering([ANSWER], [ANSWER])) as connection:
        assert connection.post("/a", b"", {}).status == 200
        assert connection._connection
        assert connection._connection.sock
        connection._connection.sock.recv(1, socket.MSG_PEEK)  # waits for the end
        assert connection.post("/a", b"", {}).status == 200


@pytest.mark.parametrize("answer", [ANSWER[:-1], ANSWER.replace(b"Content-Length: 2", b"Transfer-Encoding: chunked")])
def test_after_a_truncated_answer_the_next_request_reconnects(answer: bytes) -> None:
    with hub(answering([answer], [ANSWER])) as connection:
        with pytest.raises(IncompleteRead):
            connection.post("/a", b"", {})
        assert connection.post("/a", b"", {}).content == b"ok"


def test_after_an_answer_that_never_came_the_next_request_connects_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub_connection, "ANSWER_SECONDS", 0.05)
    is_over = threading.Event()

    def serve(listening: socket.socket) -> None:
        with listening.accept()[0]:
            answering([ANSWER])(listening)
            is_over.wait(10)

    with hub(serve) as connection:
        with pytest.raises(TimeoutError):
            connection.post("/a", b"", {})
        assert connection._connection
        connection._connection.timeout = 10
        try:
            assert connection.post("/a", b"", {}).content == b"ok"
        finally:
            is_over.set()


def test_without_the_file_of_its_authority_a_hub_is_not_trusted(tmp_path: Path) -> None:
    with pytest.raises(ssl.SSLError, match=r"missing\.pem"):
        HubConnection("https://127.0.0.1:9", tmp_path / "missing.pem").post("/a", b"", {})


def test_the_address_may_have_a_path() -> None:
    received: list[bytes] = []

    def serve(listening: socket.socket) -> None:
        with listening.accept()[0] as accepted:
            received.append(accepted.recv(10_000))
            accepted.sendall(ANSWER)

    with hub(serve) as connection:
        connection.post("/sync/v1/hello", b"", {})
    assert received[0].startswith(b"POST /box/sync/v1/hello HTTP/1.1\r\n")


def test_redirects_are_not_followed() -> None:
    with hub(answering([MOVED])) as connection:
        assert connection.post("/a", b"secret", {}).status == 307


@pytest.mark.parametrize(
    ("url", "port"), [("http://[2001:db8::1]", 80), ("http://[2001:db8::1]:8080", 8080), ("http://hub.example/box", 80)]
)
def test_the_port_is_the_usual_one_unless_the_url_names_one(
    url: str, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, int]] = []

    def connect(host: str, port: int, _network: Network, *, is_encrypted: bool) -> socket.socket:
        assert not is_encrypted
        asked.append((host, port))
        raise ConnectionRefusedError

    monkeypatch.setattr(checked_connection, "connect", connect)
    with pytest.raises(ConnectionRefusedError):
        HubConnection(url, None).post("/a", b"", {})
    assert asked[0] == (urlsplit(url).hostname, port)


def test_a_hub_that_sends_single_bytes_is_cut_off_after_a_time_in_all() -> None:
    is_over = threading.Event()

    def serve(listening: socket.socket) -> None:
        with listening.accept()[0] as accepted:
            accepted.recv(10_000)
            with suppress(OSError):
                accepted.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
                while not is_over.wait(0.02):
                    accepted.sendall(b"x")

    with hub(serve, seconds=0.5) as connection:
        try:
            with pytest.raises(TimeoutError):
                connection.post("/a", b"", {})
        finally:
            is_over.set()


def test_no_more_of_an_answer_is_read_than_asked_for() -> None:
    def serve(listening: socket.socket) -> None:
        with listening.accept()[0] as accepted, suppress(OSError):
            accepted.recv(10_000)
            accepted.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 50000000\r\n\r\n" + b"x" * 1_000_000)

    with hub(serve) as connection:
        assert len(connection.post("/a", b"", {}, 100_000).content) == 100_000


def test_many_small_chunks_take_little_more_memory_than_their_content() -> None:
    chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"2\r\nxx\r\n" * 200_000 + b"0\r\n\r\n"

    def serve(listening: socket.socket) -> None:
        with listening.accept()[0] as accepted, suppress(OSError):
            accepted.recv(10_000)
            accepted.sendall(chunked)

    with hub(serve) as connection:
        tracemalloc.start()
        try:
            before = tracemalloc.get_traced_memory()[0]
            assert len(connection.post("/a", b"", {}).content) == 400_000
            assert tracemalloc.get_traced_memory()[1] - before < 5_000_000
        finally:
            tracemalloc.stop()


def test_without_room_in_the_memory_budget_a_large_answer_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checked_connection, "WORK", Budget(1_000))
    large = ANSWER.replace(b"Content-Length: 2", b"Content-Length: 2000")
    with hub(answering([ANSWER, large])) as connection:
        assert connection.post("/a", b"", {}).content == b"ok"
        with pytest.raises(OSError, match="memory"):
            connection.post("/a", b"", {})


def test_a_page_reaches_no_program_on_this_box() -> None:
    def nobody(listening: socket.socket) -> None:
        listening.settimeout(0)
        with pytest.raises(BlockingIOError):
            listening.accept()

    with hub(nobody) as connection, pytest.raises(NotAllowed, match="this box itself"):
        HubConnection(connection._url, None, Network.PRIVATE).post("/a", b"", {})
