"""Measure how many messages mosquitto loses when killed while the service is away, for several ways to save its queue.

    python -m tests.soak.brokers [--kills 10]

For each way to save, with an empty queue and with 100,000 queued messages: readers publish 100 messages a second at
QoS 1, mosquitto is killed at random moments, and the acknowledged messages are fetched afterwards. Prints the lost
messages of each kill, the acknowledged messages a second of a single publisher, and the disk writes in a minute.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import paho.mqtt.client as mqtt
from paho.mqtt.enums import CallbackAPIVersion

from tests.mosquitto import Mosquitto
from tests.service import wait_for

WAYS = {
    "every 30 s": "autosave_interval 30",
    "every second": "autosave_interval 1",
    "with each message": "autosave_on_changes true\nautosave_interval 1",
}
TOPIC = "site/dock/reads"
FILLING = 100_000
RATE = 100
INFLIGHT = "max_inflight_messages 20"


@contextmanager
def client(port: int, name: str) -> Iterator[mqtt.Client]:
    one = mqtt.Client(CallbackAPIVersion.VERSION2, client_id=name, clean_session=False)
    one.max_inflight_messages_set(1000)
    one.connect("127.0.0.1", port)
    one.loop_start()
    try:
        yield one
    finally:
        one.disconnect()
        one.loop_stop()


def subscribe(port: int) -> None:
    """Create the session of the service, then disconnect: mosquitto queues its messages from now on."""
    subprocess.run(
        ["mosquitto_sub", "-p", str(port), "-i", "edge", "-c", "-q", "1", "-t", TOPIC, "-E"], check=True, timeout=60
    )


def fetch(port: int) -> set[int]:
    """Return the numbers of all queued messages."""
    fetched: set[int] = set()
    last = [time.monotonic()]

    def take(*given: mqtt.MQTTMessage) -> None:
        fetched.add(int(given[2].payload[:12]))
        last[0] = time.monotonic()

    one = mqtt.Client(CallbackAPIVersion.VERSION2, client_id="edge", clean_session=False)
    one.on_message = take
    one.connect("127.0.0.1", port)
    one.loop_start()
    wait_for(lambda: time.monotonic() - last[0] > 2, 120)
    one.disconnect()
    one.loop_stop()
    return fetched


def publish(port: int, first: int, seconds: float, rate: float) -> set[int]:
    """Publish numbered messages of usual size and return those acknowledged. A rate of 0 has no limit."""
    acknowledged: set[int] = set()
    waiting: dict[int, int] = {}
    early: set[int] = set()
    with client(port, "reader") as one:

        def confirm(*given: int) -> None:
            (acknowledged.add(waiting[given[2]]) if given[2] in waiting else early.add(given[2]))

        one.on_publish = confirm  # type: ignore[assignment]
        until, number = time.monotonic() + seconds, first
        while time.monotonic() < until:
            message = one.publish(TOPIC, f"{number:012}".encode().ljust(120), qos=1)
            waiting[message.mid] = number
            if message.mid in early:
                acknowledged.add(number)
            number += 1
            if rate:
                time.sleep(1 / rate)
            else:
                message.wait_for_publish(10)
        return acknowledged


def written(broker: Mosquitto) -> int:
    text = Path(f"/proc/{broker.pid}/io").read_text()
    return int(text.split("write_bytes: ")[1].split()[0])


def measure(folder: Path, way: str, filling: int, kills: int) -> str:
    _seldom_saved(folder, lambda seldom: _fill(seldom, filling))
    broker = Mosquitto(folder, f"{way}\n{INFLIGHT}\n")
    broker.start()
    first, acknowledged = filling, set(range(filling))
    for _ in range(kills):
        taken = publish(broker.port, first, 1 + random.random() * 2, RATE)
        broker.kill()
        broker.start()
        first, acknowledged = max(taken, default=first) + 1_000, acknowledged | taken
    before, began = written(broker), time.monotonic()
    publish(broker.port, 10**9, 10, RATE)
    a_minute = (written(broker) - before) / (time.monotonic() - began) * 60
    speed = len(publish(broker.port, 2 * 10**9, 5, 0)) / 5
    broker.stop()
    fetched: set[int] = set()
    _seldom_saved(folder, lambda seldom: fetched.update(fetch(seldom.port)))
    lost = len(acknowledged - fetched)
    return f"{lost / kills:.1f} | {speed:.0f} | {a_minute / 1e6:.1f}"


def _seldom_saved(folder: Path, act: Callable[[Mosquitto], object]) -> None:
    """Act with rare saves: a long queue that is saved with each message takes hours to fill and to deliver."""
    broker = Mosquitto(folder, f"{WAYS['every 30 s']}\n{INFLIGHT}\n")
    broker.start()
    try:
        act(broker)
    finally:
        broker.stop()


def _fill(broker: Mosquitto, count: int) -> None:
    subscribe(broker.port)
    broker.stop()  # a clean stop writes the session to disk
    broker.start()
    broker.publish(TOPIC, (f"{number:012}".encode().ljust(120) for number in range(count)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--only", default="", help="the way to save")
    options = parser.parse_args()
    print(
        "| saved | waiting | lost for each kill | acknowledged a second | MB written a minute |\n|---|---|---|---|---|"
    )
    for name, way in WAYS.items():
        if options.only not in name:
            continue
        for filling in (0, FILLING):
            with tempfile.TemporaryDirectory() as folder:
                print(f"| {name} | {filling} | {measure(Path(folder), way, filling, options.kills)} |", flush=True)


if __name__ == "__main__":
    main()
