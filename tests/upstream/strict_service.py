"""A service with the v1 API that is not edge, over HTTP or HTTPS, with the faults of real networks.

Written from the specification, without code of edge. Tokens expire and are refused then.
"""

from __future__ import annotations

import contextlib
import gzip
import json
import secrets
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlsplit

from tests.upstream.strict_records import Body, Problem, Records, decoded, invalid

CLIENT_ID = "6f1c2a9e-5d0b-4a57-9e3e-0a5d6f3f1b11"
SECRET = "other_" + "7" * 64
SCOPES = ["assets:read", "assets:write", "locations:read", "locations:write", "ships:read"]
PAGE = b"<!doctype html>\n<title>\x1b[31mBad\nGateway</title><h1>Our proxy is sad</h1>"
RESET = struct.pack("ii", 1, 0)


class Answer(NamedTuple):
    status: int
    body: bytes = b""
    headers: tuple[tuple[str, str], ...] = ()


class Fault(NamedTuple):
    """What happens instead of the answer; with `is_after` once the service has acted."""

    do: Callable[[Handler, Answer], None]
    is_after: bool = False


def envelope(problem: Problem, path: str) -> Answer:
    error: Body = {"type": problem.kind, "title": "Oh", "status": problem.status, "detail": problem.detail}
    error |= {"instance": path, "request_id": secrets.token_hex(4)}
    if problem.kind == "validation_error":
        fields = [{"field": name, "code": code, "message": "no"} for name, code in problem.fields]
        error["fields"] = fields
    return Answer(problem.status, json.dumps({"error": error}).encode())


class StrictService:
    """Runs in threads while it is entered. `fault` decides on each request: number, method and path."""

    def __init__(self, token_seconds: int = 900, tls: tuple[Path, Path] | None = None, seed: int = 0) -> None:
        self.records = Records(seed)
        self.lock = threading.Lock()
        self.token_seconds = token_seconds
        self.fault: Callable[[int, str, str], Fault | None] = lambda *_: None
        self.requests: list[tuple[str, str]] = []
        self.tokens: dict[str, float] = {}
        self.scopes = SCOPES
        self._tls = tls
        self._server: ThreadingHTTPServer | None = None
        self.port = 0

    @property
    def url(self) -> str:
        return f"{'https' if self._tls else 'http'}://127.0.0.1:{self.port}"

    @contextlib.contextmanager
    def running(self) -> Iterator[StrictService]:
        handler = type("Bound", (Handler,), {"service": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", self.port), handler)
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]
        if self._tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*self._tls)
            self._server.socket = context.wrap_socket(
                self._server.socket, server_side=True, do_handshake_on_connect=False
            )
        thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self._server.shutdown()
            self._server.server_close()
            thread.join()

    def act(self, request: Handler) -> Answer:
        """Check a request and do it."""
        path = urlsplit(request.path).path
        try:
            body = _body(request)
            if path == "/api/v1/oauth/token":
                return self._token(request, body)
            self._check_token(request)
            with self.lock:
                return self._route(request.command, path, parse_qsl(urlsplit(request.path).query), body)
        except Problem as problem:
            return envelope(problem, path)

    def _token(self, request: Handler, body: Any) -> Answer:
        if request.command != "POST" or set(body) != {"grant_type", "client_id", "client_secret"}:
            raise invalid("grant_type", "unknown_field")
        if body != {"grant_type": "client_credentials", "client_id": CLIENT_ID, "client_secret": SECRET}:
            raise Problem(401, "invalid_client", "Unknown client")
        token = secrets.token_urlsafe(900)
        self.tokens[token] = time.monotonic() + self.token_seconds
        refresh = secrets.token_urlsafe(30)
        return _json(200, access_token=token, refresh_token=refresh, token_type="Bearer", expires_in=self.token_seconds)

    def _check_token(self, request: Handler) -> None:
        scheme, _, token = (request.headers["Authorization"] or "").partition(" ")
        if scheme != "Bearer" or self.tokens.get(token, 0) <= time.monotonic():
            raise Problem(401, "unauthorized", "Use the Authorization Bearer form")

    def _route(self, method: str, path: str, query: list[tuple[str, str]], body: Any) -> Answer:
        records, parts = self.records, path.strip("/").split("/")[2:]
        if (method, parts) == ("GET", ["orgs", "me"]):
            return _data(200, {"id": 7, "name": "Acme", "scopes": self.scopes, "api_key_id": CLIENT_ID})
        kind = parts[0]
        if kind not in records.rows:
            raise Problem(404, "not_found", "No such path")
        if method == "GET" and len(parts) == 1:
            return _json(200, **records.page(kind, query))
        if query:
            raise invalid(query[0][0], "invalid_context")
        if method == "POST" and len(parts) == 1:
            row = records.create(kind, body)
            return _data(201, records.shown(kind, row), ("Location", f"http://other.example{path}/{row.id}"))
        row = records.get(kind, _integer(parts[1]))
        match method, parts[2:]:
            case "GET", []:
                pass
            case "PATCH", []:
                records.patch(kind, row, body)
            case "DELETE", []:
                records.delete(kind, row)
                return Answer(204)
            case "POST", ["rename"]:
                number = records.rename(kind, row, body)
                return _json(200, data=records.shown(kind, row), descendant_count_affected=number)
            case "POST", ["tags"]:
                return _data(201, records.attach(row, body))
            case "DELETE", ["tags", tag_id]:
                records.detach(row, _integer(tag_id))
                return Answer(204)
            case _:
                raise Problem(405, "method_not_allowed", "No")
        return _data(200, records.shown(kind, row))


class Handler(BaseHTTPRequestHandler):
    """One connection. Refuses what the specification refuses."""

    service: StrictService
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def handle_any(self) -> None:
        service = self.service
        service.requests.append((self.command, self.path))
        agent = self.headers["User-Agent"] or ""
        fault = service.fault(len(service.requests), self.command, self.path)
        if not agent or agent.startswith("Python"):
            self.send(Answer(403, PAGE))
        elif fault is None:
            self.send(service.act(self))
        elif fault.is_after:
            fault.do(self, service.act(self))
        else:
            self.rfile.read(int(self.headers["Content-Length"] or 0))
            fault.do(self, Answer(200))

    do_GET = do_POST = do_PATCH = do_DELETE = do_PUT = handle_any

    def send(self, answer: Answer) -> None:
        self.send_response(answer.status)
        for name, value in answer.headers:
            self.send_header(name, value)
        if answer.status != 204:
            self.send_header("Content-Length", str(len(answer.body)))
        self.end_headers()
        self.wfile.write(answer.body)

    def reset(self) -> None:
        self.close_connection = True
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        self.connection.close()

    def log_message(self, *_: Any) -> None:
        """Keep the output of tests short."""


def page(status: int, *headers: tuple[str, str]) -> Fault:
    """Return an HTML page of a proxy."""
    return Fault(lambda handler, _: handler.send(Answer(status, PAGE, (("Content-Type", "text/html"), *headers))))


def limited(seconds: str) -> Fault:
    problem = Problem(429, "rate_limited", "Slow down")
    answer = envelope(problem, "/")._replace(headers=(("Retry-After", seconds),))
    return Fault(lambda handler, _: handler.send(answer))


def expired(handler: Handler, _: Answer) -> None:
    handler.service.tokens.clear()
    handler.send(envelope(Problem(401, "unauthorized", "Expired"), handler.path))


def cut(handler: Handler, answer: Answer) -> None:
    """Reset the connection in the middle of the answer."""
    handler.send_response(answer.status)
    handler.send_header("Content-Length", str(len(answer.body) + 100))
    handler.end_headers()
    handler.wfile.write(answer.body[: len(answer.body) // 2])
    handler.reset()


def packed(handler: Handler, answer: Answer) -> None:
    content = gzip.compress(answer.body) if answer.body else b""
    handler.send(answer._replace(body=content, headers=(("Content-Encoding", "gzip"),)))


def chunked(handler: Handler, answer: Answer) -> None:
    if answer.status == 204:
        handler.send(answer)
        return
    handler.send_response(answer.status)
    handler.send_header("Transfer-Encoding", "chunked")
    handler.end_headers()
    for place in range(0, len(answer.body), 50):
        piece = answer.body[place : place + 50]
        handler.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
    handler.wfile.write(b"0\r\n\r\n")


def huge(handler: Handler, _: Answer) -> None:
    """Answer without end."""
    handler.close_connection = True
    handler.send_response(200)
    handler.end_headers()
    with contextlib.suppress(OSError):
        handler.wfile.write(b'{"data":[')
        while True:
            handler.wfile.write(b"[]," * 100_000)


def slow(handler: Handler, answer: Answer) -> None:
    """Send a byte now and then until the client closes the connection."""
    handler.close_connection = True
    handler.send_response(200)
    handler.send_header("Content-Length", "1000000")
    handler.end_headers()
    handler.connection.settimeout(0.02)
    while True:
        try:
            if not handler.connection.recv(1):
                return
        except TimeoutError:
            handler.wfile.write(b" ")
        except OSError:
            return


def _body(request: Handler) -> Any:
    """Return the body of a write. Raises Problem."""
    agent, accept = request.headers["User-Agent"], request.headers["Accept"] or "*/*"
    length = int(request.headers["Content-Length"] or 0)
    content = request.rfile.read(length)
    if not agent or not ("json" in accept or "*/*" in accept):
        raise Problem(406, "not_acceptable", "JSON only")
    if request.command in ("GET", "DELETE"):
        if content:
            raise Problem(400, "bad_request", "A body, here?")
        return None
    kind = "application/merge-patch+json" if request.command == "PATCH" else "application/json"
    if request.headers["Content-Type"] != kind:
        raise Problem(415, "unsupported_media_type", f"Only {kind}")
    body = decoded(content)
    if not isinstance(body, dict):
        raise Problem(400, "bad_request", "An object is needed")
    return body


def _integer(text: str) -> int:
    if not text.isdigit():
        raise invalid("id", "invalid_value")
    return int(text)


def _json(status: int, **body: Any) -> Answer:
    return Answer(status, json.dumps(body).encode(), (("Content-Type", "application/json"),))


def _data(status: int, data: Any, *headers: tuple[str, str]) -> Answer:
    answer = _json(status, data=data)
    return answer._replace(headers=(*answer.headers, *headers))
