"""MQTT clients, and connections on which single messages are published and acknowledged one after the other.

Uses MQTT 5 if the broker supports it, because only MQTT 5 reports refused messages; otherwise 3.1.1.

Decision record: `Client` overrides two private methods of paho. The minor version of paho is pinned, see
`ingest.mqtt_framing`.
"""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from typing import Any, NamedTuple, TypeVar, cast
from urllib.parse import unquote, urlsplit

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion, MQTTErrorCode, MQTTProtocolVersion
from paho.mqtt.reasoncodes import ReasonCode

from edge.conversations import LONGEST_SECONDS, talking
from edge.events.delivery import Outcome, Result
from edge.outbound import NotAllowed
from edge.texts import N_

KEEPALIVE_SECONDS = 30
MAX_PACKET = 1152 * 1024  # bytes; the largest message of a reader, and its topic
_UNSUPPORTED_VERSION = 0x84
_NOT_AUTHORIZED = 0x87
_QOS_2 = 0b100  # in the first byte of a message


class Client(paho.Client):
    """A client that takes no packet larger than `MAX_PACKET`; paho reserves memory for the announced size."""

    dial: Callable[[], socket.socket] | None = None  # connects to a checked address; paho would resolve the name again

    def _sock_recv(self, bufsize: int) -> bytes:
        if bufsize > MAX_PACKET:
            raise ConnectionAbortedError("the broker sent a packet that is too large")
        return super()._sock_recv(bufsize)

    def _handle_publish(self) -> MQTTErrorCode:
        """Refuse messages of QoS 2, which nobody asks for: they stay in memory until the broker releases them."""
        if self._in_packet["command"] & _QOS_2:
            return MQTTErrorCode.MQTT_ERR_PROTOCOL
        return super()._handle_publish()

    def _create_socket_connection(self) -> socket.socket:
        return self.dial() if self.dial else super()._create_socket_connection()


Kind = TypeVar("Kind", bound=Client)


class Address(NamedTuple):
    """Address and credentials of a broker.

    `tls` has the trusted certificates: a file, or None for the system's. `longest_wait`: see `edge.conversations`.
    """

    url: str
    client_id: str = ""
    password: str | None = None
    tls: ssl.SSLContext | str | None = None
    longest_wait: int = LONGEST_SECONDS

    @property
    def is_encrypted(self) -> bool:
        return self.url.startswith("mqtts:")

    @property
    def host(self) -> str:
        return urlsplit(self.url).hostname or ""

    @property
    def port(self) -> int:
        return urlsplit(self.url).port or (8883 if self.is_encrypted else 1883)

    def talking(self) -> AbstractContextManager[None]:
        """Note a conversation with the broker, see `edge.conversations`."""
        return talking(f"{self.host}:{self.port}", self.longest_wait)


def make_client(kind: type[Kind], address: Address, **options: Any) -> Kind:
    """Return a client with the credentials and TLS settings for a broker, which does not reconnect by itself."""
    client = kind(CallbackAPIVersion.VERSION2, address.client_id, reconnect_on_failure=False, **options)
    if user := urlsplit(address.url).username:
        client.username_pw_set(unquote(user), address.password)
    if address.is_encrypted and isinstance(address.tls, ssl.SSLContext):
        client.tls_set_context(address.tls)
    elif address.is_encrypted:
        client.tls_set(ca_certs=cast("str | None", address.tls))
    return client


class _NoAnswer(Exception):
    """No answer from the broker. The message is shown to administrators."""


class Publisher:
    """Publishes single messages at QoS 1 and waits `seconds` for each acknowledgement. Used by one thread.

    `noun`: the word for a message in errors. `advice`: appended if the broker does not allow the topic.
    """

    noun = "event"
    advice = ""

    def __init__(
        self,
        address: Address,
        seconds: float,
        dial: Callable[[], socket.socket] | None = None,
        *,
        is_version_5: bool = True,
    ) -> None:
        self._address = address
        self._seconds = seconds
        self._dial = dial
        self._version = MQTTProtocolVersion.MQTTv5 if is_version_5 else MQTTProtocolVersion.MQTTv311
        self._session: _Session | None = None
        self.connections = 0

    @property
    def is_up(self) -> bool:
        return self._session is not None and self._session.is_up

    def publish(self, topic: str, payload: bytes) -> Outcome:
        """Publish a message, connecting first if needed."""
        try:
            code = self._publish(topic, payload)
        except (NotAllowed, _NoAnswer, OSError) as error:
            self.close()
            return Outcome(Result.FAILED, _fault(error))
        if code.is_failure:
            advice = self.advice if code.value == _NOT_AUTHORIZED else ""
            return Outcome(Result.REFUSED, f"the broker refused the {self.noun}: {code}{advice}")
        return Outcome(Result.DELIVERED, N_("acknowledged"))

    def _publish(self, topic: str, payload: bytes) -> ReasonCode:
        if self._session is None or not self._session.is_up:
            self.close()
            self._connect()
            self.connections += 1
        return self._session.publish(topic, payload)  # type: ignore[union-attr]  # set by `_connect`

    def close(self) -> None:
        if self._session:
            self._session.close()
            self._session = None

    def _connect(self) -> None:
        """Connect, with version 3.1.1 if the broker refuses 5. One that closes the connection is asked again for 5."""
        code = self._open(self._version)
        is_refused = code is not None and code.value == _UNSUPPORTED_VERSION
        if self._version is MQTTProtocolVersion.MQTTv5 and (code is None or is_refused):
            self.close()
            if is_refused:
                self._version = MQTTProtocolVersion.MQTTv311
            code = self._open(MQTTProtocolVersion.MQTTv311)
        if code is None:
            raise _NoAnswer("the broker closed the connection without an answer")
        if code.is_failure:
            raise _NoAnswer(f"the broker refused the connection: {code}")

    def _open(self, version: MQTTProtocolVersion) -> ReasonCode | None:
        client = make_client(Client, self._address, protocol=version)
        client.dial, client.connect_timeout = self._dial, self._seconds
        self._session = _Session(client, self._address, self._seconds)
        return self._session.open()


def _fault(error: Exception) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"certificate rejected: {error.verify_message}"
    if isinstance(error, OSError):
        return f"the broker cannot be reached: {error.strerror or error}"
    return str(error)


class _Session:
    """One connection; a new session is created for the next attempt."""

    def __init__(self, client: Client, address: Address, seconds: float) -> None:
        self._client = client
        self._address = address
        self._seconds = seconds
        self._conversation = ExitStack()
        self._news = threading.Condition()
        self._code: ReasonCode | None = None
        self._acknowledged: dict[int, ReasonCode] = {}
        self.is_up = self._is_closed = False
        client.on_connect = self._on_connect
        client.on_publish = self._on_publish
        client.on_disconnect = self._on_disconnect

    def open(self) -> ReasonCode | None:
        """Connect and return the broker's reason code, None if it closed the connection without one.

        Raises OSError, NotAllowed or _NoAnswer.
        """
        self._conversation.enter_context(self._address.talking())
        host, port = self._address.host, self._address.port
        if self._client.connect(host, port, KEEPALIVE_SECONDS) is not MQTTErrorCode.MQTT_ERR_SUCCESS:
            raise _NoAnswer("the connection could not be made")
        self._client.loop_start()
        with self._news:
            self._news.wait_for(lambda: self._code is not None or self._is_closed, self._seconds)
            if self._code is None and not self._is_closed:
                raise _NoAnswer(f"no response from the broker within {self._seconds:.0f} s")
            return self._code

    def publish(self, topic: str, payload: bytes) -> ReasonCode:
        """Publish a message and return the broker's reason code. Raises _NoAnswer."""
        sent = self._client.publish(topic, payload, qos=1)
        if sent.rc is not MQTTErrorCode.MQTT_ERR_SUCCESS:
            raise _NoAnswer(f"sending failed: {sent.rc.name}")
        with self._news:
            self._news.wait_for(lambda: sent.mid in self._acknowledged or not self.is_up, self._seconds)
            code = self._acknowledged.pop(sent.mid, None)
        if code is None:
            raise _NoAnswer("no acknowledgement in time" if self.is_up else "the broker closed the connection")
        return code

    def close(self) -> None:
        self._client.disconnect()
        self._client.loop_stop()
        # paho keeps two sockets until the client is gone, which these references would delay.
        self._client.on_connect = self._client.on_publish = self._client.on_disconnect = None
        self._conversation.close()

    def _on_connect(self, _client: Any, _data: Any, _flags: Any, code: ReasonCode, _properties: Any) -> None:
        with self._news:
            self._code = code
            self.is_up = not code.is_failure
            self._news.notify_all()

    def _on_publish(self, _client: Any, _data: Any, mid: int, code: ReasonCode, _properties: Any) -> None:
        with self._news:
            self._acknowledged[mid] = code
            self._news.notify_all()

    def _on_disconnect(self, *_: object) -> None:
        with self._news:
            self.is_up, self._is_closed = False, True
            self._news.notify_all()
        self._conversation.close()
