"""Measure ingest, from MQTT QoS 1 to committed and acknowledged, against a bare paho subscriber.

    python -m tests.bench.ingest [--messages 20000] [--rounds 3] [--reads 1000000]

The publisher is no bottleneck: all messages are in the broker's queue before the subscriber connects, and the benchmark
measures how fast it drains. Service and bare subscriber alternate on the same messages, because other work on the
machine slows both; the processor time of a message depends less on that. There are two mixes: a site, where most tags
stay at one location and one in five is contested, and the worst case, where all are contested: every 20th read comes
from another location. `--reads` sends that many at the end and reports the memory of the service.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import NamedTuple

import msgspec

from edge import clock
from edge.audit.actors import shell
from edge.database import migrate
from edge.database.connection import close_database, writing
from edge.people import organizations
from edge.readers import readers
from edge.readers.clocks import READER
from edge.readers.readers import Placement
from edge.records import assets, locations
from edge.records.tags import NewTag
from tests.mosquitto import Mosquitto, mosquitto
from tests.service import ROOT, LedgerReader, Service, wait_for

TAGS = 1000
ANTENNAS = 4
MOVE_CHANCE = 0.05  # that a read of a contested tag comes from another location
MIXES = {"site": 0.2, "worst": 1.0}  # share of contested tags; the others stay at one location
MILLISECOND = 1000
TOPIC = "site/dock/reads"
DRAIN_SECONDS = 600
TARGET_RATIO, TARGET_MEGABYTES, TARGET_START = 0.75, 100, 1.5


class Rate(NamedTuple):
    """Messages a second, and processor seconds per message."""

    messages: float
    cpu: float


def make_site(data_dir: Path) -> list[str]:
    """Create one reader with four antennas at four locations, and an asset for each of the returned tags."""
    migrate.migrate(data_dir)
    organization_id = organizations.add_organization(shell(), "Bench").id
    epcs = [f"3074257BF7194E40{number:08X}" for number in range(TAGS)]
    with writing():
        places = [locations.create(shell(organization_id), name=f"Dock {port}").id for port in range(1, ANTENNAS + 1)]
        reader = readers.add_reader(
            shell(organization_id), name="dock", topic=TOPIC, format="csl", location_id=places[0], clock_setting=READER
        )
        for port, place in enumerate(places, start=1):
            readers.set_antenna(shell(organization_id), reader.id, port, Placement(place, None, True))
        for epc in epcs:
            assets.create(shell(organization_id), name=f"Pallet {epc}", tags=[NewTag("rfid", epc)])
    close_database()
    return epcs


def csl_messages(
    epcs: list[str], count: int, began_at: int, contested: float = MIXES["worst"]
) -> Iterator[tuple[int, bytes]]:
    """Yield (reads, payload): one or two tags each, a millisecond apart, like a CS463; see `MIXES`."""
    moving = set(epcs[: int(len(epcs) * contested)])
    chance = random.Random(began_at)
    port_of = {epc: number % ANTENNAS + 1 for number, epc in enumerate(epcs)}
    for at in range(began_at, began_at + count * MILLISECOND, MILLISECOND):
        seen = chance.sample(epcs, chance.randint(1, 2))
        for epc in seen:
            if epc in moving and chance.random() < MOVE_CHANCE:
                port_of[epc] = chance.randint(1, ANTENNAS)
        tags = [
            {
                "epc": epc,
                "timeStampOfRead": at,
                "timeZone": "-6:00",
                "antennaPort": port_of[epc],
                "capturePointName": f"cs463-dock1-{port_of[epc]}",
                "rssi": str(-chance.randint(45, 70)),
            }
            for epc in seen
        ]
        head = {"sequenceNumber": 0, "rfidReaderName": "cs463-dock1", "pcEthernetMACAddress": ""}
        yield len(tags), msgspec.json.encode({**head, "numberOfTags": len(tags), "tags": tags})


def fill(broker: Mosquitto, epcs: list[str], count: int, began_at: int, contested: float) -> int:
    """Publish the messages. Returns the number of reads."""
    reads = 0

    def payloads() -> Iterator[bytes]:
        nonlocal reads
        for tags, payload in csl_messages(epcs, count, began_at, contested):
            reads += tags
            yield payload

    broker.publish(TOPIC, payloads())
    return reads


def bare(broker: Mosquitto, count: int) -> Rate:
    """Run the bare subscriber. With a count of 0 it only creates its session at the broker."""
    script = str(ROOT / "tests" / "bench" / "bare.py")
    command = [sys.executable, script, str(broker.port), "bare", str(count)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return Rate(*map(float, done.stdout.split() or (0, 0)))


def drain(service: Service, count: int) -> tuple[Rate, float]:
    """Start the service with a full queue. Returns its commit rate and its memory afterwards."""
    ledger_reader = LedgerReader(service.data_dir)
    before = ledger_reader.messages()
    service.start()
    wait_for(lambda: service.has_logged("Serving pages"), DRAIN_SECONDS, service.read_log)  # the start is complete
    wait_for(lambda: ledger_reader.messages() > before, DRAIN_SECONDS, service.read_log)
    began, worked, first = time.perf_counter(), service.cpu_seconds(), ledger_reader.messages()
    wait_for(lambda: ledger_reader.messages() >= before + count, DRAIN_SECONDS, service.read_log)
    seconds = time.perf_counter() - began
    measured = before + count - first
    cpu = (service.cpu_seconds() - worked) / measured
    memory = service.resident_megabytes()
    service.stop()
    ledger_reader.close()
    return Rate(measured / seconds, cpu), memory


def seconds_to_ready(service: Service) -> float:
    began = time.perf_counter()
    service.start()
    wait_for(lambda: _is_served(service), 20, service.read_log)
    service.wait_until_connected()
    seconds = time.perf_counter() - began
    service.stop()
    return seconds


def _is_served(service: Service) -> bool:
    try:
        with urllib.request.urlopen(f"{service.http}/readyz", timeout=1) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def verdict(is_met: bool) -> str:
    return "met" if is_met else "MISSED"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=20_000, help="in each round, at least 4,000")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--reads", type=int, default=0, help="for the memory at the end, 1000000 for the target")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        data_dir = Path(folder) / "data"
        data_dir.mkdir()
        epcs = make_site(data_dir)
        with mosquitto(Path(folder)) as broker, Service(data_dir, broker.url) as service:
            measure(options, broker, service, epcs)


def measure(options: argparse.Namespace, broker: Mosquitto, service: Service, epcs: list[str]) -> None:
    starts = [seconds_to_ready(service) for _ in range(3)]  # the first one creates the session at the broker
    print(f"ready after {median(starts):.2f} s, target {TARGET_START} s: {verdict(median(starts) < TARGET_START)}")
    bare(broker, 0)
    last = options.reads * 2 // 3
    at = clock.now() - (len(MIXES) * options.rounds * options.messages + last) * MILLISECOND
    for mix, contested in MIXES.items():
        ratios, costs = [], []
        for number in range(options.rounds):
            reads = fill(broker, epcs, options.messages, at, contested)
            at += options.messages * MILLISECOND
            ceiling = bare(broker, options.messages)
            rate, memory = drain(service, options.messages)
            ratios.append(rate.messages / ceiling.messages)
            costs.append(rate.cpu / ceiling.cpu)
            print(
                f"{mix}, round {number + 1}: {rate.messages:,.0f} messages/s, "
                f"{rate.messages * reads / options.messages:,.0f} reads/s, {rate.cpu * 1e6:.0f} us of processor time a "
                f"message; bare subscriber {ceiling.messages:,.0f} messages/s, {ceiling.cpu * 1e6:.0f} us; "
                f"{ratios[-1]:.0%} of it; {memory:.0f} MB resident"
            )
        print(
            f"{mix}: ratio {median(ratios):.0%}, target {TARGET_RATIO:.0%}: {verdict(median(ratios) >= TARGET_RATIO)}; "
            f"a message costs {median(costs):.2f} times the processor time of a bare one"
        )
    if options.reads:
        fill(broker, epcs, last, at, MIXES["site"])
        _, memory = drain(service, last)
        print(f"{memory:.0f} MB after {options.reads:,} reads, target {TARGET_MEGABYTES}: {verdict(memory < 100)}")


if __name__ == "__main__":
    main()
