"""HTTPS client of a site for its hub.

It follows no redirects and uses no proxy. With a private certificate authority it trusts no other.
"""

from __future__ import annotations

import re
import ssl
from http import HTTPStatus
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from edge import __version__
from edge.errors import SetupError, TooLarge, Unavailable
from edge.events.checked_connection import Answer, CheckedConnection
from edge.memory_budget import MB, WORK, cost_of, marks_in
from edge.outbound import Network, NotAllowed
from edge.sync import batch_format
from edge.sync.sender import BatchRefused, HistoryWaits, LinkError, SecondBox, Stopped
from edge.validation import json_text

ANSWER_SECONDS = 60.0  # of one wait for the hub
REQUEST_SECONDS = 300.0  # in all, also for a hub that sends single bytes
MAX_ANSWER = 24 * MB  # a hub keeps its answers within that, see `api.sync`
REFUSED_WAIT_SECONDS = 60.0  # a revoked key stays revoked, so retry slowly
BATCH_TOO_MUCH = (400, 413, 422, 500)
_STANDING = {"cursor", "time", "max_rows", "wait_ms", "masters"}
_ANSWERS = {
    "hello": {"version", *_STANDING},
    "changes": {"applied", "needs", "aside", *_STANDING},
    "masters": {"epoch", "until", "page", "assets", "yours"},
    "digests": set(),
    "recover": {"batch", "after", "last_track"},
}
MAX_SMALL_ANSWER = 2 * MB  # a token, credentials, or the clashes of one page
MAX_ERROR = 64 * 1024
MOST_MEMORY = 88 * MB  # of a parsed answer
_TEXT = re.compile(rb'"(?:[^"\\]|\\.)*+"')
LOOPBACK = ("127.0.0.1", "::1", "localhost")


class HubClient:
    """A connection that stays open between requests. Gets its tokens with client credentials, never by refresh.

    A lost answer to a refresh would revoke the whole token chain.
    """

    def __init__(
        self,
        url: str,
        client_id: str,
        secret: str,
        authority_file: Path | None,
        network: Network = Network.LOOPBACK,
        seconds: float = REQUEST_SECONDS,
    ) -> None:
        """Prepare a connection. `network`: the farthest that may be reached; `seconds`: of one request in all."""
        check_address(url)
        self._url = url.rstrip("/")
        self._credentials = {"grant_type": "client_credentials", "client_id": client_id, "client_secret": secret}
        self._authority_file, self._network, self._seconds = authority_file, network, seconds
        self._connection: CheckedConnection | None = None
        self._token = ""
        self.sent = self.received = 0  # bytes

    def call(self, path: str, body: bytes) -> Any:
        """Return the answer to a request below /sync/v1/. Raises LinkError, BatchRefused or Stopped."""
        is_fresh = not self._token
        if is_fresh:
            self._token = self._new_token()
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": "application/octet-stream"}
        answer = self._send(f"/sync/v1/{path}", body, headers)
        if answer.status == HTTPStatus.OK:
            return _json(answer.content, _ANSWERS[path])
        if answer.status == HTTPStatus.UNAUTHORIZED:
            self._token = ""
            if not is_fresh:
                return self.call(path, body)
        raise _error(answer, is_batch=path == "changes")

    def join(self, secret: str, environment: str) -> Any:
        """Redeem a one-time join code and return the site's credentials."""
        body = json_text.encode({"code": secret, "environment": environment})
        answer = self._send("/sync/v1/join", body, {"Content-Type": "application/json"})
        return _of_success(answer, {"client_id", "client_secret", "code", "hub_name"})

    def preview(self, secret: str, body: bytes) -> Any:
        """Ask which records would clash, with a join code that is not redeemed by this."""
        headers = {"Authorization": f"Join {secret}", "Content-Type": "application/octet-stream"}
        return _of_success(self._send("/sync/v1/preview", body, headers), {"clashes", "code", "hub_name", "hub_id"})

    def close(self) -> None:
        if self._connection:
            self._connection.close()

    def _new_token(self) -> str:
        body = json_text.encode(self._credentials)
        answer = self._send("/api/v1/oauth/token", body, {"Content-Type": "application/json"})
        if answer.status == HTTPStatus.UNAUTHORIZED:
            raise LinkError(
                "The hub rejected the key of this site: it was revoked or has expired. Create a new code on the hub's "
                "Sync page and run `edge sync join` again. If the hub was installed again without its backup, run "
                "`edge sync leave` before",
                REFUSED_WAIT_SECONDS,
            )
        token: str = _of_success(answer, {"access_token"})["access_token"]
        return token

    def _send(self, path: str, body: bytes, headers: dict[str, str]) -> Answer:
        headers = {"User-Agent": f"edge-site/{__version__}", **headers}
        most = MAX_ANSWER if path.removeprefix("/sync/v1/") in _ANSWERS else MAX_SMALL_ANSWER
        try:
            connection = self._connection = self._connection or self._new_connection()
            path = urlsplit(self._url).path + path
            answer = connection.exchange("POST", path, body, headers, most, self._seconds)
        except ssl.SSLError as error:
            raise LinkError(f"The hub's certificate was rejected: {_why_not_accepted(error)}") from error
        except (OSError, HTTPException, ValueError, NotAllowed) as error:
            raise LinkError(f"The hub at {self._url} cannot be reached: {_short(error)}") from error
        self.sent += len(body)
        self.received += len(answer.content)
        return answer

    def _new_connection(self) -> CheckedConnection:
        try:
            trust = ssl.create_default_context(cafile=self._authority_file)
        except OSError as error:
            raise ssl.SSLError(f"{self._authority_file}: {error}") from error
        return CheckedConnection(self._url, self._network, trust, min(ANSWER_SECONDS, self._seconds))


def check_address(url: str) -> None:
    """Raise SetupError unless the hub's address is encrypted (or loopback)."""
    address = urlsplit(url)
    if address.scheme == "https" or (address.scheme == "http" and address.hostname in LOOPBACK):
        return
    raise SetupError(f"The hub's address is {url}; it must begin with https://. Turn on HTTPS at the hub first")


def _of_success(answer: Answer, required: set[str]) -> Any:
    if answer.status != HTTPStatus.OK:
        raise _error(answer, is_batch=False)
    return _json(answer.content, required)


def _error(answer: Answer, *, is_batch: bool) -> Exception:
    status, detail, reason = answer.status, _detail(answer.content), answer.headers.get(batch_format.REASON)
    if status == HTTPStatus.CONFLICT:
        return Stopped(f"The hub rejected this box: {detail}")
    if is_batch and status in BATCH_TOO_MUCH:
        return BatchRefused(f"the hub responded {status}: {detail}")
    if reason == batch_format.SECOND_BOX:
        return SecondBox(f"The hub rejected this box: {detail}", answer.wait_seconds)
    if reason == batch_format.SECOND_HUB:
        return SecondBox(f"The hub cannot store history: {detail}", answer.wait_seconds)
    if reason == batch_format.HISTORY_WAITS:
        return HistoryWaits(f"The hub takes no new data now: {detail}", answer.wait_seconds)
    return LinkError(f"The hub responded {status}: {detail}", answer.wait_seconds)


def _detail(content: bytes) -> str:
    """Return the hub's error detail, or the start of a proxy's response."""
    try:
        error = json_text.decode(content[:MAX_ERROR])["error"]
        return str(error["detail"] if isinstance(error, dict) else error)
    except (json_text.NotJson, KeyError, TypeError):
        return content[:200].decode(errors="replace")


def _json(content: bytes, required: set[str]) -> Any:
    """Return the answer if it has the required keys. Captive portals and proxies answer with 200, too."""
    try:
        with WORK.holding(_cost_of(content)):
            answer = json_text.decode(content)
    except json_text.NotJson:
        answer = None
    except (TooLarge, Unavailable) as error:
        raise LinkError(f"An answer of the hub takes too much memory: {error}") from error
    if not isinstance(answer, dict) or required - set(answer):
        raise LinkError("Another program, perhaps a proxy, responds at the hub's address")
    return answer


def _cost_of(content: bytes) -> int:
    """Return the bytes that the parsed answer takes. Texts have no values, though many of their characters."""
    if len(content) >= MAX_ANSWER:
        raise TooLarge("more than the hub may send")
    return cost_of(len(content), marks_in(_TEXT.sub(b"", content)), MOST_MEMORY)


def _why_not_accepted(error: ssl.SSLError) -> str:
    reason = str(error)
    if "expired" in reason or "not yet valid" in reason:
        return (
            "it has expired or is not valid yet. Check the clock of this box. If it is correct, renew the certificate "
            f"at the hub; this box continues by itself ({reason})"
        )
    return (
        "a proxy may have answered instead of the hub. After a change of the hub's address or certificate authority, a "
        f"new join code is needed ({reason})"
    )


def _short(error: Exception) -> str:
    return str(error).rpartition(": ")[2] or type(error).__name__
