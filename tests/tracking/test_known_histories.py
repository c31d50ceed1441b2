"""Histories of fixed random reads, kept in a file. Whoever changes a rule of tracking sees which histories change.

If a change is intended: python -m tests.tracking.test_known_histories, and read the differences before the commit.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from random import Random
from typing import Any

import pytest

from edge.audit.actors import shell
from edge.database.connection import close_database
from edge.people import organizations
from edge.tracking.late_reads import take_back
from edge.tracking.positions import reconsider, record_by_person
from edge.tracking.recent_reads import RecentReads
from edge.tracking.signal_strength import Weight
from tests.conftest import Cast
from tests.database import orders, tracked_site
from tests.database.orders import START, make_world
from tests.database.tracked_site import GAP, Read, make_site
from tests.databases import make_database

FILE = Path(__file__).parent / "examples" / "histories.json"
SEEDS = range(14)
ASSETS = 12  # of each seed, at four readers
TRACES = 40  # of each seed, with scans by people
WEIGHTS = [*[Weight.RFID_ZONE] * 5, Weight.BLE_ZONE, Weight.RFID_PORTAL, Weight.DIRECT]


def histories_at_readers(organization_id: int, seed: int) -> list[Any]:
    """Return the rows of each asset. Every second seed has reads that are late, every fifth no smoothing."""
    random = Random(seed)
    world = make_world(organization_id)
    world = world._replace(places=sorted(world.places), readers=sorted(world.readers))  # ids decide equal strengths
    asset_ids = world.new_assets(ASSETS)
    sent = orders.messages(world, asset_ids, random)
    is_smoothing = seed % 5 != 4
    if seed % 2:
        sent = orders.shuffled(sent, random)
    orders.tell(sent, world, RecentReads() if is_smoothing else None, random if seed % 2 else None)
    places = {location_id: number for number, location_id in enumerate(world.places)}
    return [
        [
            [(at - START) // 1000, seq, seen_for, places[place], port, rssi, rule, places[current]]
            + [(moment - START) // 1000 for moment in (last_seen_at, dwell_started_at, row_at)]
            + [row_seq, row_rule, rows]
            for (at, seq, seen_for, place, port, rssi, rule, current, last_seen_at, dwell_started_at, row_at, row_seq,
                 row_rule, rows) in history
        ]
        for history in world.history(asset_ids)
    ]  # fmt: skip


def histories_with_people(organization_id: int, seed: int) -> list[Any]:
    """Return the rows of each trace: reads in bursts, single ones, and scans by people, one of them undone."""
    random = Random(seed)
    site = make_site(organization_id, count=1 + seed % 3)
    site = site._replace(places=sorted(site.places))
    kept = []
    for number in range(TRACES):
        reads = _reads(random)
        if number % 2:
            random.shuffle(reads)
        cuts = sorted(random.randrange(60) for _ in range(random.randrange(6)))
        recent = RecentReads(most_bytes=0, counted_every=1) if number % 5 == 4 else RecentReads()
        asset_id = tracked_site.tell(site, reads, cuts, recent=recent)
        if number % 3 == 2:
            scan = site.scan(asset_id, Read(random.randrange(300), random.randrange(3), None, None))
            seq = record_by_person(scan)
            take_back(asset_id, scan.observed_at, seq, GAP)
            reconsider(asset_id, scan.observed_at, is_undone=True)
        place, *numbers = site.position(asset_id)
        moments = [(moment - START) // 1000 for moment in numbers[:3]]
        kept.append([[*site.history(asset_id)], [site.places.index(place), *moments, *numbers[3:]]])
    return kept


def _reads(random: Random) -> list[Read]:
    reads = [
        Read(random.randrange(300), random.randrange(3), random.choice((-45.0, -55.0, -65.0, -75.0, None)),
             random.choice(WEIGHTS))
        for _ in range(random.randrange(13))
    ]  # fmt: skip
    for _ in range(random.randrange(1, 5)):
        start, rssi = random.randrange(26), random.choice((-45.0, -60.0, -75.0))
        reads += tracked_site.every(start, start + random.randrange(1, 9), 0.7, random.randrange(3), rssi)
    reads += [Read(random.randrange(300), random.randrange(3), None, None) for _ in range(random.randrange(3))]
    return sorted({read.tenths: read for read in reads}.values(), key=lambda read: read.tenths)


KINDS = {"at readers": histories_at_readers, "with people": histories_with_people}


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("kind", KINDS)
def test_the_histories_of_these_reads_are_as_before(cast: Cast, kind: str, seed: int) -> None:
    expected = json.loads(FILE.read_text("utf-8"))[kind][seed]
    histories = json.loads(json.dumps(KINDS[kind](cast.acme, seed)))
    for number, (now, before) in enumerate(zip(histories, expected, strict=True)):
        assert now == before, f"{kind}, seed {seed}, trace {number}"


def write() -> None:
    kept: dict[str, list[Any]] = {kind: [] for kind in KINDS}
    for kind, histories in KINDS.items():
        for seed in SEEDS:
            with tempfile.TemporaryDirectory() as folder:
                make_database(Path(folder))
                kept[kind].append(histories(organizations.add_organization(shell(), "Acme").id, seed))
                close_database()
    FILE.write_text(_by_line(kept), "utf-8")


def _by_line(kept: dict[str, list[Any]]) -> str:
    """Return JSON with a line for each trace, so that a difference shows which ones have changed."""
    kinds = []
    for kind, seeds in kept.items():
        traces = [",\n".join(json.dumps(trace, separators=(",", ":")) for trace in seed) for seed in seeds]
        kinds.append(f'"{kind}": [\n' + ",\n".join(f"[\n{one}\n]" for one in traces) + "\n]")
    return "{\n" + ",\n".join(kinds) + "\n}\n"


if __name__ == "__main__":
    write()
