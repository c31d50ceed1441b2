"""Measure the comparison of site and hub, in processor seconds of the hub: cold, and every night.

python -m tests.bench.verify [SITES] [DAYS]
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from edge import clock
from edge.database import change_log
from edge.database import connection as database_module
from edge.database.connection import execute, writing
from edge.sync import batch_format, hub
from edge.sync.store import epochs, sites
from tests.sync.world import Hub

TRACKS = 5000  # of each site
STAYS = 5  # of each track and day


def main() -> None:
    site_count, days = (int(word) for word in [*sys.argv[1:], *["40", "20"][len(sys.argv) - 1 :]])
    database_module.PRAGMAS["synchronous"] = "off"
    with tempfile.TemporaryDirectory() as folder:
        machine = Hub(Path(folder) / "hub", "hub")
        numbers = [machine.add_site(f"S{n}") for n in range(site_count)]
        today = clock.now() // clock.DAY
        with machine.in_use():
            for number in numbers:
                fill(machine.organization_id, number, today - days, days)
            rows = site_count * days * TRACKS * STAYS
            print(f"{site_count} sites, {rows:,} stays, {site_count * TRACKS:,} assets", flush=True)
            for case in ("first night", "second night", "third night, one day of stays later"):
                if case.startswith("third"):
                    for number in numbers:
                        add_day(number, today - 1)
                spent, longest = timed(lambda: [compare(machine, number) for number in numbers])
                print(f"{case}: {spent:.2f} s for all sites, longest request {longest:.2f} s", flush=True)


def compare(machine: Hub, number: int) -> float:
    """Ask like a site at night. Returns the processor time of the longest answer."""
    site = sites.get_site(machine.organization_id, number)
    first, longest = -(10**6), 0.0
    while first <= 10**6:
        question = {"range": (first, 10**6), "days": [], "is_partial": True}
        spent, answer = timed(lambda question=question: answer_of(site, question))  # type: ignore[misc]
        longest, first = max(longest, spent), answer["until"] + 1
    for question in (
        {"of": "records"},
        {"of": "copies", "first": 0, "after": change_log.newest(), "epoch": epochs.hub_epoch(), "is_exact": True},
    ):
        spent, _ = timed(partial(answer_of, site, {"range": (1, 0), "days": [], **question}))
        longest = max(longest, spent)
    return longest


def answer_of(site: sites.Site, question: dict[str, Any]) -> Any:
    return hub.digests(site, batch_format.unpack(batch_format.pack(question)))


def timed(action: Callable[[], Any]) -> tuple[float, Any]:
    began = time.process_time()
    result = action()
    return time.process_time() - began, max(result) if isinstance(result, list) else result


def fill(organization_id: int, number: int, first_day: int, days: int) -> None:
    """Insert assets, tracks and stays of a site."""
    base, now = number * 1_000_000, clock.now()
    with writing():
        place = execute("SELECT location_id FROM site WHERE no = ?", (number,)).fetchone()[0]
        source = execute(
            "INSERT INTO source (organization_id, location_id, site_no, remote_reader, port) VALUES (?, ?, ?, 7, 1) "
            "RETURNING no",
            (organization_id, place, number),
        ).fetchone()[0]
        counted = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1) "
        execute(
            counted + "INSERT INTO asset (id, organization_id, external_key, name, valid_from, created_at, updated_at) "
            "SELECT ?2 + i, ?3, 'A-' || (?2 + i), 'Pallet ' || i, ?4, ?4, ?4 FROM n",
            (TRACKS, base, organization_id, now),
        )
        execute(
            counted + "INSERT INTO link (peer, remote_id, local_id, created_at) SELECT ?2, i, ?3 + i, ?4 FROM n",
            (TRACKS, number, base, now),
        )
        execute(counted + "INSERT INTO mirror SELECT ?2 + i, ?3, 'S' FROM n", (TRACKS, base, number))
        execute(
            counted + "INSERT INTO track (no, asset_id, site_no, remote_no, organization_id, location_id, "
            "last_seen_at, dwell_started_at, row_at, row_seq, history_rows) "
            "SELECT ?2 + i, ?2 + i, ?3, i, ?4, ?5, ?6, ?6, ?6, 0, ?7 FROM n",
            (TRACKS, base, number, organization_id, place, now, days * STAYS),
        )
        execute(
            "WITH RECURSIVE d(at) AS (SELECT ?1 UNION ALL SELECT at + ?2 FROM d WHERE at + ?2 < ?3) "
            "INSERT INTO history SELECT no, at + no % 1000000, 0, ?2, ?4, 0, 0, NULL, 0 FROM track, d "
            "WHERE site_no = ?5 ORDER BY no, at",
            (first_day * clock.DAY, clock.DAY // STAYS, (first_day + days) * clock.DAY, source, number),
        )


def add_day(number: int, day: int) -> None:
    """Insert as many stays as the sites send in a day."""
    with writing():
        execute(
            "INSERT INTO history SELECT position_no, observed_at + 1000000, seq, seen_for, source_no, delay, quality, "
            "rssi, rule FROM history JOIN track ON no = position_no "
            "WHERE site_no = ? AND observed_at BETWEEN ? AND ?",
            (number, day * clock.DAY, (day + 1) * clock.DAY - 2_000_000),
        )


if __name__ == "__main__":
    main()
