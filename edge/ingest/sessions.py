"""Sessions at the broker: one for each reader account, up to a limit, and session 0 for everything else.

Decision record: web/manual/decisions/broker-sessions.md

Moving a reader to its own session takes two steps, because mosquitto drops queued messages on topics that the
connecting client may no longer read. First both sessions receive the messages, and those of the new session are
ignored. After all older messages have arrived, the new session takes over and the ACL denies them to session 0.
"""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, cast
from urllib.parse import urlsplit

import paho.mqtt.client as mqtt
from paho.mqtt.reasoncodes import ReasonCode

from edge.events import mqtt_session
from edge.events.mqtt_session import KEEPALIVE_SECONDS, Address
from edge.ingest.mqtt_framing import Delivery, Wire
from edge.readers.broker_accounts import session_name

MAIN_BROKER_SECONDS = 30  # longest wait after an unexpected end, since reads depend on it
CONNECT_SECONDS = 3.0
RECONNECT_SECONDS = 5.0  # minimum time between two attempts to connect an additional session
REFUSED = 0x80


class Broker(NamedTuple):
    """Address and credentials of the broker; the scheme of `url` is `mqtt` or `mqtts`."""

    url: str
    client_id: str
    password: str | None = None
    ca_file: str | None = None

    @property
    def address(self) -> Address:
        return Address(self.url, self.client_id, self.password, self.ca_file, MAIN_BROKER_SECONDS)

    def of_session(self, number: int) -> Broker:
        """Return the same broker with the account and client ID of a session."""
        if number == 0:
            return self
        url = urlsplit(self.url)
        if url.username:
            host = url.netloc.rpartition("@")[2]
            url = url._replace(netloc=f"{session_name(url.username, number)}@{host}")
        return self._replace(url=url.geturl(), client_id=session_name(self.client_id, number))


class Client(mqtt_session.Client):
    """Client that uses a `Wire` as its socket."""

    wire: Wire

    def _create_socket(self) -> Wire:
        self.wire = Wire(cast("socket.socket", super()._create_socket()))
        return self.wire


def make_client(broker: Broker) -> Client:
    """Return a client with a persistent session and manual acknowledgement."""
    client = mqtt_session.make_client(Client, broker.address, clean_session=False, manual_ack=True)
    client.connect_timeout = CONNECT_SECONDS
    return client


def connect(client: Client, broker: Broker) -> None:
    """Connect the client. Raises OSError."""
    client.connect(broker.address.host, broker.address.port, keepalive=KEEPALIVE_SECONDS)


def deliveries(client: Client) -> list[Delivery]:
    """Return the messages that have arrived, and pass all other packets to paho. Raises OSError."""
    wire = client.wire
    taken = wire.take()
    while wire.has_packets() and client.socket():
        client.loop_read()
    if client.want_write():  # queued by callbacks
        client.loop_write()
    return taken


class Attempts:
    """Spaces out the connection attempts of all additional sessions, since each may block the network thread.

    One session is tried per turn. After a failure all others wait, too: they share a broker.
    """

    def __init__(self) -> None:
        self._due_at: dict[int, float] = {}  # of each session
        self._paused_until = 0.0

    def next(self, sessions: Iterable[Session]) -> Session | None:
        """Return the session to connect now, if any: the one that has waited longest."""
        now = time.monotonic()
        if now < self._paused_until:
            return None
        due = [one for one in sessions if not one.wire and self._due_at.get(one.number, 0.0) <= now]
        return min(due, key=lambda one: self._due_at.get(one.number, 0.0), default=None)

    def done(self, session: Session) -> None:
        """Note an attempt."""
        self._due_at[session.number] = until = time.monotonic() + RECONNECT_SECONDS
        if not session.wire:
            self._paused_until = until


class Session:
    """An additional session. Use only on the network thread, while session 0 is connected."""

    def __init__(self, broker: Broker, number: int, topics: Sequence[str]) -> None:
        self.number = number
        self.is_ready = False  # connected, and subscribed
        self.problem = ""  # also before the first attempt, and while session 0 is away
        self._broker = broker.of_session(number)
        self._topics = topics
        self._client = make_client(self._broker)
        self._client.on_connect = self._on_connect
        self._client.on_subscribe = self._on_subscribe
        self._client.on_disconnect = self._on_disconnect

    @property
    def wire(self) -> Wire | None:
        """Socket of the session, None if disconnected."""
        return self._client.wire if self._client.socket() else None

    def connect(self, connection: int) -> None:
        """Connect under this number, which is unique within the process. May block for `CONNECT_SECONDS`."""
        self.connection = connection
        try:
            connect(self._client, self._broker)
        except OSError as error:
            self.lost(str(error))

    def take(self) -> list[Delivery]:
        """Return the messages that have arrived, none if the connection breaks."""
        try:
            return deliveries(self._client)
        except OSError as error:
            self.lost(str(error))
            return []

    def flush(self) -> None:
        """Send what the socket did not take before. A broken connection ends this session only."""
        if wire := self.wire:
            try:
                wire.flush()
            except OSError as error:
                self.lost(str(error))

    def acknowledge(self, done: Iterable[tuple[int, int]]) -> None:
        """Acknowledge committed messages of this connection and keep it alive. `done`: see `Writer.take_done`."""
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
        self.problem = "" if self.is_ready else "the broker denied the subscription; check its ACL"

    def _on_disconnect(self, _client: Any, _data: Any, _flags: Any, reason: ReasonCode, _properties: Any) -> None:
        self.is_ready = False
        self.problem = self.problem or (str(reason) if reason.is_failure else "")
