"""The connection to the broker on which the commands of outputs are published, separate from ingest."""

from __future__ import annotations

from edge.events.delivery import Outcome, Result
from edge.events.mqtt_session import NoAnswer, Publisher
from edge.ingest.sessions import Broker

ANSWER_SECONDS = 3.0
_NOT_AUTHORIZED = 0x87


class OutputCommands(Publisher):
    """Publishes single messages and waits for each acknowledgement. Used by one thread."""

    def __init__(self, broker: Broker, *, is_version_5: bool = True) -> None:
        super().__init__(broker.address, ANSWER_SECONDS, is_version_5=is_version_5)

    def send(self, topic: str, payload: str) -> Outcome:
        """Publish a message, connecting first if needed."""
        try:
            code = self.publish(topic, payload.encode())
        except NoAnswer as error:
            return Outcome(Result.FAILED, str(error))
        except OSError as error:
            return Outcome(Result.FAILED, f"the broker cannot be reached: {error.strerror or error}")
        if code.is_failure:
            advice = ""
            if code.value == _NOT_AUTHORIZED:
                advice = "; it allows new topics within a minute, or allow this one in its ACL"
            return Outcome(Result.REFUSED, f"the broker refused the command: {code}{advice}")
        return Outcome(Result.DELIVERED, "acknowledged")
