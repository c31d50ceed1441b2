"""One HTTP connection of a site to its hub, which stays open between requests.

It follows no redirects and uses no proxy. With a private certificate authority it trusts no other.
"""

from __future__ import annotations

import http.client
import select
import ssl
from email.message import Message
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

CONNECT_SECONDS = 5.0
ANSWER_SECONDS = 60.0
MAX_ANSWER = 64 * 1024 * 1024


class Answer(NamedTuple):
    status: int
    headers: Message
    content: bytes


class HubConnection:
    """Connects on the first request, and again after the hub has closed an idle connection."""

    def __init__(self, url: str, authority_file: Path | None) -> None:
        self._url = url
        self._authority_file = authority_file
        self._connection: http.client.HTTPConnection | None = None

    def post(self, path: str, body: bytes, headers: dict[str, str]) -> Answer:
        """Return the answer. Raises OSError, http.client.HTTPException, or ValueError for an impossible address."""
        try:
            return self._post(path, body, headers)
        except (OSError, http.client.HTTPException, ValueError):
            self.close()
            raise

    def close(self) -> None:
        if self._connection:
            self._connection.close()
            self._connection = None

    def _post(self, path: str, body: bytes, headers: dict[str, str]) -> Answer:
        if self._connection and _is_closed_by_peer(self._connection):
            self.close()
        connection = self._connection = self._connection or self._connect()
        connection.request("POST", urlsplit(self._url).path.rstrip("/") + path, body, headers)
        answer = connection.getresponse()
        content = answer.read(MAX_ANSWER)
        if answer.length and len(content) < MAX_ANSWER:
            raise http.client.IncompleteRead(content, answer.length)
        if answer.will_close or not answer.isclosed():
            self.close()
        return Answer(answer.status, answer.headers, content)

    def _connect(self) -> http.client.HTTPConnection:
        address = urlsplit(self._url)
        host = address.hostname or ""  # without the brackets of an IPv6 address, so the port must not be None
        if address.scheme == "https":
            connection: http.client.HTTPConnection = http.client.HTTPSConnection(
                host, address.port or 443, timeout=CONNECT_SECONDS, context=self._trust()
            )
        else:
            connection = http.client.HTTPConnection(host, address.port or 80, timeout=CONNECT_SECONDS)
        try:
            connection.connect()
        except OSError:
            connection.close()  # TLS may have failed on an open socket
            raise
        connection.sock.settimeout(ANSWER_SECONDS)
        return connection

    def _trust(self) -> ssl.SSLContext:
        try:
            return ssl.create_default_context(cafile=self._authority_file)
        except OSError as error:
            raise ssl.SSLError(f"{self._authority_file}: {error}") from error


def _is_closed_by_peer(connection: http.client.HTTPConnection) -> bool:
    """Return True if the idle connection is readable, which an open one is not before a request."""
    if connection.sock is None:
        return True
    poll = select.poll()
    poll.register(connection.sock, select.POLLIN)
    return bool(poll.poll(0))
