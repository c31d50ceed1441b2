"""Measure the lists of a hub with 200,000 assets of 40 sites, in processor time.

python -m tests.bench.board [--keep FOLDER]
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

from edge import clock
from edge.database import connection as database_module
from edge.database.connection import FILE_NAME, close_database, execute, execute_many, open_database, writing
from edge.sync.store import sites
from edge.tracking import board, location_board, past_board, past_index
from edge.tracking.board import BoardFilter
from edge.tracking.past import PastFilter
from tests.sync.world import Hub

SITES, ASSETS, LOCATIONS, STAYS = 40, 5000, 50, 8  # of each site, of each site, of each asset
ROUNDS = 9
TARGET = 50.0  # milliseconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keep", type=Path, help="folder for the database, used again if it exists")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        measure(options.keep or Path(folder) / "hub")


def measure(folder: Path) -> None:
    database_module.PRAGMAS["synchronous"] = "off"
    if not folder.exists():
        fill(Hub(folder, "hub"))
    open_database(folder / FILE_NAME)
    past_index.maintain(lambda _: False)
    organization_id = execute("SELECT id FROM organization").fetchone()[0]
    location = execute("SELECT id FROM location WHERE parent_id IS NOT NULL ORDER BY id LIMIT 1").fetchone()[0]
    site = execute("SELECT location_id FROM site ORDER BY no LIMIT 1").fetchone()[0]

    def listed(**filters: Any) -> Callable[[], object]:
        offset = filters.pop("offset", 0)
        return lambda: board.board(organization_id, BoardFilter(**filters), limit=50, offset=offset)

    def at(days: int, **filters: Any) -> Callable[[], object]:
        offset, moment = filters.pop("offset", 0), clock.now() - days * clock.DAY - clock.HOUR
        return lambda: past_board.board_at(organization_id, PastFilter(moment, **filters), limit=50, offset=offset)

    cases = {
        **{f"board by {sort}": listed(sort=sort) for sort in (*board.SORTS, *(f"-{name}" for name in board.SORTS))},
        "board by key, last page": listed(sort="key", offset=SITES * ASSETS - 50),
        "board by -seen, page 100": listed(sort="-seen", offset=5000),
        "board, one site": listed(site_id=site),
        "board, one site by -seen": listed(site_id=site, sort="-seen"),
        "board, one location": listed(location_id=location),
        "board, unseen for a day": listed(unseen_hours=24),
        "not seen: counts": lambda: board.count_unseen(organization_id, [1, 8, 24, 72, 168, 720]),
        "not seen: list": listed(unseen_hours=24, sort="seen"),
        "tree of locations": lambda: location_board.tree(organization_id),
        "one location": lambda: location_board.here(organization_id, location, limit=50),
        "past board, an hour ago": at(0),
        **{
            f"past board, {days} days ago by {sort}": at(days, sort=sort)
            for days in (0, 1, 4, 8, 15, 25)
            for sort in ("key", "seen", "-seen", "location", "-location")
        },
        "past board, 4 days ago by -seen, page 20": at(4, sort="-seen", offset=950),
        "past board, 4 days ago by location, page 20": at(4, sort="location", offset=950),
        "past board, 4 days ago, one location": at(4, location_id=location),
        "past board, 4 days ago, one site": at(4, location_id=site),
        "past board, 4 days ago, one site by -seen": at(4, location_id=site, sort="-seen"),
    }
    for name, act in cases.items():
        first, *others = (timed(act) for _ in range(ROUNDS))
        verdict = "" if max(first, median(others)) <= TARGET else " (over the target)"
        print(f"{name}: {median(others):.1f} ms, the first {first:.1f} ms{verdict}", flush=True)
    close_database()


def timed(act: Callable[[], object]) -> float:
    began = time.process_time()
    act()
    return (time.process_time() - began) * 1000


def fill(hub: Hub) -> None:
    numbers = [hub.add_site(f"S{n:02}") for n in range(SITES)]
    chance = random.Random(1)
    with hub.in_use():
        for number in numbers:
            site = sites.get_site(hub.organization_id, number)
            with writing():
                fill_site(hub.organization_id, site, chance)


def fill_site(organization_id: int, site: sites.Site, chance: random.Random) -> None:
    now, base = clock.now(), site.no * 1_000_000
    places = [base + 900_000 + n for n in range(LOCATIONS)]
    execute_many(
        "INSERT INTO location (id, organization_id, parent_id, external_key, name, valid_from, created_at, updated_at) "
        "VALUES (?, ?, ?, ?, ?, 0, 0, 0)",
        [(at, organization_id, site.location_id, f"{site.code}-D-{at}", f"Dock {at % 1000}") for at in places],
    )
    execute_many(
        "INSERT INTO source (no, organization_id, location_id, site_no, remote_reader) VALUES (?, ?, ?, ?, 7)",
        [(at, organization_id, at, site.no) for at in places],
    )
    ids = [base + n for n in range(ASSETS)]
    execute_many(
        "INSERT INTO asset (id, organization_id, external_key, name, valid_from, created_at, updated_at) "
        "VALUES (?, ?, ?, ?, 0, 0, 0)",
        [(asset, organization_id, f"{site.code}-{asset}", f"Pallet {chance.randrange(10**6)}") for asset in ids],
    )
    tracks, rows = [], []
    for asset in ids:
        begin = now - chance.randrange(9 * clock.DAY)
        times = sorted(begin - chance.randrange(20 * clock.DAY) for _ in range(STAYS))
        where = [chance.choice(places) for _ in times]
        rows += [
            (asset, at, until - at, place) for at, until, place in zip(times, [*times[1:], begin], where, strict=True)
        ]
        last = (begin, times[-1], times[-1])
        tracks.append((asset, asset, site.no, asset - base + 1, organization_id, where[-1], *last, STAYS))
    execute_many(
        "INSERT INTO track (no, asset_id, site_no, remote_no, organization_id, location_id, last_seen_at, "
        "dwell_started_at, row_at, row_seq, history_rows) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 0, ?)",
        tracks,
    )
    execute_many("INSERT INTO history VALUES (?, ?, 0, ?, ?, 0, 0, NULL, 0)", rows)


if __name__ == "__main__":
    main()
