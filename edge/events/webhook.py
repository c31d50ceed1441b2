"""One webhook: a POST for each event, signed as Standard Webhooks specifies (https://www.standardwebhooks.com).

The standard library's client, since it lets the connection go to an address that was checked before. It follows no
redirect and knows no proxy. Each attempt has one deadline for everything, so that a receiver that sends a byte now and
then holds nobody up.
"""

from __future__ import annotations

import base64
import contextlib
import hmac
import http.client
import socket
import ssl
import threading
from http import HTTPStatus
from urllib.parse import urlsplit

from edge import __version__, clock
from edge.events.delivery import Message, Outcome, Result
from edge.outbound import Network, NotAllowed, connect
from edge.people.secrets import WEBHOOK_PREFIX

ANSWER_SECONDS = 20.0
MAX_ANSWER = 64 * 1024
MAX_WAIT_SECONDS = 3600.0
WAIT_SECONDS = 5.0  # where a receiver that wants fewer requests does not say how long

# Answers that are about the receiver as a whole, not about the event that was sent.
_NOT_THE_EVENT = (401, 402, 403, 404, 405, 407, 408, 421, 425, 426, 429, 451, 502, 503, 504, 508, 511)
_CLOSED_MEANWHILE = (ConnectionResetError, BrokenPipeError, http.client.RemoteDisconnected)


def sign(secret: str, event_id: str, timestamp: int, body: bytes) -> str:
    """The value of `webhook-signature`. `timestamp` in seconds."""
    key = base64.b64decode(secret.removeprefix(WEBHOOK_PREFIX))
    digest = hmac.digest(key, b"%s.%d.%s" % (event_id.encode(), timestamp, body), "sha256")
    return f"v1,{base64.b64encode(digest).decode()}"


class Webhook:
    def __init__(self, url: str, secret: str, network: Network, tls: ssl.SSLContext) -> None:
        parts = urlsplit(url)
        is_encrypted = parts.scheme == "https"
        self._host = parts.hostname or ""
        self._port = parts.port or (443 if is_encrypted else 80)
        self._path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        self._secret = secret
        self._network = network
        self._tls = tls if is_encrypted else None
        self._connection: _Connection | None = None

    def send(self, message: Message) -> Outcome:
        """Of the answer only the status counts; its body is read and discarded."""
        timestamp = clock.now() // clock.SECOND
        headers = {
            "Content-Type": "application/json",
            "User-Agent": f"edge/{__version__}",
            "webhook-id": message.id,
            "webhook-timestamp": str(timestamp),
            "webhook-signature": sign(self._secret, message.id, timestamp, message.body),
        }
        try:
            if self._connection is not None:
                with contextlib.suppress(*_CLOSED_MEANWHILE):  # kept since the last event, perhaps too long
                    return self._post(message.body, headers)
                self.close()
            return self._post(message.body, headers)
        except (OSError, http.client.HTTPException, NotAllowed) as error:
            self.close()
            return Outcome(Result.FAILED, _fault(error))

    def close(self) -> None:
        if self._connection:
            self._connection.close()
            self._connection = None

    def _post(self, body: bytes, headers: dict[str, str]) -> Outcome:
        if self._connection is None:
            self._connection = _Connection(self._host, self._port, self._network, self._tls)
        connection = self._connection
        deadline = threading.Timer(ANSWER_SECONDS, connection.cut)
        deadline.daemon = True
        deadline.start()
        try:
            connection.request("POST", self._path, body, headers)
            answer = connection.getresponse()
            answer.read(MAX_ANSWER)
        except (OSError, http.client.HTTPException) as error:
            if connection.is_cut:
                raise TimeoutError from error
            raise
        finally:
            deadline.cancel()
        if connection.is_cut or not answer.isclosed() or answer.will_close:
            self.close()
        return _outcome(answer.status, answer.getheader("Retry-After"))


class _Connection(http.client.HTTPConnection):
    """Goes to an address that was checked; the name is only for the certificate and the `Host` header."""

    def __init__(self, host: str, port: int, network: Network, tls: ssl.SSLContext | None) -> None:
        super().__init__(host, port, timeout=ANSWER_SECONDS)
        self.default_port = 443 if tls else 80  # what `Host` leaves out
        self._network = network
        self._encryption = tls
        self.is_cut = False

    def connect(self) -> None:
        self.sock = connect(self.host, self.port, self._network, is_encrypted=self._encryption is not None)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sock.settimeout(ANSWER_SECONDS)
        if self._encryption:
            encrypted = self._encryption.wrap_socket(
                self.sock, server_hostname=self.host, do_handshake_on_connect=False
            )
            self.sock = encrypted  # so that `cut` finds it, however long the handshake takes
            encrypted.do_handshake()

    def cut(self) -> None:
        """Its time is over: end the connection, so that whoever waits for it gets an error."""
        self.is_cut = True
        with contextlib.suppress(OSError):  # it has just ended
            if self.sock:
                socket.socket.shutdown(self.sock, socket.SHUT_RDWR)  # not that of TLS: somebody is reading


def _outcome(status: int, retry_after: str | None) -> Outcome:
    words = f"{status} {_phrase(status)}"
    if 200 <= status < 300:
        return Outcome(Result.DELIVERED, words)
    if 300 <= status < 400:
        return Outcome(Result.FAILED, f"{words}: it sends elsewhere, which is not followed; enter the final address")
    if status == HTTPStatus.GONE:
        return Outcome(Result.GONE, f"{words}: the receiver wants no events any more")
    if status == HTTPStatus.TOO_MANY_REQUESTS:
        return Outcome(Result.FAILED, words, _seconds(retry_after) or WAIT_SECONDS)
    if status in _NOT_THE_EVENT:
        return Outcome(Result.FAILED, words, _seconds(retry_after))
    return Outcome(Result.REFUSED, words)


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "(no known status)"


def _seconds(text: str | None) -> float:
    return min(float(text), MAX_WAIT_SECONDS) if text and text.isascii() and text.isdigit() else 0.0


def _fault(error: Exception) -> str:
    if isinstance(error, NotAllowed):
        return str(error)
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate was not accepted: {error.verify_message}"
    if isinstance(error, TimeoutError):
        return f"no answer within {ANSWER_SECONDS:.0f} s"
    return f"no answer: {_short(error)}"


def _short(error: Exception) -> str:
    return (getattr(error, "strerror", None) or str(error) or type(error).__name__)[:200]
