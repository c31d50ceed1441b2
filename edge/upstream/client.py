"""Client of the v1 API of a service.

It gets tokens with client credentials, never by refresh: a lost answer to a refresh would revoke the whole chain.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import ssl
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from http import HTTPStatus
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode, urlsplit

from edge import __version__
from edge.errors import EdgeError, Invalid, TooLarge, Unavailable
from edge.events.checked_connection import ANSWER_SECONDS, CheckedConnection
from edge.memory_budget import MB, WORK, cost_of, marks_in
from edge.outbound import Network, NotAllowed
from edge.sync.store.change_feed import Kind
from edge.upstream.content import of_answer
from edge.validation import json_text

SCOPES = ("assets:read", "assets:write", "locations:read", "locations:write")
MAX_ANSWER = 16 * 1024 * 1024
MAX_ERROR = 256 * 1024
MOST_MEMORY = 64 * MB  # of a parsed answer
MAX_WAIT_SECONDS = 3600.0
LIMITED_SECONDS = 10.0  # after a 429 without Retry-After
REJECTED_SECONDS = 300.0  # a revoked key stays revoked, so retry slowly
MAX_QUERY = 2_000  # characters of keys in one URL
EARLY_SECONDS = 30.0  # before its end, a token is replaced
PATHS = {Kind.ASSET: "/api/v1/assets", Kind.LOCATION: "/api/v1/locations"}
_OF_RECORD = (400, 404, 409, 413, 415, 422)  # about one record, not about the service
_CLOSED_MEANWHILE = (ConnectionResetError, BrokenPipeError, http.client.RemoteDisconnected)

Record = dict[str, Any]


class Away(EdgeError):
    """The service cannot be used now. `wait_seconds`: the pause it asks for, 0 without one.

    `is_internal`: it reported an internal error, which may be about one record.
    """

    def __init__(self, message: str, wait_seconds: float = 0.0, *, is_internal: bool = False) -> None:
        super().__init__(message)
        self.wait_seconds = wait_seconds
        self.is_internal = is_internal


class Refused(EdgeError):
    """The service refused a request about one record."""

    def __init__(self, status: int, detail: str, fields: Sequence[str]) -> None:
        super().__init__(f"{status}: {detail}"[:500])
        self.status = status
        self.fields = fields

    @property
    def is_stale(self) -> bool:
        """True if the record has changed since it was read."""
        return self.status == HTTPStatus.BAD_REQUEST and "updated_at" in self.fields


class Access(NamedTuple):
    url: str
    network: Network
    client_id: str
    secret: str


def check_url(url: str) -> str:
    """Return the base address without a slash at its end. Raises Invalid unless it is https, or http on loopback."""
    address = urlsplit(url)
    is_local = address.scheme == "http" and address.hostname in ("127.0.0.1", "::1", "localhost")
    is_plain = not (address.username or address.query or address.fragment) and url.isascii() and url.isprintable()
    if not address.hostname or not is_plain or not (address.scheme == "https" or is_local):
        raise Invalid.one("url", "invalid_value", "enter the base address, such as https://assets.example.com")
    return url.rstrip("/").removesuffix("/api/v1")


def trust(authority_file: Path | None) -> ssl.SSLContext:
    """Return the TLS settings. `authority_file` has certificates to trust in addition to the system's."""
    context = ssl.create_default_context()
    if authority_file:
        context.load_verify_locations(authority_file)
    return context


class Client:
    """A connection that stays open between requests. Used by one thread."""

    def __init__(self, access: Access, tls: ssl.SSLContext) -> None:
        self._access = access
        self._tls = tls
        self._connection: CheckedConnection | None = None
        self._token = ""
        self._token_ends = 0.0  # of the monotonic clock
        self.requests = 0

    def organization(self) -> Record:
        """Return the organization of the credentials, with its scopes."""
        organization: Record = _data(self._call("GET", "/api/v1/orgs/me"), dict)
        return organization

    def by_id(self, kind: Kind, record_id: int) -> Record | None:
        """Return a live record, or None."""
        try:
            return self._record(kind, "GET", f"/{record_id}")
        except Refused as error:
            if error.status == HTTPStatus.NOT_FOUND:
                return None
            raise

    def by_keys(self, kind: Kind, keys: Sequence[str]) -> dict[str, Record]:
        """Return the records with these keys that are in effect."""
        records: dict[str, Record] = {}
        for some in _in_pieces(keys):
            query = urlencode([*(("external_key", key) for key in some), ("limit", len(some))])
            answer = self._call("GET", f"{PATHS[kind]}?{query}")
            records.update(
                {one["external_key"]: one for one in (_checked(kind, record) for record in _data(answer, list))}
            )
        return records

    def holder_of(self, tag_type: str, value: str) -> str:
        """Return the record that has a tag, such as "asset A-1", or "another record". Services may search otherwise."""
        for kind, path in PATHS.items():
            answer = self._call("GET", f"{path}?{urlencode({'q': value, 'limit': 50})}")
            for record in (_checked(kind, one) for one in _data(answer, list)):
                if any((tag["tag_type"], tag["value"]) == (tag_type, value) for tag in record["tags"]):
                    return f"{kind.name.lower()} {record['external_key']}"
        return "another record"

    def create(self, kind: Kind, body: Mapping[str, Any]) -> Record:
        return self._record(kind, "POST", "", body)

    def patch(self, kind: Kind, record_id: int, body: Mapping[str, Any]) -> Record:
        return self._record(kind, "PATCH", f"/{record_id}", body)

    def rename(self, kind: Kind, record_id: int, key: str) -> Record:
        return self._record(kind, "POST", f"/{record_id}/rename", {"external_key": key})

    def delete(self, kind: Kind, record_id: int) -> None:
        self._call("DELETE", f"{PATHS[kind]}/{record_id}")

    def attach(self, kind: Kind, record_id: int, tag_type: str, value: str) -> None:
        self._call("POST", f"{PATHS[kind]}/{record_id}/tags", {"tag_type": tag_type, "value": value})

    def detach(self, kind: Kind, record_id: int, tag_id: int) -> None:
        self._call("DELETE", f"{PATHS[kind]}/{record_id}/tags/{tag_id}")

    def close(self) -> None:
        if self._connection:
            self._connection.close()
            self._connection = None

    def _record(self, kind: Kind, method: str, path: str, body: Mapping[str, Any] | None = None) -> Record:
        return _checked(kind, _data(self._call(method, PATHS[kind] + path, body), dict))

    def _call(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """Return the answer. Raises Refused if it is about the record, otherwise Away."""
        is_fresh = time.monotonic() >= self._token_ends
        if is_fresh:
            self._exchange()
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        headers = {"Authorization": f"Bearer {self._token}", **({"Content-Type": kind} if body is not None else {})}
        status, retry_after, answer = self._send(method, path, body, headers)
        if status == HTTPStatus.UNAUTHORIZED and not is_fresh:
            self._token_ends = 0.0
            return self._call(method, path, body)
        if 200 <= status < 300:
            return _decoded(answer) if answer else None
        raise _error(status, retry_after, answer)

    def _exchange(self) -> None:
        body = {
            "grant_type": "client_credentials",
            "client_id": self._access.client_id,
            "client_secret": self._access.secret,
        }
        asked_at = time.monotonic()
        headers = {"Content-Type": "application/json"}
        status, retry_after, content = self._send("POST", "/api/v1/oauth/token", body, headers)
        if status in (HTTPStatus.BAD_REQUEST, HTTPStatus.UNAUTHORIZED):
            raise Away(
                f"The service rejects the credentials ({status}). Run: edge upstream new-secret", REJECTED_SECONDS
            )
        if status != HTTPStatus.OK:
            raise _error(status, retry_after, content)
        try:
            answer = _decoded(content)
            self._token = str(answer["access_token"])
            self._token_ends = asked_at + max(0.0, float(answer["expires_in"]) - EARLY_SECONDS)
        except (KeyError, TypeError, ValueError) as error:
            raise _other_program() from error

    def _send(
        self, method: str, path: str, body: Mapping[str, Any] | None, headers: dict[str, str]
    ) -> tuple[int, str | None, bytes]:
        content = None if body is None else json_text.encode(body)
        headers = {"User-Agent": f"edge/{__version__}", "Accept": "application/json", **headers}
        try:
            if self._connection is not None:
                with contextlib.suppress(*_CLOSED_MEANWHILE):  # the service may have closed the idle connection
                    return self._exchanged(method, path, content, headers)
                self.close()
            return self._exchanged(method, path, content, headers)
        except (OSError, http.client.HTTPException, NotAllowed) as error:
            self.close()
            raise Away(f"The service at {self._access.url} cannot be reached: {_reason(error)}") from error

    def _exchanged(
        self, method: str, path: str, content: bytes | None, headers: dict[str, str]
    ) -> tuple[int, str | None, bytes]:
        self.requests += 1
        address = urlsplit(self._access.url)
        if self._connection is None:
            is_encrypted = address.scheme == "https"
            self._connection = CheckedConnection(
                address.hostname or "",
                address.port or (443 if is_encrypted else 80),
                self._access.network,
                self._tls if is_encrypted else None,
            )
        connection = self._connection
        deadline = threading.Timer(ANSWER_SECONDS, connection.cut)
        deadline.daemon = True
        deadline.start()
        try:
            connection.request(method, address.path + path, content, headers)
            answer = connection.getresponse()
            received = answer.read(MAX_ANSWER)
        except (OSError, http.client.HTTPException) as error:
            if connection.is_cut:
                raise TimeoutError from error
            raise
        finally:
            deadline.cancel()
        if connection.is_cut or answer.will_close or not answer.isclosed():
            self.close()
        return answer.status, answer.getheader("Retry-After"), received


def _in_pieces(keys: Sequence[str]) -> Iterator[list[str]]:
    some: list[str] = []
    for key in keys:
        if some and sum(map(len, some)) + len(key) + 15 * len(some) > MAX_QUERY:
            yield some
            some = []
        some.append(key)
    if some:
        yield some


def _decoded(content: bytes) -> Any:
    """Return the JSON value of an answer. Raises Away if another program has answered, or it takes much memory."""
    try:
        with WORK.holding(cost_of(len(content), marks_in(content), MOST_MEMORY)):
            return json.loads(content)
    except (TooLarge, Unavailable) as error:
        raise Away("An answer of the service takes too much memory") from error
    except (ValueError, RecursionError) as error:
        raise _other_program() from error


def _data(answer: Any, kind: type) -> Any:
    data = answer.get("data") if isinstance(answer, dict) else None
    if not isinstance(data, kind):
        raise _other_program()
    return data


def _checked(kind: Kind, record: Any) -> Record:
    """Return a record with all fields that are used. Raises Away."""
    try:
        of_answer(kind, record)
        is_complete = isinstance(record["id"], int) and all(isinstance(tag["id"], int) for tag in record["tags"])
        record["updated_at"]
    except (KeyError, TypeError) as error:
        raise _other_program() from error
    if not is_complete:
        raise _other_program()
    checked: Record = record
    return checked


def _other_program() -> Away:
    return Away("Another program, perhaps a proxy, responds at the address of the service")


def _error(status: int, retry_after: str | None, content: bytes) -> EdgeError:
    detail, fields = _detail(content)
    if status in _OF_RECORD:
        return Refused(status, detail, fields)
    wait = _seconds(retry_after)
    if status == HTTPStatus.TOO_MANY_REQUESTS:
        return Away("The service limits requests (429)", wait or LIMITED_SECONDS)
    if status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
        return Away(f"The service responded {status}: {detail}", max(wait, REJECTED_SECONDS))
    is_internal = status == HTTPStatus.INTERNAL_SERVER_ERROR
    return Away(f"The service responded {status}: {detail}", wait, is_internal=is_internal)


def _detail(content: bytes) -> tuple[str, list[str]]:
    """Return the error detail and the names of its fields, or the start of a proxy's response."""
    try:
        error = json.loads(content[:MAX_ERROR])["error"]
        return str(error["detail"]), [str(field["field"]) for field in error.get("fields") or ()]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return content[:200].decode(errors="replace"), []


def _seconds(text: str | None) -> float:
    return min(float(text), MAX_WAIT_SECONDS) if text and text.isascii() and text.isdigit() else 0.0


def _reason(error: Exception) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"certificate rejected: {error.verify_message}"
    if isinstance(error, TimeoutError):
        return f"no response within {ANSWER_SECONDS:.0f} s"
    return (getattr(error, "strerror", None) or str(error) or type(error).__name__)[:200]
