"""The connection to the broker on which the commands of outputs are published, separate from ingest.

Uses MQTT 5 if the broker supports it, because only MQTT 5 reports refused messages; otherwise 3.1.1.
"""

from __future__ import annotations

import threading
from typing import Any
from urllib.parse import urlsplit

from paho.mqtt.enums import CallbackAPIVersion, MQTTErrorCode, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.reasoncodes import ReasonCode

from edge.events.delivery import Outcome, Result
from edge.events.mqtt import BoundedClient
from edge.ingest.sessions import Broker

ANSWER_SECONDS = 3.0
KEEPALIVE_SECONDS = 30
_NOT_AUTHORIZED = 0x87


class OutputCommands:
    """Publishes single messages at QoS 1 and waits for each acknowledgement. Used by one thread."""

    def __init__(self, broker: Broker, *, is_version_5: bool = True) -> None:
        self._broker = broker
        self._version = MQTTProtocolVersion.MQTTv5 if is_version_5 else MQTTProtocolVersion.MQTTv311
        self._session: _Session | None = None
        self.connections = 0

    def send(self, topic: str, payload: str) -> Outcome:
        """Publish a message, connecting first if needed."""
        try:
            if self._session is None or not self._session.is_up:
                self.close()
                self._session = self._connect()
                self.connections += 1
            code = self._session.publish(topic, payload.encode())
        except _NoAnswer as error:
            self.close()
            return Outcome(Result.FAILED, str(error))
        except OSError as error:
            self.close()
            return Outcome(Result.FAILED, f"the broker cannot be reached: {error.strerror or error}")
        if code is not None and code.is_failure:
            advice = ""
            if code.value == _NOT_AUTHORIZED:
                advice = "; it allows new topics within a minute, or allow this one in its ACL"
            return Outcome(Result.REFUSED, f"the broker refused the command: {code}{advice}")
        return Outcome(Result.DELIVERED, "acknowledged")

    @property
    def is_up(self) -> bool:
        return self._session is not None and self._session.is_up

    def close(self) -> None:
        if self._session:
            self._session.close()
            self._session = None

    def _connect(self) -> _Session:
        session = _Session(self._broker, self._version)
        try:
            session.open()
        except _NoAnswer:
            session.close()
            if self._version is MQTTProtocolVersion.MQTTv311 or not session.is_version_refused:
                raise
            self._version = MQTTProtocolVersion.MQTTv311
            session = _Session(self._broker, self._version)
            session.open()
        return session


class _NoAnswer(Exception):
    """No answer from the broker. The message is shown to administrators."""


class _Session:
    """One connection; a new session is created for the next attempt."""

    def __init__(self, broker: Broker, version: MQTTProtocolVersion) -> None:
        self._url = url = urlsplit(broker.url)
        self._client = client = BoundedClient(
            CallbackAPIVersion.VERSION2, broker.client_id, protocol=version, reconnect_on_failure=False
        )
        if url.username:
            client.username_pw_set(url.username, broker.password)
        if url.scheme == "mqtts":
            client.tls_set(ca_certs=broker.ca_file)
        client.connect_timeout = ANSWER_SECONDS
        client.on_connect = self._on_connect
        client.on_publish = self._on_publish
        client.on_disconnect = self._on_disconnect
        self._news = threading.Condition()
        self._code: ReasonCode | None = None
        self._acknowledged: dict[int, ReasonCode | None] = {}
        self.is_up = self.is_version_refused = False

    def open(self) -> None:
        """Connect. Raises OSError or _NoAnswer."""
        port = self._url.port or (8883 if self._url.scheme == "mqtts" else 1883)
        self._client.connect(str(self._url.hostname), port, KEEPALIVE_SECONDS)
        self._client.loop_start()
        with self._news:
            self._news.wait_for(lambda: self._code is not None, ANSWER_SECONDS)
        if self._code is None:
            raise _NoAnswer(f"no response from the broker within {ANSWER_SECONDS:.0f} s")
        if self._code.is_failure:
            raise _NoAnswer(f"the broker refused the connection: {self._code}")

    def publish(self, topic: str, payload: bytes) -> ReasonCode | None:
        """Publish a message and return the broker's reason code, if it has one. Raises _NoAnswer."""
        sent = self._client.publish(topic, payload, qos=1)
        if sent.rc is not MQTTErrorCode.MQTT_ERR_SUCCESS:
            raise _NoAnswer(f"sending failed: {sent.rc.name}")
        with self._news:
            self._news.wait_for(lambda: sent.mid in self._acknowledged or not self.is_up, ANSWER_SECONDS)
            if sent.mid not in self._acknowledged:
                raise _NoAnswer("no acknowledgement in time" if self.is_up else "the broker closed the connection")
            return self._acknowledged.pop(sent.mid)

    def close(self) -> None:
        self._client.disconnect()
        self._client.loop_stop()
        # paho keeps two sockets until the client is gone, which these references would delay.
        self._client.on_connect = self._client.on_publish = self._client.on_disconnect = None

    def _on_connect(self, _client: Any, _data: Any, _flags: Any, code: ReasonCode, _properties: Any) -> None:
        with self._news:
            self._code = code
            self.is_up = not code.is_failure
            self.is_version_refused = code.getName() == "Unsupported protocol version"
            self._news.notify_all()

    def _on_publish(self, _client: Any, _data: Any, mid: int, code: ReasonCode, _properties: Any) -> None:
        with self._news:
            self._acknowledged[mid] = code
            self._news.notify_all()

    def _on_disconnect(self, *_: object) -> None:
        with self._news:
            self.is_up = False
            if self._code is None:  # without an answer, as some brokers do for an unknown version
                self._code = ReasonCode(PacketTypes.CONNACK, "Unsupported protocol version")
                self.is_version_refused = True
            self._news.notify_all()
