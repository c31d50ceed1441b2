"""MQTT senders: one QoS 1 message per event or command, acknowledged before the next is sent."""

from __future__ import annotations

import ssl

from edge.events.delivery import Message, Outcome
from edge.events.mqtt_session import Address, Publisher
from edge.events.validation import fill_topic
from edge.outbound import Network, connect

ANSWER_SECONDS = 10.0
COMMAND_SECONDS = 3.0


class OutputCommands(Publisher):
    """Publishes the commands of outputs, apart from the connections of ingest, and waits for each acknowledgement."""

    noun = "command"
    advice = "; it allows new topics within a minute, or allow this one in its ACL"

    def __init__(self, address: Address, *, is_version_5: bool = True) -> None:
        super().__init__(address, COMMAND_SECONDS, is_version_5=is_version_5)

    def send(self, topic: str, payload: str) -> Outcome:
        """Publish a message, connecting first if needed."""
        return self.publish(topic, payload.encode())


class Broker(Publisher):
    """A connection to one MQTT broker. `password` may be empty; the user name is part of `url`."""

    def __init__(
        self, url: str, password: str, topic: str, network: Network, tls: ssl.SSLContext, client_id: str
    ) -> None:
        self._topic = topic
        to = Address(url, client_id, password or None, tls)
        super().__init__(to, ANSWER_SECONDS, lambda: connect(to.host, to.port, network, is_encrypted=to.is_encrypted))

    def send(self, message: Message) -> Outcome:
        """Publish one event, connecting first if needed."""
        return self.publish(fill_topic(self._topic, _names(message)), message.body)


def _names(message: Message) -> dict[str, str]:
    """Return the values of the topic placeholders."""
    return {
        "type": message.kind,
        "asset": (message.data.get("asset") or {}).get("external_key", ""),
        "location": (message.data.get("location") or {}).get("external_key", ""),
        "reader": (message.data.get("reader") or {}).get("name", ""),
    }
