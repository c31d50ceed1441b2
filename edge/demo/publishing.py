"""MQTT connections of the simulated readers: one for each, publishing with QoS 1."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager

import paho.mqtt.client as mqtt
from paho.mqtt.enums import CallbackAPIVersion

from edge.demo.plan import Reader
from edge.errors import SetupError
from edge.events.delivery import Result
from edge.events.mqtt_session import Address, Publisher

DELIVERY_SECONDS = 2.0


def publish(host: str, port: int, topic: str, message: str) -> None:
    """Publish one message with QoS 1. Raises SetupError if the broker cannot be reached or does not acknowledge it."""
    try:
        to = Address(f"mqtt://[{host}]:{port}" if ":" in host else f"mqtt://{host}:{port}")
        with closing(Publisher(to, DELIVERY_SECONDS, is_version_5=False)) as publisher:
            outcome = publisher.publish(topic, message.encode())
    except ValueError as error:  # the topic or the address is invalid
        raise SetupError(f"Cannot publish to {host}:{port}: {error}") from error
    if outcome.result is not Result.DELIVERED:
        raise SetupError(f"Cannot publish to {host}:{port}: {outcome.detail}. Check that the broker runs there")


class Connections:
    """Publishes for each reader on its own connection. Not thread-safe."""

    def __init__(self, clients: dict[str, mqtt.Client]) -> None:
        self._clients = clients
        self._on_the_way: list[mqtt.MQTTMessageInfo] = []

    def publish(self, reader: Reader, payload: bytes) -> None:
        self._on_the_way.append(self._clients[reader.name].publish(reader.topic, payload, qos=1))

    def settle(self) -> None:
        """Wait until the broker has all messages, which keeps the readers in step.

        Messages that cannot be sent now stay with paho, which sends them when the broker is back.
        """
        for info in self._on_the_way:
            if info.rc == mqtt.MQTT_ERR_SUCCESS:
                info.wait_for_publish(DELIVERY_SECONDS)
        self._on_the_way.clear()


@contextmanager
def connected(readers: Sequence[Reader], host: str, port: int) -> Iterator[Connections]:
    with ExitStack() as stops:
        clients = {}
        for reader in readers:
            client = mqtt.Client(CallbackAPIVersion.VERSION2, client_id=f"demo-{reader.device}")
            client.connect(host, port)
            client.loop_start()
            stops.callback(client.loop_stop)
            stops.callback(client.disconnect)
            clients[reader.name] = client
        yield Connections(clients)
