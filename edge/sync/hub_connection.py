"""One HTTP connection of a site to its hub, which stays open between requests.

It follows no redirects and uses no proxy. With a private certificate authority it trusts no other.
"""

from __future__ import annotations

import ssl
from pathlib import Path
from urllib.parse import urlsplit

from edge.events.checked_connection import Answer, CheckedConnection
from edge.memory_budget import MB
from edge.outbound import Network

ANSWER_SECONDS = 60.0  # of one wait for the hub
REQUEST_SECONDS = 300.0  # in all, also for a hub that sends single bytes
MAX_ANSWER = 24 * MB  # a hub keeps its answers within that, see `api.sync`


class HubConnection:
    """Connects on the first request, and again after the hub has closed an idle connection."""

    def __init__(
        self,
        url: str,
        authority_file: Path | None,
        network: Network = Network.LOOPBACK,
        seconds: float = REQUEST_SECONDS,
    ) -> None:
        """Prepare a connection. `network`: the farthest that may be reached; `seconds`: of one request in all."""
        self._url = url
        self._authority_file = authority_file
        self._network = network
        self._seconds = seconds
        self._connection: CheckedConnection | None = None

    def post(self, path: str, body: bytes, headers: dict[str, str], most: int = MAX_ANSWER) -> Answer:
        """Return the answer with at most `most` bytes.

        Raises OSError, http.client.HTTPException, NotAllowed, or ValueError for an impossible address.
        """
        connection = self._connection = self._connection or self._new_connection()
        path = urlsplit(self._url).path.rstrip("/") + path
        return connection.exchange("POST", path, body, headers, most, self._seconds)

    def close(self) -> None:
        if self._connection:
            self._connection.close()
            self._connection = None

    def _new_connection(self) -> CheckedConnection:
        seconds = min(ANSWER_SECONDS, self._seconds)
        return CheckedConnection(self._url, self._network, self._trust(), seconds)

    def _trust(self) -> ssl.SSLContext:
        try:
            return ssl.create_default_context(cafile=self._authority_file)
        except OSError as error:
            raise ssl.SSLError(f"{self._authority_file}: {error}") from error
