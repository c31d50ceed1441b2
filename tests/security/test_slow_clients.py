"""Slow clients are disconnected and do not block others."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from types import SimpleNamespace
from typing import Any

import pytest
from flask import Flask, Response, request
from waitress.server import BaseWSGIServer

from edge.rate_limits import client_network
from edge.server import connections, receiving
from edge.server.connections import MOST, MOST_OF_ADDRESS, connection_to_close, is_late
from tests.server.test_server import ASK, serving
from tests.service import wait_for

PATIENCE = 60
POST = b"POST / HTTP/1.1\r\nHost: box\r\nContent-Length: 5\r\n\r\nhello"
SLOW = b"POST / HTTP/1.1\r\nHost: box\r\nContent-Length: 1000\r\n"


@pytest.fixture
def app() -> Flask:
    app = Flask("slow")

    def answer() -> Response:
        return Response(f"{len(request.environ['wsgi.input'].read())} of {request.content_length}")

    app.add_url_rule("/", view_func=answer, methods=["GET", "POST"])
    return app


@pytest.fixture
def listener(app: Flask) -> Iterator[BaseWSGIServer]:
    with serving(app) as listener:
        yield listener


def connect(listener: BaseWSGIServer, address: str = "127.0.0.1") -> socket.socket:
    return socket.create_connection(("127.0.0.1", listener.effective_port), PATIENCE, source_address=(address, 0))


def ask(client: socket.socket, request: bytes = ASK) -> bytes:
    client.sendall(request)
    return client.recv(65_536)


def ask_to_the_end(client: socket.socket, request: bytes) -> bytes:
    client.sendall(request)
    return b"".join(iter(lambda: client.recv(65_536), b""))


def channel(
    waiting_since: float = 0.0,
    *,
    network: str = "",
    request: Any = None,
    requests: tuple[int, ...] = (),
    listener: object = None,
    is_refused: bool = False,
) -> Any:
    return SimpleNamespace(
        waiting_since=waiting_since,
        network=network,
        request=request,
        requests=requests,
        will_close=False,
        last_activity=0.0,
        listener=listener,
        total_outbufs_len=0,
        drained_since=None,
        is_refused=is_refused,
    )


def part(received: int = 0, *, headers_finished: bool = True) -> Any:
    return SimpleNamespace(headers_finished=headers_finished, body_bytes_received=received)


@pytest.mark.parametrize(
    ("waited", "request_", "late"),
    [
        (connections.IDLE_SECONDS - 1, None, False),
        (connections.IDLE_SECONDS + 1, None, True),
        (connections.HEAD_SECONDS - 1, part(headers_finished=False), False),
        (connections.HEAD_SECONDS + 1, part(headers_finished=False), True),
        (connections.BODY_SECONDS - 1, part(), False),
        (connections.BODY_SECONDS + 1, part(), True),
        (connections.BODY_SECONDS + 10, part(10 * connections.BODY_BYTES_PER_SECOND), False),
        (connections.BODY_SECONDS + 10, part(9 * connections.BODY_BYTES_PER_SECOND), True),
    ],
)
def test_which_clients_are_late(waited: float, request_: Any, late: bool) -> None:
    assert is_late(channel(0.0, request=request_), waited) is late
    assert not is_late(channel(0.0, request=request_, requests=(1,)), waited)  # the server is the one that is waiting


def test_a_refused_client_may_finish_sending_for_a_while() -> None:
    refused = channel(0.0)
    refused.drained_since = 5.0
    assert not is_late(refused, 5.0 + connections.DRAIN_SECONDS)
    assert is_late(refused, 6.0 + connections.DRAIN_SECONDS)


def test_the_network_of_a_client() -> None:
    assert client_network("192.168.1.5") != client_network("192.168.1.6")
    assert (
        client_network("2001:db8:0:1::1") == client_network("2001:db8:0:1:ffff::2") != client_network("2001:db8:0:2::1")
    )
    assert client_network("::ffff:10.0.0.1") == client_network("10.0.0.1")
    assert client_network("fe80::1%eth0") == client_network("fe80::2")


def test_the_longest_idle_connection_of_a_full_address_is_evicted() -> None:
    own = [channel(float(number), network="a") for number in range(MOST_OF_ADDRESS)]
    other, newcomer = channel(-1.0, network="b"), channel(999.0, network="a")
    assert connection_to_close([other, *own, newcomer], newcomer, "") is own[0]
    assert connection_to_close([other, *own[1:], newcomer], newcomer, "") is None
    assert connection_to_close([other, *own, newcomer], newcomer, "a") is None
    busy = [channel(network="a", requests=(1,)) for _ in own]
    assert connection_to_close([*busy, newcomer], newcomer, "") is newcomer


@pytest.mark.parametrize("of_others", [{"request": part()}, {"requests": (1,)}, {"waiting_since": 998.5}])
def test_a_connection_is_not_idle_while_its_request_is_coming(of_others: dict[str, Any]) -> None:
    others = [channel(**{"waiting_since": 1.0, **of_others}, network="a") for _ in range(MOST_OF_ADDRESS)]
    newcomer = channel(999.0, network="a")
    assert connection_to_close([*others, newcomer], newcomer, "") is newcomer


def test_an_address_with_most_of_the_places_leaves_some_to_others() -> None:
    heads = [channel(float(no), network="a", request=part(headers_finished=False)) for no in range(MOST // 2)]
    bodies = [channel(float(no), network=f"b{no % 2}", request=part()) for no in range(MOST // 2)]
    newcomer = channel(999.0, network="c")
    assert connection_to_close([*bodies, *heads, newcomer], newcomer, "") is heads[0]
    others = [channel(network=str(no), request=part()) for no in range(MOST // 2)]
    assert connection_to_close([*bodies, *others, newcomer], newcomer, "") is bodies[0]
    assert connection_to_close([*others, *(channel(requests=(1,)) for _ in heads), newcomer], newcomer, "") is newcomer


def test_addresses_with_slow_bodies_do_not_displace_a_head_that_comes_slowly() -> None:
    greedy = [channel(float(no), network=f"b{no % 3}", request=part()) for no in range(MOST - 1)]
    slow = channel(-1.0, network="a", request=part(headers_finished=False))
    for network in ("b0", "b1", "c"):
        newcomer = channel(999.0, network=network)
        assert connection_to_close([slow, *greedy, newcomer], newcomer, "") is not slow


def test_a_streamed_response_is_not_idle() -> None:
    """It has no request any more, and waits for a long time."""
    streams = [channel(float(number), network="a", listener=object()) for number in range(MOST_OF_ADDRESS)]
    newcomer = channel(1e9, network="a")
    assert connection_to_close([*streams, newcomer], newcomer, "") is None
    idle = [channel(100.0 + number, network="a") for number in range(MOST_OF_ADDRESS)]
    assert connection_to_close([*streams, *idle, newcomer], newcomer, "") is idle[0]
    many = [channel(float(number), network="a", listener=object()) for number in range(MOST - 1)]
    assert connection_to_close([*many, idle[0], newcomer], newcomer, "a") is idle[0]


def test_the_longest_idle_connection_is_evicted_when_all_places_are_taken() -> None:
    others = [channel(float(number), network=str(number)) for number in range(MOST)]
    newcomer = channel(1e9, network="new")
    assert connection_to_close([*others, newcomer], newcomer, "") is others[0]


def test_connections_without_a_place_are_limited_and_wait_as_long_as_for_a_head() -> None:
    own = [channel(0.0, network="a", is_refused=True) for _ in range(connections.MOST_REFUSED_OF_ADDRESS)]
    newcomer, other = channel(network="a"), channel(network="b")
    assert connections.is_answered([*own[1:], newcomer], newcomer)
    assert not connections.is_answered([*own, newcomer], newcomer)
    assert connections.is_answered([*own, other], other)
    every = [channel(network=str(number), is_refused=True) for number in range(connections.MOST_REFUSED)]
    assert not connections.is_answered([*every, other], other)
    assert not is_late(own[0], connections.HEAD_SECONDS - 1)
    assert is_late(own[0], connections.HEAD_SECONDS + 1)


@pytest.mark.parametrize("begun", [SLOW, SLOW + b"\r\nx", b"GET"])
def test_unfinished_requests_are_disconnected(
    listener: BaseWSGIServer, monkeypatch: pytest.MonkeyPatch, begun: bytes
) -> None:
    monkeypatch.setattr(connections, "HEAD_SECONDS", 0.1)
    monkeypatch.setattr(connections, "BODY_SECONDS", 0.1)
    with connect(listener) as client:
        assert ask(client, begun) == b""


def test_many_slow_clients_do_not_block_others(listener: BaseWSGIServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Regression: nobody else got a response until the slow clients gave up."""
    monkeypatch.setattr(connections, "MOST", MOST // 4)  # both ends of each connection are files of this process
    with ExitStack() as crowd:
        for number in range(MOST // 4 + 120):
            slow = crowd.enter_context(connect(listener, f"127.2.{number // 250}.{number % 250 + 1}"))
            slow.sendall(SLOW)
        with connect(listener) as client:
            assert ask(client).startswith(b"HTTP/1.1 200")


def test_every_one_of_200_connections_of_a_client_is_answered(listener: BaseWSGIServer) -> None:
    with ExitStack() as crowd:
        parallel = [crowd.enter_context(connect(listener, "127.0.0.9")) for _ in range(200)]
        for one in parallel[:100]:
            one.sendall(POST[:-1])  # the body is still arriving when the others connect
        for one in parallel[100:]:
            one.sendall(POST)
        for one in parallel[:100]:
            one.sendall(POST[-1:])
        assert {one.recv(65_536)[:12] for one in parallel} == {b"HTTP/1.1 200"}


def test_more_connections_of_one_address_are_answered_503(
    listener: BaseWSGIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "MOST_OF_ADDRESS", 3)
    monkeypatch.setattr(connections, "MOST_REFUSED_OF_ADDRESS", 2)
    with ExitStack() as crowd:
        first = [crowd.enter_context(connect(listener, "127.0.0.9")) for _ in range(3)]
        for one in first:
            one.sendall(POST[:-1])
        wait_for(lambda: [bool(one.request) for one in active(listener)] == [True] * 3, PATIENCE)
        refused = [crowd.enter_context(connect(listener, "127.0.0.9")) for _ in range(2)]
        wait_for(lambda: len(active(listener)) == 5, PATIENCE)
        last = crowd.enter_context(connect(listener, "127.0.0.9"))
        assert last.recv(1) == b""
        for one in refused:
            answer = ask_to_the_end(one, POST)
            assert answer.startswith(b"HTTP/1.1 503")
            assert b"Retry-After:" in answer
            assert b"Too many connections" in answer
        for one in first:
            assert ask(one, POST[-1:]).startswith(b"HTTP/1.1 200")


def active(listener: BaseWSGIServer) -> list[Any]:
    return list(listener.active_channels.values())


def test_the_trusted_proxy_speaks_for_everybody(app: Flask) -> None:
    options = {"trusted_proxy": "127.0.0.1", "trusted_proxy_headers": {"x-forwarded-for"}}
    with serving(app, **options) as listener, ExitStack() as crowd:
        slow = [crowd.enter_context(connect(listener)) for _ in range(MOST_OF_ADDRESS + 10)]
        assert ask(slow[0]).startswith(b"HTTP/1.1 200")


def test_a_head_in_single_bytes_is_refused(listener: BaseWSGIServer) -> None:
    parser = receiving.Parser(listener.adj, channel=SimpleNamespace(owner_of=lambda _: "", is_refused=False))  # type: ignore[arg-type]
    for _ in range(connections.MOST_PIECES + 1):
        parser.received(b"x")
    assert parser.completed
    assert parser.error.code == 400


@pytest.mark.parametrize("chunked", [False, True])
def test_bodies_for_routes_without_a_body_are_not_stored(listener: BaseWSGIServer, chunked: bool) -> None:
    size = 6 * 1024 * 1024
    body, framing = b"x" * size, f"Content-Length: {size}"
    if chunked:
        body, framing = b"%x\r\n%b\r\n0\r\n\r\n" % (size, body), "Transfer-Encoding: chunked"
    with connect(listener) as client:
        client.sendall(f"POST / HTTP/1.1\r\nHost: box\r\nConnection: close\r\n{framing}\r\n\r\n".encode() + body)
        answer = b"".join(iter(lambda: client.recv(65_536), b""))
    kept, _, announced = answer.rpartition(b"\r\n")[2].decode().partition(" of ")
    assert int(announced) == size
    assert int(kept) <= receiving.MAX_BODY


def test_threads_are_not_held_by_bodies(listener: BaseWSGIServer) -> None:
    with ExitStack() as crowd:
        for _ in range(MOST_OF_ADDRESS - 1):
            crowd.enter_context(connect(listener)).sendall(SLOW + b"\r\nx")
        answers: list[bytes] = []
        thread = threading.Thread(target=lambda: answers.append(ask(crowd.enter_context(connect(listener)))))
        thread.start()
        thread.join(PATIENCE)
        assert answers[0].startswith(b"HTTP/1.1 200")
