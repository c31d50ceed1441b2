"""Kill -9 the service during a stream of numbered reads, and check that each read is recorded exactly once.

    python -m tests.soak.crash [--reads 20000] [--kills 20] [--seed N]

The reads come through mosquitto at QoS 1, half of them with the reader's time. Without a time, only the packet id
distinguishes a redelivery from another read of the tag. `ingest.sighting_gap_seconds` is 0 to make each read a row of
history.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import msgspec

from edge import clock
from edge.audit.actors import shell
from edge.database import migrate
from edge.database.connection import close_database, writing
from edge.people import organizations
from edge.readers import readers
from edge.records import assets, locations
from edge.records.tags import NewTag
from tests.mosquitto import Mosquitto, mosquitto
from tests.service import LedgerReader, Service, wait_for

TAGS = 100
TOPIC = "site/dock/reads"
CHUNK = 20
SETTLE_SECONDS = 60
SECONDS_FOR_A_KILL = 1.5  # duration of the stream per kill, including the restart
MOMENTS = (0.05, 1.0)  # maximum seconds before a kill: while catching up, and while following the stream


class Outcome(NamedTuple):
    missing: int  # numbers not in the history
    doubled: int  # numbers with more than one row
    recorded: int  # reads in the ledger
    repeats: int  # messages delivered again after their commit
    hits: int  # kills in the middle of the stream

    def is_exact(self, reads: int) -> bool:
        return (self.missing, self.doubled, self.recorded) == (0, 0, reads)


def make_site(data_dir: Path) -> None:
    migrate.migrate(data_dir)
    organization_id = organizations.add_organization(shell(), "Soak").id
    with writing():
        dock = locations.create(shell(organization_id), name="Dock").id
        readers.add_reader(shell(organization_id), name="dock", topic=TOPIC, format="csl", location_id=dock)
        for number in range(TAGS):
            assets.create(shell(organization_id), name=f"Pallet {number:03}", tags=[NewTag("rfid", epc_of(number))])
    close_database()


def epc_of(tag: int) -> str:
    return f"3074257BF7194E40{tag:08X}"


def numbered(reads: int) -> Iterator[bytes]:
    """Yield the payloads. Read N has tag N % TAGS, and N // TAGS + 1 as signal strength in tenths of a dBm."""
    for number in range(reads):
        tag = {"epc": epc_of(number % TAGS), "antennaPort": 1, "rssi": -(number // TAGS + 1) / 10}
        time_of_reader = {"timeStampOfRead": clock.now()} if number % 2 else {}
        yield msgspec.json.encode({"tags": [{**tag, **time_of_reader}]})


def paced(payloads: Iterator[bytes], per_second: float) -> Iterator[bytes]:
    """Yield CHUNK payloads at a time, to make the stream last as long as the kills."""
    began = time.monotonic()
    for number, payload in enumerate(payloads):
        if number % CHUNK == 0:
            time.sleep(max(0.0, began + number / per_second - time.monotonic()))
        yield payload


def run(folder: Path, broker: Mosquitto, reads: int, kills: int, seed: int) -> Outcome:
    """Kill and restart the service at random moments of the stream, then count the rows in the database."""
    data_dir = folder / "data"
    data_dir.mkdir()
    make_site(data_dir)
    stream = threading.Thread(
        target=broker.publish, args=(TOPIC, paced(numbered(reads), reads / kills / SECONDS_FOR_A_KILL))
    )
    with (
        Service(data_dir, broker.url, ingest__sighting_gap_seconds=0) as service,
        closing(LedgerReader(data_dir)) as ledger_reader,
    ):
        service.start()  # the broker keeps messages only for a known session
        service.wait_until_connected()
        stream.start()
        hits = kill_at_random(
            service,
            kills,
            random.Random(seed),
            lambda: stream.is_alive() and ledger_reader.messages() > 0,
        )
        stream.join()
        wait_for(lambda: ledger_reader.ledger().get("recorded", (0, 0))[1] >= reads, SETTLE_SECONDS, service.read_log)
        service.stop()  # after this all redeliveries are in the ledger
        return count(ledger_reader, reads, hits)


def kill_at_random(service: Service, kills: int, chance: random.Random, is_hit: Callable[[], bool]) -> int:
    """Kill the service at random moments. Returns how often `is_hit` was true at a kill."""
    hits = 0
    for _ in range(kills):
        time.sleep(chance.random() * chance.choice(MOMENTS))
        service.kill()
        hits += is_hit()
        service.start()
        if chance.random() < 0.8:  # otherwise kill it possibly during its start
            service.wait_until_connected()
    return hits


def count(ledger_reader: LedgerReader, reads: int, hits: int) -> Outcome:
    counts = Counter(
        (-rssi - 1) * TAGS + int(name.split()[1])
        for name, rssi in ledger_reader.all(
            "SELECT a.name, h.rssi FROM history h JOIN position p ON p.no = h.position_no "
            "JOIN asset a ON a.id = p.asset_id"
        )
    )
    ledger = ledger_reader.ledger()
    return Outcome(
        sum(number not in counts for number in range(reads)),
        sum(times - 1 for times in counts.values()),
        ledger.get("recorded", (0, 0))[1],
        ledger.get("repeat", (0, 0))[0],
        hits,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--reads", type=int, default=20_000)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=time.time_ns() % 1_000_000)
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    with tempfile.TemporaryDirectory() as folder, mosquitto(Path(folder)) as broker:
        outcome = run(Path(folder), broker, options.reads, options.kills, options.seed)
    print(outcome)
    is_exact = outcome.is_exact(options.reads)
    print("every read exactly once" if is_exact else "NOT exactly once")
    sys.exit(0 if is_exact else 1)


if __name__ == "__main__":
    main()
