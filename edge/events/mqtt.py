"""MQTT sender: one QoS 1 message per event, acknowledged before the next is sent."""

from __future__ import annotations

import ssl

from edge.events.delivery import Message, Outcome, Result
from edge.events.mqtt_session import Address, NoAnswer, Publisher
from edge.events.validation import fill_topic
from edge.outbound import Network, NotAllowed, connect
from edge.texts import N_

ANSWER_SECONDS = 10.0
_NOT_AUTHORIZED = 0x87


class Broker:
    """A connection to one MQTT broker. `password` may be empty; the user name is part of `url`."""

    def __init__(
        self, url: str, password: str, topic: str, network: Network, tls: ssl.SSLContext, client_id: str
    ) -> None:
        self._topic = topic
        to = Address(url, client_id, password or None, tls)
        self._publisher = Publisher(
            to, ANSWER_SECONDS, lambda: connect(to.host, to.port, network, is_encrypted=to.is_encrypted)
        )

    def send(self, message: Message) -> Outcome:
        """Publish one event, connecting first if needed."""
        return publish(self._publisher, fill_topic(self._topic, _names(message)), message.body, "event")

    def close(self) -> None:
        self._publisher.close()


def publish(publisher: Publisher, topic: str, payload: bytes, noun: str, on_not_authorized: str = "") -> Outcome:
    """Publish an event or a command, which `noun` says, connecting first if needed.

    `on_not_authorized`: advice to add if the broker does not allow the topic.
    """
    try:
        code = publisher.publish(topic, payload)
    except (NotAllowed, NoAnswer) as error:
        return Outcome(Result.FAILED, str(error))
    except ssl.SSLCertVerificationError as error:
        return Outcome(Result.FAILED, f"certificate rejected: {error.verify_message}")
    except OSError as error:
        return Outcome(Result.FAILED, f"the broker cannot be reached: {error.strerror or error}")
    if code.is_failure:
        advice = on_not_authorized if code.value == _NOT_AUTHORIZED else ""
        return Outcome(Result.REFUSED, f"the broker refused the {noun}: {code}{advice}")
    return Outcome(Result.DELIVERED, N_("acknowledged"))


def _names(message: Message) -> dict[str, str]:
    """Return the values of the topic placeholders."""
    return {
        "type": message.kind,
        "asset": (message.data.get("asset") or {}).get("external_key", ""),
        "location": (message.data.get("location") or {}).get("external_key", ""),
        "reader": (message.data.get("reader") or {}).get("name", ""),
    }
