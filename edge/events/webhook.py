"""Webhook sender: one POST per event, signed per Standard Webhooks (https://www.standardwebhooks.com).

Uses http.client, because it can connect to an address that was checked before. It follows no redirects and uses no
proxy. One deadline covers the whole attempt, so a receiver that trickles bytes cannot block a thread.
"""

from __future__ import annotations

import base64
import hmac
import http.client
import ssl
from http import HTTPStatus
from urllib.parse import urlsplit

from edge import __version__, clock
from edge.events.checked_connection import ANSWER_SECONDS, Answer, CheckedConnection
from edge.events.delivery import Message, Outcome, Result
from edge.outbound import Network, NotAllowed
from edge.people.secrets import WEBHOOK_PREFIX

MAX_ANSWER = 64 * 1024
WAIT_SECONDS = 5.0  # default pause if a 429 answer has no Retry-After

# Answers about the receiver as a whole, not about the event.
_NOT_THE_EVENT = (401, 402, 403, 404, 405, 407, 408, 421, 425, 426, 429, 451, 502, 503, 504, 508, 511)


def sign(secret: str, event_id: str, timestamp: int, body: bytes) -> str:
    """Return the `webhook-signature` header. `timestamp` is in seconds."""
    key = base64.b64decode(secret.removeprefix(WEBHOOK_PREFIX))
    digest = hmac.digest(key, b"%s.%d.%s" % (event_id.encode(), timestamp, body), "sha256")
    return f"v1,{base64.b64encode(digest).decode()}"


class Poster:
    """Posts to one URL, over a connection that is kept between requests. Used by one thread at a time."""

    def __init__(self, url: str, network: Network, tls: ssl.SSLContext) -> None:
        address = urlsplit(url)
        self._path = (address.path or "/") + (f"?{address.query}" if address.query else "")
        self._connection = CheckedConnection(url, network, tls)

    def post(self, body: bytes, headers: dict[str, str]) -> Outcome:
        """Post JSON. Only the response status matters; the body is read and discarded."""
        headers = {"Content-Type": "application/json", "User-Agent": f"edge/{__version__}", **headers}
        try:
            answer = self._connection.exchange(
                *("POST", self._path, body, headers, MAX_ANSWER, ANSWER_SECONDS), is_complete=False, is_repeatable=True
            )
        except (OSError, http.client.HTTPException, NotAllowed) as error:
            return Outcome(Result.FAILED, _fault(error))
        return _outcome(answer)

    def close(self) -> None:
        self._connection.close()


class Webhook(Poster):
    def __init__(self, url: str, secret: str, network: Network, tls: ssl.SSLContext) -> None:
        super().__init__(url, network, tls)
        self._secret = secret

    def send(self, message: Message) -> Outcome:
        """Post one event, signed."""
        timestamp = clock.now() // clock.SECOND
        headers = {
            "webhook-id": message.id,
            "webhook-timestamp": str(timestamp),
            "webhook-signature": sign(self._secret, message.id, timestamp, message.body),
        }
        return self.post(message.body, headers)


def _outcome(received: Answer) -> Outcome:
    status = received.status
    answer = f"{status} {http.client.responses.get(status, '(no known status)')}"
    if received.is_success:
        return Outcome(Result.DELIVERED, answer)
    if 300 <= status < 400:
        return Outcome(Result.FAILED, f"{answer}: redirects are not followed; enter the final address")
    if status == HTTPStatus.GONE:
        return Outcome(Result.GONE, f"{answer}: the receiver no longer accepts events")
    if status == HTTPStatus.TOO_MANY_REQUESTS:
        return Outcome(Result.FAILED, answer, received.wait_seconds or WAIT_SECONDS)
    if status in _NOT_THE_EVENT:
        return Outcome(Result.FAILED, answer, received.wait_seconds)
    return Outcome(Result.REFUSED, answer)


def _fault(error: Exception) -> str:
    if isinstance(error, NotAllowed):
        return str(error)
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"certificate rejected: {error.verify_message}"
    if isinstance(error, TimeoutError):
        return f"no response within {ANSWER_SECONDS:.0f} s"
    return f"no answer: {_short(error)}"


def _short(error: Exception) -> str:
    return (getattr(error, "strerror", None) or str(error) or type(error).__name__)[:200]
