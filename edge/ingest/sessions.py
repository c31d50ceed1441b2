"""Our sessions at the broker: one for each reader that has an account, as far as they go, and one for everything else.

Decision record. What: edge signs in up to sixteen times, each time with an account of its own, and the broker's
permissions say which account gets whose messages. Why: what mosquitto queues for an absent client is bounded for each
client. With a single session one reader could use up the whole queue, and mosquitto dropped what it had acknowledged to
the others. Tried instead: the settings of mosquitto, which has no limit for a publisher; the embedded broker, which is
away whenever edge is; subscriptions by topic, with which the session for everything else gets all messages again.
Price: the queue is divided, and a reader can use only its own part. Measured by `tests.security.flooding_reader`.

A reader gets its session in two steps, because mosquitto, when a client connects, drops what it has queued for it on
topics that the client may not read any more. First both sessions get its messages, and those of the new one are
ignored. Once everything from before has arrived, the new one counts and session 0 is denied them.
"""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, cast
from urllib.parse import urlsplit

import paho.mqtt.client as mqtt
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.reasoncodes import ReasonCode

from edge.ingest.mqtt_framing import Delivery, Wire
from edge.readers.broker_accounts import session_name

KEEPALIVE_SECONDS = 30
CONNECT_SECONDS = 3.0
AGAIN_SECONDS = 5.0  # after a session beside the first could not be had
REFUSED = 0x80


class Broker(NamedTuple):
    """Where the broker is and how to sign in; `url` is `mqtt://` or `mqtts://`."""

    url: str
    client_id: str
    password: str | None = None
    ca_file: str | None = None

    def of_session(self, number: int) -> Broker:
        """The same broker, with the account and the client id of a session."""
        if number == 0:
            return self
        parts = urlsplit(self.url)
        if parts.username:
            host = parts.netloc.rpartition("@")[2]
            parts = parts._replace(netloc=f"{session_name(parts.username, number)}@{host}")
        return self._replace(url=parts.geturl(), client_id=session_name(self.client_id, number))


class Client(mqtt.Client):
    """paho over a `Wire` of our own."""

    wire: Wire

    def _create_socket(self) -> Wire:
        self.wire = Wire(cast("socket.socket", super()._create_socket()))
        return self.wire


def make_client(broker: Broker) -> Client:
    """A client with a persistent session, which acknowledges when it is told to."""
    client = Client(
        CallbackAPIVersion.VERSION2,
        client_id=broker.client_id,
        clean_session=False,
        manual_ack=True,
        reconnect_on_failure=False,
    )
    parts = urlsplit(broker.url)
    if parts.username:
        client.username_pw_set(parts.username, broker.password)
    if parts.scheme == "mqtts":
        client.tls_set(ca_certs=broker.ca_file)
    client.connect_timeout = CONNECT_SECONDS
    return client


def connect(client: Client, broker: Broker) -> None:
    """Raises OSError."""
    parts = urlsplit(broker.url)
    client.connect(
        str(parts.hostname), parts.port or (8883 if parts.scheme == "mqtts" else 1883), keepalive=KEEPALIVE_SECONDS
    )


def deliveries(client: Client) -> list[Delivery]:
    """Take the messages that have arrived, and let paho handle everything else that has. Raises OSError."""
    wire = client.wire
    found = wire.take()
    while wire.pending() and client.socket():
        client.loop_read()
    if client.want_write():  # what its callbacks asked for
        client.loop_write()
    return found


class Session:
    """A session beside the first one. For the network thread, while that one is connected."""

    def __init__(self, broker: Broker, number: int, topics: Sequence[str]) -> None:
        self.number = number
        self.connection = 0  # its number among all connections to the broker
        self.is_ready = False  # connected, and subscribed
        self.problem = "not connected yet"
        self._broker = broker.of_session(number)
        self._topics = topics
        self._due = 0.0
        self._client = make_client(self._broker)
        self._client.on_connect = self._on_connect
        self._client.on_subscribe = self._on_subscribe
        self._client.on_disconnect = self._on_disconnect

    @property
    def wire(self) -> Wire | None:
        """None without a connection."""
        return self._client.wire if self._client.socket() else None

    def connect_if_due(self, number: Callable[[], int]) -> None:
        now = time.monotonic()
        if self.wire or now < self._due:
            return
        self._due, self.connection = now + AGAIN_SECONDS, number()
        try:
            connect(self._client, self._broker)
        except OSError as error:
            self.lost(str(error))

    def take(self) -> list[Delivery]:
        """Return what has arrived; nothing when the connection breaks."""
        try:
            return deliveries(self._client)
        except OSError as error:
            self.lost(str(error))
            return []

    def tend(self, done: Iterable[tuple[int, int]]) -> None:
        """Acknowledge what was committed of this connection, and keep it alive. `done`: see `Writer.take_done`."""
        wire = self.wire
        if wire is None:
            return
        try:
            wire.acknowledge(mid for mid, connection in done if connection == self.connection)
            self._client.loop_misc()
        except OSError as error:
            self.lost(str(error))

    def lost(self, problem: str) -> None:
        self.is_ready, self.problem = False, problem
        self.leave()

    def leave(self) -> None:
        with contextlib.suppress(OSError):
            self._client.disconnect()

    def _on_connect(self, client: mqtt.Client, _data: Any, _flags: Any, reason: ReasonCode, _properties: Any) -> None:
        if reason.is_failure:
            self.problem = str(reason)
        else:
            client.subscribe([(topic, 1) for topic in self._topics])

    def _on_subscribe(self, _client: Any, _data: Any, _mid: int, granted: list[ReasonCode], _properties: Any) -> None:
        self.is_ready = all(code.value < REFUSED for code in granted)
        self.problem = "" if self.is_ready else "the broker does not let us subscribe; check its ACL"

    def _on_disconnect(self, _client: Any, _data: Any, _flags: Any, reason: ReasonCode, _properties: Any) -> None:
        self.is_ready = False
        self.problem = self.problem or str(reason)
