"""Subscriber with a fake pipeline, and functions that publish to it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from paho.mqtt import publish as paho_publish

from edge.ingest.messages import Message
from edge.ingest.mqtt_framing import Delivery
from edge.ingest.sessions import Broker
from edge.ingest.subscriber import Subscriber
from tests.ingest.site import DOCK, pipeline
from tests.service import wait_for

SOON = 60.0


class Handler:
    """Fake pipeline that collects messages while `is_open`, and raises `wrong` if it is set."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.is_open = threading.Event()
        self.is_open.set()
        self.wrong: Exception | None = None

    def __call__(self, messages: Sequence[Message]) -> int:
        self.is_open.wait(SOON)
        if self.wrong:
            raise self.wrong
        self.messages += messages
        return len(messages)

    def payloads(self) -> list[bytes]:
        return [message.payload for message in self.messages]


@contextmanager
def subscribed(
    url: str, handler: Handler | None = None, *, queue_size: int = 10_000, ca_file: Path | None = None
) -> Iterator[Subscriber]:
    """Run a subscriber, by default with the real pipeline on the open database."""
    handle = handler or pipeline().handle_some
    broker = Broker(url, "edge", ca_file=str(ca_file) if ca_file else None)
    subscriber = Subscriber(broker, ["#"], handle, queue_size=queue_size, batch_size=10)
    subscriber.start()
    try:
        yield subscriber
    finally:
        subscriber.stop()


def until_connected(subscriber: Subscriber) -> None:
    """Wait for the first ping, which proves that the subscription works."""
    wait_for(lambda: subscriber.state().seconds_since_round_trip is not None, SOON, lambda: str(subscriber.state()))


def steady(count: Callable[[], int], seconds: float = 1.0) -> int:
    """Return the count after it is positive and has not changed for some time."""
    last, since = 0, time.monotonic()

    def is_steady() -> bool:
        nonlocal last, since
        if (now := count()) != last:
            last, since = now, time.monotonic()
        return last > 0 and time.monotonic() - since > seconds

    wait_for(is_steady, SOON)
    return last


def publish(url: str, *payloads: bytes, topic: str = DOCK, retain: bool = False) -> None:
    host, _, port = url.removeprefix("mqtt://").partition(":")
    messages = [{"topic": topic, "payload": payload, "qos": 1, "retain": retain} for payload in payloads]
    paho_publish.multiple(messages, hostname=host, port=int(port))


def numbers(count: int, size: int = 0) -> list[bytes]:
    return [b"%d" % number + b" " * size for number in range(count)]


def delivery(payload: bytes, mid: int, topic: bytes = DOCK.encode()) -> Delivery:
    return Delivery(topic, payload, mid, 1, False, False)
