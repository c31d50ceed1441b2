"""Measure how ingest records a backlog of contested reads, without a broker, and how long a person's scan waits.

    python -m tests.bench.backlog [--messages 20000] [--assets 1000] [--with-scans]

A site of 101 readers. Each tag is read at its location and at the neighbor's. The times of the reads rise, are equal,
fall, or are those of reads that were recorded before by other messages ("again"). Prints messages a second and the
processor time of the writer per message, and with `--with-scans` how long scans by a person took meanwhile.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

from edge import clock, listeners
from edge.audit.actors import Actor, shell
from edge.clock import SECOND
from edge.database import migrate
from edge.database.connection import close_database, execute, writing
from edge.ingest.messages import Message
from edge.ingest.pipeline import Pipeline
from edge.ingest.writer import Writer
from edge.people import organizations
from edge.readers import readers
from edge.readers.clocks import READER
from edge.records import assets, locations
from edge.records.tags import NewTag
from edge.tracking.positions import record_by_person
from edge.tracking.stays import Quality, Scan

READERS = 101
SPAN = 280 * SECOND
QUEUE, BATCH = 6_000, 5_000  # messages, the defaults of the settings
ORDERS = ("rising", "equal", "falling", "again")
SCAN_EVERY = 0.1  # seconds


def make_site(data_dir: Path, count: int) -> tuple[Actor, list[str]]:
    """Create the readers, each at its own location, and tagged assets. Returns the tags."""
    migrate.migrate(data_dir)
    actor = shell(organizations.add_organization(shell(), "Bench").id)
    epcs = [f"3074257BF7194E40{number:08X}" for number in range(count)]
    with writing():
        for number in range(READERS):
            place = locations.create(actor, name=f"Location {number}").id
            named = {"name": f"r{number}", "topic": f"site/{number}/reads", "location_id": place}
            readers.add_reader(actor, format="csl", clock_setting=READER, **named)
        for epc in epcs:
            assets.create(actor, name=f"Asset {epc[-4:]}", tags=[NewTag("rfid", epc)])
    return actor, epcs


def messages(epcs: list[str], order: str, count: int, chance: random.Random) -> Iterator[tuple[str, bytes]]:
    """Yield (topic, payload)."""
    begin = clock.now() - SPAN
    for number in range(count):
        step = {"equal": count // 2, "falling": count - number}.get(order, number)
        epc = chance.choice(epcs)
        reader = (epcs.index(epc) + (chance.random() < 0.25)) % READERS
        tag = {"epc": epc, "antennaPort": 1, "rssi": chance.randint(-70, -45)}
        yield (
            f"site/{reader}/reads",
            msgspec.json.encode({"tags": [{**tag, "timeStampOfRead": begin + step * SPAN // count}]}),
        )


def scans(actor: Actor, stopping: threading.Event, waits: list[float]) -> None:
    """Scan assets as a person until stopped, and note the seconds of each scan."""
    found = execute("SELECT id FROM asset LIMIT 50").fetchall()
    places = execute("SELECT id FROM location LIMIT 50").fetchall()
    number = 0
    while not stopping.wait(SCAN_EVERY):
        began, now = time.perf_counter(), clock.now()
        (asset_id,), (place,) = found[number % len(found)], places[number % len(places)]
        record_by_person(Scan(actor.organization_id, asset_id, place, None, None, now, now, Quality.HANDHELD))
        waits.append(time.perf_counter() - began)
        number += 1
    close_database()


def drain(order: str, options: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory() as folder:
        actor, epcs = make_site(Path(folder), options.assets)
        chance, pipeline, stopping = random.Random(7), Pipeline(300 * SECOND, 7), threading.Event()
        if order == "again":
            earlier = messages(epcs, order, options.messages, chance)
            pipeline.handle([Message(topic, payload, clock.now()) for topic, payload in earlier])
        backlog = list(messages(epcs, order, options.messages, chance))
        spent: list[float] = []

        def handle(batch: list[Message]) -> int:
            began = time.thread_time()
            done = pipeline.handle_some(batch)
            spent.append(time.thread_time() - began)
            return done

        writer = Writer(handle, pipeline.catch_up, lambda: None, queue_size=QUEUE, batch_size=BATCH, stopping=stopping)
        waits: list[float] = []
        person = threading.Thread(target=scans, args=(actor, stopping, waits))
        if options.with_scans:
            person.start()
        writer.thread.start()
        began = time.perf_counter()
        for topic, payload in backlog:
            while not writer.has_room():
                time.sleep(0.001)
            writer.put(Message(topic, payload, clock.now()))
            writer.wake()
        while writer.queued() or writer.in_hand:
            time.sleep(0.001)
        seconds = time.perf_counter() - began
        stopping.set()
        writer.wake()
        writer.thread.join()
        if options.with_scans:
            person.join()
        close_database()
    cost = sum(spent) / options.messages * 1e6
    print(f"{order}: {options.messages / seconds:,.0f} messages/s, {cost:.0f} us of processor time a message")
    if waits:
        waits.sort()
        print(f"  {len(waits)} scans: median {waits[len(waits) // 2] * 1e3:.0f} ms, longest {waits[-1] * 1e3:.0f} ms")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=20_000)
    parser.add_argument("--assets", type=int, default=1_000)
    parser.add_argument("--with-scans", action="store_true")
    options = parser.parse_args()
    listeners.connect()
    print(f"{READERS} readers, {options.assets} assets, every tag contested")
    for order in ORDERS:
        drain(order, options)


if __name__ == "__main__":
    main()
