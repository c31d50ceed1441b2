"""Measure a busy site: many readers, each with several messages a second, and the share of a core for ingest.

    python -m tests.bench.many_readers [--readers 100] [--rate 5] [--seconds 30]

Uses the real mosquitto, the service with its defaults, and a publisher at the pace of the readers. Every message has
one read with a time; tags rest for a while and then move. All messages must be recorded.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import msgspec
import paho.mqtt.client as mqtt
from paho.mqtt.enums import CallbackAPIVersion

from edge import clock
from edge.audit.actors import shell
from edge.database import migrate
from edge.database.connection import close_database, writing
from edge.people import organizations
from edge.readers import readers
from edge.records import assets, locations
from edge.records.tags import NewTag
from tests.mosquitto import mosquitto
from tests.service import LedgerReader, Service, wait_for

TAGS = 1000
TARGET_SHARE = 0.07
MOVE_CHANCE = 0.002
WARM_UP_SECONDS = 5


def make_site(data_dir: Path, count: int) -> list[str]:
    """Create that many readers, each at its own location. Returns the tags of the assets."""
    migrate.migrate(data_dir)
    actor = shell(organizations.add_organization(shell(), "Bench").id)
    epcs = [f"3074257BF7194E40{number:08X}" for number in range(TAGS)]
    with writing():
        for number in range(count):
            place = locations.create(actor, name=f"Location {number}").id
            readers.add_reader(actor, name=f"r{number}", topic=topic_of(number), format="csl", location_id=place)
        for epc in epcs:
            assets.create(actor, name=f"Asset {epc[-4:]}", tags=[NewTag("rfid", epc)])
    close_database()
    return epcs


def topic_of(reader: int) -> str:
    return f"site/{reader}/reads"


class Publisher:
    """Publishes the messages of all readers, evenly over time."""

    def __init__(self, port: int, epcs: Sequence[str], count: int) -> None:
        self._client = mqtt.Client(CallbackAPIVersion.VERSION2, client_id="bench")
        self._client.max_inflight_messages_set(1_000)
        self._client.connect("127.0.0.1", port)
        self._client.loop_start()
        self._random = random.Random(7)
        self._at = {epc: self._random.randrange(count) for epc in epcs}
        self._by_reader: dict[int, list[str]] = {}
        for epc, reader in self._at.items():
            self._by_reader.setdefault(reader, []).append(epc)
        self._count = count
        self.sent = 0

    def run(self, seconds: float, rate: float) -> None:
        begun, number = time.monotonic(), 0
        total = int(seconds * self._count * rate)
        while number < total:
            due = min(total, int((time.monotonic() - begun) * self._count * rate))
            for index in range(number, due):
                self._publish(index % self._count)
            number = max(number, due)
            time.sleep(0.005)

    def _publish(self, reader: int) -> None:
        epc = self._random.choice(self._by_reader.get(reader) or list(self._at))
        if self._random.random() < MOVE_CHANCE:
            self._move(epc)
        read = {"epc": epc, "antennaPort": 1, "rssi": self._random.randint(-70, -45), "timeStampOfRead": clock.now()}
        self._client.publish(topic_of(reader), msgspec.json.encode({"tags": [read]}), qos=1)
        self.sent += 1

    def _move(self, epc: str) -> None:
        self._by_reader[self._at[epc]].remove(epc)
        self._at[epc] = self._random.randrange(self._count)
        self._by_reader.setdefault(self._at[epc], []).append(epc)

    def close(self) -> None:
        self._client.disconnect()
        self._client.loop_stop()


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--readers", type=int, default=100)
    arguments.add_argument("--rate", type=float, default=5.0)
    arguments.add_argument("--seconds", type=float, default=30.0)
    options = arguments.parse_args()
    with tempfile.TemporaryDirectory() as folder, mosquitto(Path(folder)) as broker:
        data_dir = Path(folder) / "data"
        data_dir.mkdir()
        epcs = make_site(data_dir, options.readers)
        with Service(data_dir, broker.url) as service, closing(LedgerReader(data_dir)) as ledger:
            service.start()
            service.wait_until_connected()
            publisher = Publisher(broker.port, epcs, options.readers)
            publisher.run(WARM_UP_SECONDS, options.rate)
            before = service.cpu_seconds()
            begun = time.monotonic()
            publisher.run(options.seconds, options.rate)
            share = (service.cpu_seconds() - before) / (time.monotonic() - begun)
            wait_for(lambda: ledger.messages() >= publisher.sent, 30)
            counts = ledger.ledger()
            publisher.close()
    rate = options.readers * options.rate
    print(
        f"{options.readers} readers, {rate:g} messages a second: {share:.1%} of a core; {publisher.sent} sent, {counts}"
    )
    return 0 if share <= TARGET_SHARE else 1


if __name__ == "__main__":
    sys.exit(main())
