"""Malformed HTTP against the real server gets a response, never a 500 and never a hang."""

from __future__ import annotations

import json
import re
import socket
import threading
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from flask import Flask
from waitress.server import BaseWSGIServer

from edge.database.connection import close_database
from edge.server import connections, server
from tests.api.conftest import Api

HEAD = "User-Agent: x/1\r\nHost: box\r\n"


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def kind(self) -> Any:
        return json.loads(self.body)["error"]["type"]


class Wire:
    """Send raw requests to a server on its own port."""

    def __init__(self, port: int, token: str) -> None:
        self.port = port
        self.token = token

    def send(self, raw: bytes, *, patience: float = 60) -> Answer:
        with socket.create_connection(("127.0.0.1", self.port), timeout=patience) as connection:
            connection.sendall(raw)
            return _read(connection)

    def ask(self, line: str, headers: str = "", body: bytes = b"") -> Answer:
        extra = f"Authorization: Bearer {self.token}\r\n{HEAD}{headers}Connection: close\r\n"
        return self.send(f"{line} HTTP/1.1\r\n{extra}\r\n".encode("latin-1") + body)


def _read(connection: socket.socket) -> Answer:
    received = b""
    while True:
        try:
            piece = connection.recv(65_536)
        except ConnectionResetError:
            break
        if not piece:
            break
        received += piece
        head, separator, body = received.partition(b"\r\n\r\n")
        length = re.search(rb"(?i)content-length: (\d+)", head)
        if separator and length and len(body) >= int(length[1]):
            break
    head, _, body = received.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = dict(line.split(": ", 1) for line in lines)
    return Answer(int(first.split()[1]), headers, body)


@pytest.fixture
def wire(app: Flask, acme: Api) -> Iterator[Wire]:
    listener = server.create(app, "127.0.0.1", 0, 2)
    assert isinstance(listener, BaseWSGIServer)
    stopping = threading.Event()

    def serve() -> None:
        while not stopping.is_set():
            listener.asyncore.loop(timeout=0.05, map=listener._map, count=1)

    thread = threading.Thread(target=serve)
    thread.start()
    yield Wire(listener.effective_port, acme.token)
    stopping.set()
    thread.join()
    listener.task_dispatcher.shutdown()
    for part in list(listener._map.values()):
        part.close()
    close_database()


@pytest.mark.parametrize(
    "target",
    [
        "/api/v1/assets/",
        "/api/v1//assets",
        "/api//v1/assets",
        "//api/v1/assets",
        "///api/v1/assets",
        "/api/v1/assets%2F",
        "/api/v1%2Fassets",
        "/api/v1/%2e%2e/v1/assets",
        "/api/v1/../v1/assets",
        "/api/v1/./assets",
        "/api/v1/assets/%2e",
        "/api/v1/assets;x=1",
        "/api/v1/assets%00",
        "/api/v1/assets%0d%0aX-Evil:%201",
        "http://box//api/v1/assets",
    ],
)
def test_a_tricky_path_is_404_in_the_envelope(wire: Wire, target: str) -> None:
    answer = wire.ask(f"GET {target}")
    assert answer.status in (404, 400)
    if answer.status == 400:
        assert "assets/" in target, "only a bad id is a 400"
    assert json.loads(answer.body)["error"]["instance"].startswith("/api")
    assert "X-Evil" not in answer.headers


@pytest.mark.parametrize("target", ["/api/v1/assets", "http://box/api/v1/assets", "/api/v1/%61ssets"])
def test_an_odd_spelling_of_a_real_path_works(wire: Wire, target: str) -> None:
    assert wire.ask(f"GET {target}").status == 200


def test_a_path_with_raw_bytes_is_not_http(wire: Wire) -> None:
    assert wire.ask("GET /api/v1/\xff").status == 400


def test_a_request_id_cannot_inject_a_header(wire: Wire) -> None:
    for evil in ("a%0d%0aX-Evil: 1", "a\x00b", "a\tb", "\xe4"):
        answer = wire.ask("GET /api/v1/assets/0", f"X-Request-ID: {evil}\r\n")
        assert answer.status == 400
        assert "X-Evil" not in answer.headers


def test_refusals_of_the_server_have_the_request_id_of_the_client(wire: Wire) -> None:
    """interface: Requests"""
    for length, status in (("x", 400), (str(server.MAX_READ), 413)):
        answer = wire.ask("POST /api/v1/assets", f"X-Request-ID: mine 1\r\nContent-Length: {length}\r\n")
        assert (answer.status, answer.headers["X-Request-Id"]) == (status, "mine 1")
        assert json.loads(answer.body)["error"]["request_id"] == "mine 1"


def test_a_folded_or_broken_header_is_refused_or_harmless(wire: Wire) -> None:
    for header in ("X-A: 1\r\n folded\r\n", "Bad Header: 1\r\n", ": 1\r\n", "X-A\r\n", "X-A : 1\r\n", "X\x00: 1\r\n"):
        assert wire.ask("GET /api/v1/assets", header).status in (200, 400)


@pytest.mark.parametrize("method", ["TRACE", "CONNECT", "PUT", "FOO", "PROPFIND"])
def test_a_strange_verb_is_405(wire: Wire, method: str) -> None:
    answer = wire.ask(f"{method} /api/v1/assets")
    assert (answer.status, answer.kind) == (405, "method_not_allowed")


@pytest.mark.parametrize("method", ["get", "Get", "post", "foo"])
def test_a_verb_in_lower_case_is_405_with_the_real_methods(wire: Wire, method: str) -> None:
    answer = wire.ask(f"{method} /api/v1/assets")
    assert (answer.status, answer.kind, answer.headers["Allow"]) == (405, "method_not_allowed", "GET, HEAD, POST")
    assert wire.ask(f"{method} /api/v1/nope").kind == "not_found"


def test_characters_outside_ascii_in_an_address_get_a_hint(wire: Wire) -> None:
    answer = wire.ask("GET /api/v1/assets?q=M\xc3\xbcller")
    assert "Percent-encode" in json.loads(answer.body)["error"]["detail"]
    assert wire.ask("GET /api/v1/assets?q=M%C3%BCller").status == 200


@pytest.mark.parametrize("method", ["TRACE", "CONNECT", "FOO"])
def test_a_strange_verb_on_an_unknown_path_is_404(wire: Wire, method: str) -> None:
    assert wire.ask(f"{method} /api/v1/nope").kind == "not_found"


@pytest.mark.parametrize(
    ("line", "header"),
    [
        ("GET /api/v1/assets?q=\xe9", ""),
        ("GET /api/v1/assets", "Bad Header: 1\r\n"),
        ("GET /api/v1/assets", "X-Request-ID: a\x7fb\r\n"),
        ("GET /api/v1/assets", "X-Filler: " + "x" * server.MAX_HEADERS + "\r\n"),
        ("GET /api/v1/assets?q=" + "x" * server.MAX_HEADERS, ""),
    ],
    ids=["address", "header", "request id", "endless headers", "endless address"],
)
def test_refusals_of_the_server_have_the_envelope_and_cors(wire: Wire, line: str, header: str) -> None:
    answer = wire.ask(line, header)
    assert (answer.status, answer.kind) == (400, "bad_request")
    assert json.loads(answer.body)["error"]["instance"] == "/api/v1/assets"
    assert answer.headers["Access-Control-Allow-Origin"] == "*"


def test_refusals_of_a_head_request_have_no_body(wire: Wire) -> None:
    answer = wire.ask("HEAD /api/v1/assets", "Content-Length: x\r\n")
    assert (answer.status, answer.body) == (400, b"")


JSON = "Content-Type: application/json\r\n"


def test_a_body_over_its_limit_is_refused_in_the_envelope(wire: Wire) -> None:
    filler = 1024 * 1024 - len(b'{"name":"x","description":""}')
    body = b'{"name":"x","description":"' + b"y" * filler + b'"}'
    assert wire.ask("POST /api/v1/assets", f"{JSON}Content-Length: {len(body)}\r\n", body).kind == "validation_error"
    for size in (1024 * 1024 + 1, server.MAX_READ - 1):
        answer = wire.ask("POST /api/v1/assets", f"{JSON}Content-Length: {size}\r\n", b"x" * size)
        assert (answer.status, answer.kind) == (413, "payload_too_large")
    for size in (server.MAX_READ, 10**12):
        answer = wire.ask("POST /api/v1/assets", f"{JSON}Content-Length: {size}\r\n")
        assert (answer.status, answer.kind) == (413, "payload_too_large")
        assert json.loads(answer.body)["error"]["detail"] == "The body must have at most 1048576 bytes"
        assert answer.headers["Access-Control-Allow-Origin"] == "*"
        assert answer.headers["X-Request-Id"]


def test_a_client_that_sends_all_of_a_huge_body_gets_the_refusal(wire: Wire) -> None:
    """interface: Requests"""
    size = 4 * server.MAX_READ
    for headers, body in (
        (f"Content-Length: {size}\r\n", b"x" * size),
        ("Transfer-Encoding: chunked\r\n", (b"%x\r\n%s\r\n" % (size, b"x" * size)) + b"0\r\n\r\n"),
    ):
        answer = wire.ask("POST /api/v1/assets", JSON + headers, body)
        assert (answer.status, answer.kind) == (413, "payload_too_large")


def test_a_client_that_sends_all_of_a_huge_header_gets_the_refusal(wire: Wire) -> None:
    """interface: Requests"""
    answer = wire.ask(f"GET /api/v1/assets?q={'x' * 4_000_000}")
    assert (answer.status, answer.kind) == (400, "bad_request")


def test_a_refused_client_is_not_read_without_end(wire: Wire, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "MOST_DRAINED", 100_000)
    head = f"POST /api/v1/assets HTTP/1.1\r\n{HEAD}Content-Length: {10**12}\r\n\r\n".encode()
    with socket.create_connection(("127.0.0.1", wire.port), timeout=60) as connection:
        connection.sendall(head)
        assert _read(connection).status == 413
        with pytest.raises(OSError, match=r"reset|Broken pipe"):
            connection.sendall(b"x" * 64 * 1024 * 1024)


def test_a_chunked_body_is_read_and_a_malformed_one_refused(wire: Wire) -> None:
    chunked = f"{JSON}Transfer-Encoding: chunked\r\n"
    body = b'{"name":"x"}'
    good = b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)
    assert wire.ask("POST /api/v1/assets", chunked, good).status == 201
    for bad in (b"zz\r\nxx\r\n0\r\n\r\n", b"-5\r\nxx\r\n0\r\n\r\n", b"5;a\x00\r\nhello\r\n0\r\n\r\n"):
        assert wire.ask("POST /api/v1/assets", chunked, bad).kind == "bad_request"
    huge = b"%x\r\n" % (2 * server.MAX_READ) + b"x" * (server.MAX_READ + 10)
    assert wire.ask("POST /api/v1/assets", chunked, huge).status == 413


@pytest.mark.parametrize("length", ["-1", "+5", "5, 5", "0x5", "x", "5 5", "\u00b2"])
def test_a_content_length_that_is_no_number_is_a_bad_request(wire: Wire, length: str) -> None:
    assert wire.ask("POST /api/v1/assets", f"{JSON}Content-Length: {length}\r\n", b"hello").status == 400


def test_two_authorization_headers_are_no_token(wire: Wire) -> None:
    assert wire.ask("GET /api/v1/assets", "Authorization: Bearer x\r\n").status == 401


@pytest.mark.parametrize(
    "raw", [b"GET\r\n\r\n", b"\x16\x03\x01\x02\x00\r\n\r\n", b"GET http://[bad/api/v1/assets HTTP/1.1\r\n\r\n"]
)
def test_an_unreadable_path_is_a_bad_request_in_the_envelope(wire: Wire, raw: bytes) -> None:
    answer = wire.send(raw, patience=60)
    assert (answer.status, answer.kind) == (400, "bad_request")
    assert answer.headers["Access-Control-Allow-Origin"] == "*"


@pytest.mark.parametrize("raw", [b"\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n"])
def test_input_other_than_http_gets_a_response_or_a_closed_connection(wire: Wire, raw: bytes) -> None:
    with socket.create_connection(("127.0.0.1", wire.port), timeout=60) as connection:
        connection.sendall(raw)
        connection.shutdown(socket.SHUT_WR)
        connection.recv(1000)
    assert wire.ask("GET /api/v1/assets").status == 200


def test_a_client_that_disconnects_midway_harms_nobody(wire: Wire) -> None:
    for _ in range(5):
        with socket.create_connection(("127.0.0.1", wire.port)) as connection:
            connection.sendall(b"POST /api/v1/assets HTTP/1.1\r\nContent-Length: 1000\r\n\r\n{")
    assert wire.ask("GET /api/v1/assets").status == 200


def test_pipelined_requests_are_answered_in_order(wire: Wire) -> None:
    one = f"GET /api/v1/assets?limit=%d HTTP/1.1\r\nAuthorization: Bearer {wire.token}\r\n{HEAD}\r\n"
    with socket.create_connection(("127.0.0.1", wire.port), timeout=60) as connection:
        connection.sendall("".join(one % number for number in range(1, 6)).encode())
        received = b""
        while received.count(b'"total_count"') < 5:
            received += connection.recv(65_536)
    assert re.findall(rb'"limit":(\d)', received) == [b"1", b"2", b"3", b"4", b"5"]


def test_an_answer_without_a_body_keeps_the_connection(wire: Wire) -> None:
    ask = f"%s HTTP/1.%d\r\nAuthorization: Bearer {wire.token}\r\n{HEAD}%s\r\n"
    with socket.create_connection(("127.0.0.1", wire.port), timeout=60) as connection:
        for _ in range(2):
            connection.sendall((ask % ("OPTIONS /api/v1/assets", 1, "")).encode())
            assert b" 204 " in connection.recv(65_536)
        connection.sendall((ask % ("OPTIONS /api/v1/assets", 1, "Connection: close\r\n")).encode())
        assert b"\r\nConnection: close\r\n" in connection.recv(65_536)
        assert connection.recv(1) == b""
    with socket.create_connection(("127.0.0.1", wire.port), timeout=60) as connection:
        connection.sendall((ask % ("OPTIONS /api/v1/assets", 0, "")).encode())
        assert b"\r\nConnection: close\r\n" in connection.recv(65_536)
        assert connection.recv(1) == b""


def test_the_worst_bodies_are_answered(wire: Wire) -> None:
    limit = 1024 * 1024
    for body in (
        b"[" * limit,
        b'{"a":' * (limit // 5),
        b'{"metadata":{"a":' + b"9" * (limit - 30) + b"}}",
        b'{"name":"' + b"\\u0000" * (limit // 7) + b'"}',
        b"{" + b",".join(b'"k%d":0' % number for number in range(80_000)) + b"}",
        b'{"name":"x","tags":[' + b",".join([b"{}"] * (limit // 4)) + b"]}",
        b'{"name":"x","tags":['
        + b",".join(b'{"tag_type":"ble","value":"%d"}' % number for number in range(20_000))
        + b',{"tag_type":"ble","value":"0"}]}',
    ):
        body = body[:limit]
        answer = wire.ask("POST /api/v1/assets", f"{JSON}Content-Length: {len(body)}\r\n", body)
        assert answer.status in (400, 409, 413)


def test_query_strings_of_any_kind_are_answered(wire: Wire) -> None:
    for query in ("?", "?=", "?&&&", "?q", "?q=%", "?q=%zz", "?q=%ff", "?limit=%31", "?q=" + "x" * 60_000, "?q[]=1"):
        assert wire.ask(f"GET /api/v1/assets{query}").status in (200, 400, 431)
