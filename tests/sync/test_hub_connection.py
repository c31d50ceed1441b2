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
from edge.events.checked_connection import Answer
from edge.memory_budget import Budget
from edge.outbound import Network, NotAllowed
from edge.sync import client
from edge.sync.client import HubClient
from edge.sync.sender import LinkError

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
MOVED = b"HTTP/1.1 307 Moved\r\nLocation: http://127.0.0.1:9/\r\nContent-Length: 0\r\n\r\n"


@contextmanager
def hub(serve: Callable[[socket.socket], None], seconds: float = 120) -> Iterator[HubClient]:
    """Run a server in a thread and yield a connection to it."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(60)  # a connection that never comes fails the test
        thread = threading.Thread(target=serve, args=(listening,))
        thread.start()
        connection = HubClient(f"http://127.0.0.1:{listening.getsockname()[1]}/box/", "", "", None, seconds=seconds)
        try:
            yield connection
        finally:
            connection.close()
            thread.join()


def post(client: HubClient, path: str = "/a") -> Answer:
    """Send a request. Raises the cause of a failure."""
    try:
        return client._send(path, b"", {})
    except LinkError as error:
        raise (error.__cause__ or error) from None


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
        assert [post(connection).content for _ in range(2)] == [b"ok", b"ok"]


def test_an_idle_connection_that_the_hub_closed_is_replaced() -> None:
    with hub(answering([ANSWER], [ANSWER])) as connection:
        assert post(connection).status == 200
        assert connection._connection
        assert connection._connection.sock
        connection._connection.sock.recv(1, socket.MSG_PEEK)  # waits for the end
        assert post(connection).status == 200


@pytest.mark.parametrize("answer", [ANSWER[:-1], ANSWER.replace(b"Content-Length: 2", b"Transfer-Encoding: chunked")])
def test_after_a_truncated_answer_the_next_request_reconnects(answer: bytes) -> None:
    with hub(answering([answer], [ANSWER])) as connection:
        with pytest.raises(IncompleteRead):
            post(connection)
        assert post(connection).content == b"ok"


def test_after_an_answer_that_never_came_the_next_request_connects_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "ANSWER_SECONDS", 0.05)
    is_over = threading.Event()

    def serve(listening: socket.socket) -> None:
        with listening.accept()[0]:
            answering([ANSWER])(listening)
            is_over.wait(60)

    with hub(serve) as connection:
        with pytest.raises(TimeoutError):
            post(connection)
        assert connection._connection
        connection._connection.timeout = 60
        try:
            assert post(connection).content == b"ok"
        finally:
            is_over.set()


def test_without_the_file_of_its_authority_a_hub_is_not_trusted(tmp_path: Path) -> None:
    with pytest.raises(ssl.SSLError, match=r"missing\.pem"):
        post(HubClient("https://127.0.0.1:9", "", "", tmp_path / "missing.pem"))


def test_the_address_may_have_a_path() -> None:
    received: list[bytes] = []

    def serve(listening: socket.socket) -> None:
        with listening.accept()[0] as accepted:
            received.append(accepted.recv(10_000))
            accepted.sendall(ANSWER)

    with hub(serve) as connection:
        post(connection, "/sync/v1/hello")
    assert received[0].startswith(b"POST /box/sync/v1/hello HTTP/1.1\r\n")


def test_redirects_are_not_followed() -> None:
    with hub(answering([MOVED])) as connection:
        assert post(connection).status == 307


@pytest.mark.parametrize(
    ("url", "port"),
    [("https://[2001:db8::1]", 443), ("https://[2001:db8::1]:8080", 8080), ("https://hub.example/box", 443)],
)
def test_the_port_is_the_usual_one_unless_the_url_names_one(
    url: str, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, int]] = []

    def connect(host: str, port: int, _network: Network, *, is_encrypted: bool) -> socket.socket:
        assert is_encrypted
        asked.append((host, port))
        raise ConnectionRefusedError

    monkeypatch.setattr(checked_connection, "connect", connect)
    with pytest.raises(ConnectionRefusedError):
        post(HubClient(url, "", "", None))
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
                post(connection)
        finally:
            is_over.set()


def test_no_more_of_an_answer_is_read_than_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "MAX_SMALL_ANSWER", 100_000)

    def serve(listening: socket.socket) -> None:
        with listening.accept()[0] as accepted, suppress(OSError):
            accepted.recv(10_000)
            accepted.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 50000000\r\n\r\n" + b"x" * 1_000_000)

    with hub(serve) as connection:
        assert len(post(connection).content) == 100_000


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
            assert len(post(connection).content) == 400_000
            assert tracemalloc.get_traced_memory()[1] - before < 5_000_000
        finally:
            tracemalloc.stop()


def test_without_room_in_the_memory_budget_a_large_answer_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checked_connection, "WORK", Budget(1_000))
    large = ANSWER.replace(b"Content-Length: 2", b"Content-Length: 2000")
    with hub(answering([ANSWER, large])) as connection:
        assert post(connection).content == b"ok"
        with pytest.raises(OSError, match="memory"):
            post(connection)


def test_a_page_reaches_no_program_on_this_box() -> None:
    def nobody(listening: socket.socket) -> None:
        listening.settimeout(0)
        with pytest.raises(BlockingIOError):
            listening.accept()

    with hub(nobody) as connection, pytest.raises(NotAllowed, match="this box itself"):
        post(HubClient(connection._url, "", "", None, Network.PRIVATE))
