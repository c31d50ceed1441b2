"""Measure the cost of sync: disk bytes per change, wire bytes per stay, the rate of a hub, and the slowdown of ingest.

python -m tests.bench.sync
"""

from __future__ import annotations

import random
import tempfile
import time
from pathlib import Path
from statistics import median

from edge.database import change_log
from edge.database.connection import execute, writing
from edge.database.triggers import Follower
from edge.records import assets
from edge.sync.sender import Sender
from edge.sync.store import hub_link
from edge.sync.store.hub_link import HubAccess
from edge.tracking.positions import record
from edge.tracking.stays import Quality, Scan
from tests.sync.world import EPOCH, GAP, HOUR, SECOND, Hub, SiteBox

ASSETS = 2000
ROUNDS = 60  # sightings of all assets; every fiftieth asset moves
BATCH = 1000
MOVED = 0.02  # share of the scans


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        site = SiteBox(Path(folder) / "ber", "BER", Hub(Path(folder) / "hub", "hub"))
        with site.in_use():
            with writing():
                ids = [assets.create(site.actor, name=f"Pallet {n}").id for n in range(ASSETS)]
            chance = random.Random(1)
            hub_link.begin(site.actor, HubAccess("https://hub", "BER", "The hub", "key"))
            before = change_log.newest()
            seconds: dict[str, list[float]] = {"no": [], "the change feed": [], "feed and digests": []}
            for step in range(len(seconds) * ROUNDS):  # alternately, because the machine has other work
                mode = list(seconds)[step // 5 % len(seconds)]
                if step % 5 == 0:
                    use(mode)
                spent = ingest(site, ids, chance, step)
                if step % 5:  # the first one also prepares its statements
                    seconds[mode].append(spent)
            alone = median(seconds.pop("no"))
            for mode, spent_each in seconds.items():
                more = (median(spent_each) - alone) / ASSETS * 1e6
                print(f"record() with {mode}: {alone / median(spent_each):.1%} of the speed without, ", end="")
                print(f"{more:.2f} microseconds more for a scan, {more / MOVED:.1f} for a move")
            size = execute("SELECT sum(pgsize) FROM dbstat WHERE name = 'change'").fetchone()[0]
            print(f"{size / execute('SELECT count(*) FROM change').fetchone()[0]:.1f} bytes of disk for a change")
            print(f"{change_log.newest() - before} changes of {ROUNDS * ASSETS} scans")
            use("feed and digests")
            catch_up(site)


def use(mode: str) -> None:
    """Follow the log of changes or not, for the hub and for stored digests."""
    change_log.leave(Follower.DIGESTS)
    change_log.leave(Follower.SITE)
    if mode != "no":
        change_log.begin(Follower.SITE)
    if mode == "feed and digests":
        change_log.begin(Follower.DIGESTS)


def ingest(site: SiteBox, ids: list[int], chance: random.Random, step: int) -> float:
    """Record one sighting of every asset. Returns the seconds it took."""
    at = EPOCH + step * 60 * SECOND
    scans = [
        Scan(site.organization_id, asset, site.docks[dock(asset, step)], site.reader_id, 1, moment, moment + late,
             Quality.READER, -chance.uniform(40, 75))
        for asset in ids
        for moment, late in [(at + chance.randrange(SECOND), chance.randrange(50_000, 2 * SECOND))]
    ]  # fmt: skip
    began = time.process_time()
    for first in range(0, len(scans), BATCH):
        record(scans[first : first + BATCH], GAP)
    return time.process_time() - began


def dock(asset: int, step: int) -> int:
    return (asset + (step + asset % 50) // 50) % 3


def catch_up(site: SiteBox) -> None:
    sent = 0

    def counted(path: str, body: bytes) -> object:
        nonlocal sent
        sent += len(body)
        return site.call(path, body)

    sender = Sender(counted)
    sender.connect()
    while not sender.push().is_all:
        pass
    chance = random.Random(2)
    sent, stays = 0, 40_000
    numbers = [row[0] for row in execute("SELECT asset_id FROM track")]
    at = EPOCH + 100 * HOUR
    for _ in range(stays // BATCH):
        record(
            [move(site, chance, asset, at + n * 1_700_003) for n, asset in enumerate(chance.choices(numbers, k=BATCH))],
            GAP,
        )
        at += BATCH * 1_700_003
    count = execute("SELECT count(*) FROM history WHERE observed_at >= ?", (EPOCH + 100 * HOUR,)).fetchone()[0]
    began = time.perf_counter()
    while not sender.push().is_all:
        pass
    seconds = time.perf_counter() - began
    print(
        f"{sent / count:.1f} bytes on the wire for a stay, {count / seconds:.0f} stays a second, "
        "both ends on one machine"
    )


def move(site: SiteBox, chance: random.Random, asset: int, at: int) -> Scan:
    at += chance.randrange(SECOND)
    place = site.docks[chance.randrange(3)]
    late, rssi = chance.randrange(50_000, 2 * SECOND), -chance.uniform(40, 75)
    return Scan(site.organization_id, asset, place, site.reader_id, 1, at, at + late, Quality.READER, rssi)


if __name__ == "__main__":
    main()
