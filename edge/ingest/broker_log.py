"""Reads the log of mosquitto, which publishes it to the one account that may read it."""

from __future__ import annotations

import select
import time
from collections.abc import Sequence
from typing import Any

import paho.mqtt.client as mqtt

from edge import clock
from edge.events.mqtt_session import KEEPALIVE_SECONDS, Client, make_client
from edge.ingest.sessions import CONNECT_SECONDS, Broker
from edge.readers.sign_ins import SignIns

TOPICS = [("$SYS/broker/log/N", 0), ("$SYS/broker/log/E", 0)]  # notices and errors
RETRY_SECONDS = 5.0
_MOST = 2_000  # packets of one turn


class BrokerLog:
    """A connection without a session, so the broker queues nothing while edge is away. Used by one thread."""

    def __init__(self, broker: Broker, own: Sequence[str], sign_ins: SignIns) -> None:
        self._broker = broker
        self._own = own
        self._sign_ins = sign_ins
        self._client: Client | None = None
        self._tried_at = float("-inf")

    def read(self) -> None:
        """Read the lines that have arrived. Connects again at most every `RETRY_SECONDS`; a failure is ignored."""
        if self._client is None and time.monotonic() < self._tried_at + RETRY_SECONDS:
            return
        try:
            if self._client is None:
                self._tried_at = time.monotonic()
                self._client = self._connect()
            for _ in range(_MOST):
                if self._client.loop(0.01) != mqtt.MQTT_ERR_SUCCESS or (sock := self._client.socket()) is None:
                    self.close()
                    return
                if not select.select([sock], [], [], 0)[0]:
                    return
        except OSError:
            self.close()

    def close(self) -> None:
        if self._client:
            self._client.on_message = self._client.on_connect = None
            self._client.disconnect()
            self._client = None

    def _connect(self) -> Client:
        address = self._broker.address
        client = make_client(Client, address)
        client.connect_timeout = CONNECT_SECONDS
        client.on_connect = lambda visitor, *_: visitor.subscribe(TOPICS)
        client.on_message = self._note
        client.connect(address.host, address.port, KEEPALIVE_SECONDS)
        return client

    def _note(self, _client: Any, _data: Any, message: mqtt.MQTTMessage) -> None:
        self._sign_ins.note(message.payload.decode("utf-8", "replace"), self._own, clock.now())
