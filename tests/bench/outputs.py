"""Latency of outputs: from the deciding read to the command at the device, next to 500 messages a second and 12 rules.

python -m tests.bench.outputs

A mosquitto, `edge serve` and the readers and devices run on this machine. Both ways through the broker are included,
smoothing is off: each read of a tool decides.
"""

from __future__ import annotations

import json
import os
import random
import tempfile
import threading
import time
from pathlib import Path

import paho.mqtt.client as mqtt
from paho.mqtt.enums import CallbackAPIVersion

from edge.audit.actors import shell
from edge.database.connection import close_database
from edge.database.migrate import migrate
from edge.people import organizations
from edge.readers import readers
from edge.records import assets, locations
from edge.records.tags import NewTag
from edge.rules import rules
from edge.rules.conditions import AssetKind, Condition
from edge.rules.outputs import forms, outputs
from edge.rules.rules import RuleFields
from tests.mosquitto import mosquitto
from tests.service import Service, wait_for

DOCKS = 12  # each with a rule and a lamp
PALLETS = 2_000
PER_SECOND = 500
MOVING = 0.05  # of the reads
SECONDS = 60
CYCLE = 3.0  # s, of each lamp
AWAY = 1.5  # s after it, the tool leaves the dock


class Devices:
    """All lamps and readers on one connection."""

    def __init__(self, port: int) -> None:
        self.read_at: dict[int, float] = {}
        self.latencies: list[float] = []
        self._client = mqtt.Client(CallbackAPIVersion.VERSION2)
        self._client.max_inflight_messages_set(2000)
        self._client.on_message = self._note
        self._client.on_connect = lambda client, *_: client.subscribe("lamps/+", 0)
        self._client.connect("127.0.0.1", port)
        self._client.loop_start()

    def _note(self, _client: mqtt.Client, _data: object, message: mqtt.MQTTMessage) -> None:
        began = self.read_at.pop(int(message.topic.rpartition("/")[2]), None) if message.payload == b"on" else None
        if began is not None:
            self.latencies.append(time.monotonic() - began)

    def read(self, dock: int, tag: str) -> None:
        self._client.publish(f"readers/{dock}", json.dumps({"reads": [{"tag": tag}]}), qos=1)

    def close(self) -> None:
        self._client.disconnect()
        self._client.loop_stop()


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        data, broker_dir = Path(folder) / "data", Path(folder) / "broker"
        data.mkdir()
        broker_dir.mkdir()
        _set_up(data)
        with mosquitto(broker_dir) as broker, Service(data, broker.url, ingest__smoothing="off") as service:
            devices = Devices(broker.port)
            service.start()
            service.wait_until_connected(60)
            wait_for(lambda: service.has_logged("event logging started"), 30)
            time.sleep(5)
            used = service.cpu_seconds()
            missing = _run(devices)
            used = service.cpu_seconds() - used
            if not devices.latencies:
                print(service.read_log()[-3000:])
            devices.close()
            service.stop()
    ages = sorted(devices.latencies)
    print(
        f"{len(ages)} commands, {missing} missing, processor {used:.1f} s of {SECONDS} s, load {os.getloadavg()[0]:.1f}"
    )
    for share in (0.5, 0.9, 0.99, 1):
        print(f"p{share * 100:g}: {ages[min(len(ages) - 1, int(share * len(ages)))] * 1000:.0f} ms")


def _set_up(folder: Path) -> None:
    migrate(folder)
    actor = shell(organizations.add_organization(shell(), "Nord").id)
    for dock in range(DOCKS):
        place = locations.create(actor, name=f"Dock {dock}").id
        readers.add_reader(actor, name=f"Dock {dock}", topic=f"readers/{dock}", format="edge", location_id=place)
        lamp = {"form": "topic", "device": f"lamps/{dock}", "on_payload": "on", "off_payload": "off", "seconds": "1"}
        no = outputs.add(actor, f"Lamp {dock}", forms.checked(lamp)).no
        tool = RuleFields(
            *(f"Tool {dock}", Condition.ENTERS, AssetKind.KEY, "", f"T{dock:02}"), location_id=place, outputs=str(no)
        )
        rules.add_rule(actor, tool)
        assets.create(actor, name=f"Tool {dock}", external_key=f"T{dock:02}", tags=[NewTag("rfid", f"70{dock:04X}")])
    for pallet in range(PALLETS):
        assets.create(actor, name=f"Pallet {pallet}", tags=[NewTag("rfid", f"30{pallet:04X}")])
    close_database()


def _run(devices: Devices) -> int:
    """Publish the reads of pallets and tools. Returns the number of lamps that stayed off."""
    done = threading.Event()
    background = threading.Thread(target=_publish_pallets, args=(devices, done))
    background.start()
    missing = 0
    began = time.monotonic()
    steps = [(cycle * CYCLE + dock * CYCLE / DOCKS, dock, True) for cycle in range(20) for dock in range(DOCKS)]
    steps += [(at + AWAY, dock, False) for at, dock, _ in steps]
    for at, dock, is_entry in sorted(steps):
        if at > SECONDS:
            break
        time.sleep(max(0.0, began + at - time.monotonic()))
        if is_entry:
            missing += dock in devices.read_at
            devices.read_at[dock] = time.monotonic()
        devices.read(dock if is_entry else (dock + 1) % DOCKS, f"70{dock:04X}")
    time.sleep(3)
    done.set()
    background.join()
    return missing + len(devices.read_at)


def _publish_pallets(devices: Devices, done: threading.Event) -> None:
    where = [random.randrange(DOCKS) for _ in range(PALLETS)]
    began, count = time.monotonic(), 0
    while not done.is_set():
        pallet = random.randrange(PALLETS)
        if random.random() < MOVING:
            where[pallet] = random.randrange(DOCKS)
        devices.read(where[pallet], f"30{pallet:04X}")
        count += 1
        if count % 10 == 0:
            time.sleep(max(0.0, began + count / PER_SECOND - time.monotonic()))


if __name__ == "__main__":
    main()
