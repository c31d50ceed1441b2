"""Client of the v1 API of a service.

It gets tokens with client credentials, never by refresh: a lost answer to a refresh would revoke the whole chain.
"""

from __future__ import annotations

import http.client
import ssl
import time
from collections.abc import Iterator, Mapping, Sequence
from http import HTTPStatus
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode, urlsplit

from edge import __version__
from edge.database.change_log import Kind
from edge.errors import Invalid
from edge.events.checked_connection import ANSWER_SECONDS, Answer, CheckedConnection, trust
from edge.outbound import Network, NotAllowed
from edge.people.secrets import unseal
from edge.terminal import printable
from edge.upstream import answers
from edge.upstream.answers import REJECTED_SECONDS, Away, Record, Refused, TooMuch
from edge.upstream.upstreams import Upstream
from edge.validation import json_text

SCOPES = ("assets:read", "assets:write", "locations:read", "locations:write")
MAX_QUERY = 2_000  # characters of keys in one URL
MOST_ROWS = 200  # of a page (interface: Limit page size)
EARLY_SECONDS = 30.0  # before its end, a token is replaced
MAX_AUTHORITY = 64 * 1024  # characters
_UNKNOWN_ISSUER = (18, 19, 20, 21)  # X509_V_ERR of OpenSSL
EXCHANGE = "/api/v1/oauth/token"
PATHS = {Kind.ASSET: "/api/v1/assets", Kind.LOCATION: "/api/v1/locations"}
_BROKEN = (ConnectionResetError, BrokenPipeError, http.client.HTTPException, TimeoutError)  # during a request


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


def check_authority(pem: str) -> str:
    """Return certificates of an authority. Raises Invalid if they are none."""
    refusal = Invalid.one("authority", "invalid_value", "give a PEM file with certificates of the authority")
    if not 0 < len(pem) <= MAX_AUTHORITY:
        raise refusal
    try:
        trust(None, pem)
    except (TypeError, ValueError, ssl.SSLError) as error:
        raise refusal from error
    return pem


def of_upstream(row: Upstream, authority_file: Path | None) -> Client:
    """Return a client of a service that was added. Raises SetupError if its secret cannot be read on this box."""
    access = Access(row.url, row.network, row.client_id, unseal(row.secret))
    return Client(access, trust(authority_file, row.authority))


class Client:
    """A connection that stays open between requests. Used by one thread."""

    def __init__(self, access: Access, tls: ssl.SSLContext) -> None:
        self._access = access
        self._connection = CheckedConnection(access.url, access.network, tls)
        self._token = ""
        self._token_ends = 0.0  # of the monotonic clock
        self.requests = 0
        self.writes = 0  # successful ones

    def organization(self) -> Record:
        """Return the organization of the credentials, with its scopes."""
        organization: Record = answers.data(self._call("GET", "/api/v1/orgs/me"), dict)
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
        """Return the records with these keys that are in effect. Those that are too large are left out."""
        records: dict[str, Record] = {}
        waiting = list(_in_pieces(keys))
        while waiting:
            some = waiting.pop()
            try:
                records.update({one["external_key"]: one for one in self._list(kind, some)})
            except TooMuch:
                middle = len(some) // 2
                waiting += [some[:middle], some[middle:]] if middle else []
        return records

    def _list(self, kind: Kind, keys: Sequence[str]) -> Iterator[Record]:
        """Yield records by key. Services may send smaller pages than requested."""
        seen, total = 0, len(keys)
        while seen < total:
            place = [("limit", len(keys)), *([("offset", seen)] if seen else [])]
            query = urlencode([*(("external_key", key) for key in keys), *place])
            answer = self._call("GET", f"{PATHS[kind]}?{query}")
            records = answers.data(answer, list)
            yield from (answers.checked(kind, one) for one in records)
            seen, total = seen + len(records), min(_total(answer), len(keys)) if records else 0

    def holder_of(self, tag_type: str, value: str) -> str:
        """Return the record that has a tag, such as "asset A-1", or "another record". Services may search otherwise."""
        for kind, path in PATHS.items():
            try:
                answer = self._call("GET", f"{path}?{urlencode({'q': value, 'limit': 50})}")
            except (Refused, TooMuch):
                continue
            for record in (answers.checked(kind, one) for one in answers.data(answer, list)):
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
        answer = self._sent("DELETE", f"{PATHS[kind]}/{record_id}")
        if answer.status != HTTPStatus.NO_CONTENT:  # a sign-in page answers 200 to everything
            raise answers.other_program()

    def attach(self, kind: Kind, record_id: int, tag_type: str, value: str) -> None:
        """Attach a tag. The specification does not show the answer, so read the record afterwards."""
        self._sent("POST", f"{PATHS[kind]}/{record_id}/tags", {"tag_type": tag_type, "value": value})

    def detach(self, kind: Kind, record_id: int, tag_id: int) -> None:
        """Detach a tag. Read the record afterwards."""
        self._sent("DELETE", f"{PATHS[kind]}/{record_id}/tags/{tag_id}")

    def close(self) -> None:
        self._connection.close()

    def _record(self, kind: Kind, method: str, path: str, body: Mapping[str, Any] | None = None) -> Record:
        return answers.checked(kind, answers.data(self._call(method, PATHS[kind] + path, body), dict))

    def _call(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """Return the decoded answer. Raises Refused if it is about the record, otherwise Away."""
        return answers.decoded(self._sent(method, path, body))

    def _sent(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Answer:
        """Return the answer. Raises Refused if it is about the record, otherwise Away."""
        is_fresh = time.monotonic() >= self._token_ends
        if is_fresh:
            self._exchange()
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        headers = {"Authorization": f"Bearer {self._token}", **({"Content-Type": kind} if body is not None else {})}
        answer = self._send(method, path, body, headers)
        if answer.status == HTTPStatus.UNAUTHORIZED and not is_fresh:
            self._token_ends = 0.0
            return self._sent(method, path, body)
        if not answer.is_success:
            raise answers.error_of(answer, [self._token, self._access.secret])
        self.writes += method != "GET"
        return answer

    def _exchange(self) -> None:
        body = {
            "grant_type": "client_credentials",
            "client_id": self._access.client_id,
            "client_secret": self._access.secret,
        }
        asked_at = time.monotonic()
        answer = self._send("POST", EXCHANGE, body, {"Content-Type": "application/json"})
        if answer.status in (HTTPStatus.BAD_REQUEST, HTTPStatus.UNAUTHORIZED):
            text = f"The service rejects the credentials ({answer.status}). Run: edge upstream new-secret"
            raise Away(text, REJECTED_SECONDS)
        if answer.status != HTTPStatus.OK:
            raise _away_of(answers.error_of(answer, [self._access.secret]))
        values = answers.decoded(answer)
        try:
            token, seconds = str(values["access_token"]), float(values["expires_in"])
        except (KeyError, TypeError, ValueError) as error:
            raise answers.other_program() from error
        if not (token.isascii() and token.isprintable()):
            raise answers.other_program()
        self._token, self._token_ends = token, asked_at + max(0.0, seconds - min(EARLY_SECONDS, seconds / 4))

    def _send(self, method: str, path: str, body: Mapping[str, Any] | None, headers: dict[str, str]) -> Answer:
        content = None if body is None else json_text.encode(body)
        headers = {"User-Agent": f"edge/{__version__}", "Accept": "application/json", **headers}
        try:
            return self._exchanged(method, path, content, headers)
        except (OSError, http.client.HTTPException, NotAllowed) as error:
            text = f"The service at {self._access.url} cannot be reached: {_reason(error)}"
            raise Away(text, may_be_of_record=isinstance(error, _BROKEN)) from error

    def _exchanged(self, method: str, path: str, content: bytes | None, headers: dict[str, str]) -> Answer:
        self.requests += 1
        address = urlsplit(self._access.url).path + path
        return self._connection.exchange(
            *(method, address, content, headers, answers.MAX_ANSWER, ANSWER_SECONDS),
            is_repeatable=method == "GET" or path == EXCHANGE,
        )


def _in_pieces(keys: Sequence[str]) -> Iterator[list[str]]:
    some: list[str] = []
    for key in keys:
        if some and sum(map(len, some)) + len(key) + 15 * len(some) > MAX_QUERY:
            yield some
            some = []
        some.append(key)
    if some:
        yield some


def _total(answer: Any) -> int:
    total = answer.get("total_count")
    return total if isinstance(total, int) else 0


def _away_of(error: Exception) -> Away:
    """Return an error of the token endpoint, which is never about a record."""
    return Away(str(error), error.wait_seconds if isinstance(error, Away) else REJECTED_SECONDS)


def _reason(error: Exception) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        hint = ". Trust its authority: edge upstream new-ca FILE" if error.verify_code in _UNKNOWN_ISSUER else ""
        return f"its certificate is rejected: {error.verify_message}{hint}"
    if isinstance(error, TimeoutError):
        return f"no response within {ANSWER_SECONDS:.0f} s"
    return printable((getattr(error, "strerror", None) or str(error) or type(error).__name__)[:200])
