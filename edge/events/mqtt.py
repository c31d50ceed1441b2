"""MQTT sender: one QoS 1 message per event, acknowledged before the next is sent.

Uses MQTT 5 if the broker supports it, because only MQTT 5 reports refused messages; otherwise 3.1.1.
"""

from __future__ import annotations

import socket
import ssl
import threading
from typing import Any
from urllib.parse import unquote, urlsplit

from paho.mqtt.client import Client, MQTTMessageInfo
from paho.mqtt.enums import CallbackAPIVersion, MQTTErrorCode, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.reasoncodes import ReasonCode

from edge.events.delivery import Message, Outcome, Result
from edge.events.validation import fill_topic
from edge.outbound import Network, NotAllowed, connect
from edge.texts import N_

ANSWER_SECONDS = 10.0
KEEPALIVE_SECONDS = 30
MAX_PACKET = 1152 * 1024  # bytes; the largest message of a reader, and its topic
_UNSUPPORTED_VERSION = 0x84
_FAILURE = 0x80  # this and higher reason codes are failures


class Broker:
    """A connection to one MQTT broker. `password` may be empty; the user name is part of `url`."""

    def __init__(
        self, url: str, password: str, topic: str, network: Network, tls: ssl.SSLContext, client_id: str
    ) -> None:
        self._url = url
        self._password = password
        self._topic = topic
        self._network = network
        self._tls = tls
        self._client_id = client_id
        self._version = MQTTProtocolVersion.MQTTv5
        self._session: _Session | None = None

    def send(self, message: Message) -> Outcome:
        """Publish one event, connecting first if needed."""
        try:
            if self._session is None or not self._session.is_up:
                self.close()
                self._session = self._connect()
            code = self._session.publish(fill_topic(self._topic, _names(message)), message.body)
        except NotAllowed as error:
            return Outcome(Result.FAILED, str(error))
        except ssl.SSLCertVerificationError as error:
            return Outcome(Result.FAILED, f"certificate rejected: {error.verify_message}")
        except _NoAnswer as error:
            self.close()
            return Outcome(Result.FAILED, str(error))
        except OSError as error:
            self.close()
            return Outcome(Result.FAILED, f"the broker cannot be reached: {error.strerror or error}")
        if code.value >= _FAILURE:
            return Outcome(Result.REFUSED, f"the broker refused the event: {code}")
        return Outcome(Result.DELIVERED, N_("acknowledged"))

    def close(self) -> None:
        if self._session:
            self._session.close()
            self._session = None

    def _connect(self) -> _Session:
        session = _Session(self._url, self._password, self._network, self._tls, self._client_id, self._version)
        code = session.open()
        if code.value == _UNSUPPORTED_VERSION and self._version is MQTTProtocolVersion.MQTTv5:
            session.close()
            self._version = MQTTProtocolVersion.MQTTv311
            return self._connect()
        if code.value >= _FAILURE:
            session.close()
            raise _NoAnswer(f"the broker refused the connection: {code}")
        return session


class _NoAnswer(Exception):
    """No answer from the broker. The message is shown to administrators."""


class _Session:
    """One connection; a new session is created for the next attempt."""

    def __init__(
        self,
        url: str,
        password: str,
        network: Network,
        tls: ssl.SSLContext,
        client_id: str,
        version: MQTTProtocolVersion,
    ) -> None:
        address = urlsplit(url)
        is_encrypted = address.scheme == "mqtts"
        self._client = client = _Client(network, is_encrypted, client_id, version)
        self._host, self._port = address.hostname or "", address.port or (8883 if is_encrypted else 1883)
        if is_encrypted:
            client.tls_set_context(tls)
        if address.username:
            client.username_pw_set(unquote(address.username), password or None)
        client.on_connect = self._on_connect
        client.on_publish = self._on_publish
        client.on_disconnect = self._on_disconnect
        self._answered = threading.Event()
        self._acknowledged: dict[int, ReasonCode] = {}
        self._news = threading.Condition()
        self._code: ReasonCode | None = None
        self.is_up = False

    def open(self) -> ReasonCode:
        """Connect and return the broker's reason code. Raises OSError, NotAllowed or _NoAnswer."""
        if self._client.connect(self._host, self._port, KEEPALIVE_SECONDS) is not MQTTErrorCode.MQTT_ERR_SUCCESS:
            raise _NoAnswer("the connection could not be made")
        self._client.loop_start()
        if not self._answered.wait(ANSWER_SECONDS) or self._code is None:
            raise _NoAnswer(f"no response from the broker within {ANSWER_SECONDS:.0f} s")
        return self._code

    def publish(self, topic: str, body: bytes) -> ReasonCode:
        """Publish a message and return the broker's reason code. Raises _NoAnswer."""
        sent: MQTTMessageInfo = self._client.publish(topic, body, qos=1)
        if sent.rc is not MQTTErrorCode.MQTT_ERR_SUCCESS:
            raise _NoAnswer(f"sending failed: {sent.rc.name}")
        with self._news:
            self._news.wait_for(lambda: sent.mid in self._acknowledged or not self.is_up, ANSWER_SECONDS)
            code = self._acknowledged.pop(sent.mid, None)
        if code is None:
            raise _NoAnswer("the broker closed the connection" if not self.is_up else "no acknowledgement in time")
        return code

    def close(self) -> None:
        self._client.disconnect()
        self._client.loop_stop()

    def _on_connect(self, _client: Client, _data: Any, _flags: Any, code: ReasonCode, _properties: Any) -> None:
        self._code = code
        self.is_up = code.value < _FAILURE
        self._answered.set()

    def _on_publish(self, _client: Client, _data: Any, mid: int, code: ReasonCode, _properties: Any) -> None:
        with self._news:
            self._acknowledged[mid] = code
            self._news.notify_all()

    def _on_disconnect(self, _client: Client, _data: Any, _flags: Any, code: ReasonCode, _properties: Any) -> None:
        with self._news:
            self.is_up = False
            if self._code is None:
                self._code = code if code.value >= _FAILURE else ReasonCode(PacketTypes.CONNACK, "Unspecified error")
            self._answered.set()
            self._news.notify_all()


class BoundedClient(Client):
    """A paho client that takes no packet larger than `MAX_PACKET`; paho reserves memory for what the broker announces.

    Decision record: this overrides a private paho method. The minor version of paho is pinned, see
    `ingest.mqtt_framing`.
    """

    def _sock_recv(self, bufsize: int) -> bytes:
        if bufsize > MAX_PACKET:
            raise ConnectionAbortedError("the broker sent a packet that is too large")
        return super()._sock_recv(bufsize)


class _Client(BoundedClient):
    """A paho client that connects to the checked IP address; the host name is used for the certificate only.

    Decision record: this overrides a private paho method, because paho resolves the name again after our check. The
    minor version of paho is pinned, see `ingest.mqtt_framing`.
    """

    def __init__(self, network: Network, is_encrypted: bool, client_id: str, version: MQTTProtocolVersion) -> None:
        super().__init__(CallbackAPIVersion.VERSION2, client_id, protocol=version, reconnect_on_failure=False)
        self._network = network
        self._is_encrypted = is_encrypted

    def _create_socket_connection(self) -> socket.socket:
        return connect(self._host, self._port, self._network, is_encrypted=self._is_encrypted)


def _names(message: Message) -> dict[str, str]:
    """Return the values of the topic placeholders."""
    return {
        "type": message.kind,
        "asset": (message.data.get("asset") or {}).get("external_key", ""),
        "location": (message.data.get("location") or {}).get("external_key", ""),
        "reader": (message.data.get("reader") or {}).get("name", ""),
    }
