"""The connection to the broker on which the commands of outputs are published, separate from ingest."""

from __future__ import annotations

from edge.events.delivery import Outcome
from edge.events.mqtt_session import Publisher
from edge.ingest.sessions import Broker

ANSWER_SECONDS = 3.0


class OutputCommands(Publisher):
    """Publishes single messages and waits for each acknowledgement. Used by one thread."""

    noun = "command"
    advice = "; it allows new topics within a minute, or allow this one in its ACL"

    def __init__(self, broker: Broker, *, is_version_5: bool = True) -> None:
        super().__init__(broker.address, ANSWER_SECONDS, is_version_5=is_version_5)

    def send(self, topic: str, payload: str) -> Outcome:
        """Publish a message, connecting first if needed."""
        return self.publish(topic, payload.encode())
