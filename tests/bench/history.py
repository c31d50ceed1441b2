"""Measure size and speed of a full store: 10,000 assets and 10 million rows of history.

    python -m tests.bench.history [--rows 10000000] [--keep FOLDER]

The rows are written in the order of observation, with all assets interleaved, and each stay is closed when the next
begins, as ingest does: pages are split and filled as on a real box. Times are those of whole API requests within the
process; "cold" requests begin without the database in the memory of this process or of the system.
"""

from __future__ import annotations

import argparse
import os
import random
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from flask.testing import FlaskClient

from edge import clock
from edge.audit.actors import shell
from edge.clock import DAY, SECOND
from edge.database import migrate
from edge.database.connection import FILE_NAME, close_database, database, execute, execute_many, writing
from edge.database.ids import new_ids
from edge.people import api_keys, organizations
from edge.people.api_keys import SCOPES
from edge.people.secrets import hash_secret, new_client_secret
from edge.tracking import board, past, past_board
from edge.tracking.board import BoardFilter
from edge.tracking.decision_rule import Rule
from edge.tracking.flows import flow
from edge.tracking.past import PastFilter
from edge.tracking.stays import INSERT_ROW, Quality
from tests.application import make_app

ASSETS, LOCATIONS, PORTS = 10_000, 200, 4
BUSY_SHARE = 0.02  # share of all rows that belong to one forklift
DAYS = 400
BLOCK = 50_000
REQUESTS = 200
TARGET_BYTES, TARGET_FIRST, TARGET_DEEP = 80, 20.0, 100.0  # disk bytes per row; milliseconds


class Tracked(NamedTuple):
    asset_ids: list[int]
    rows: list[int]  # history rows by asset


class Figure(NamedTuple):
    """Median and 95th percentile in milliseconds."""

    usual: float
    most: float


def make_master_data(organization_id: int) -> tuple[list[int], list[int]]:
    """Write assets with one tag each, and locations, directly. Returns their ids."""
    ids = new_ids(2 * ASSETS + LOCATIONS)
    asset_ids, tag_ids, location_ids = ids[:ASSETS], ids[ASSETS : 2 * ASSETS], ids[2 * ASSETS :]
    named = "(id, organization_id, external_key, key_number, name, valid_from, created_at, updated_at)"
    for table, prefix, own in (("location", "LOC", location_ids), ("asset", "ASSET", asset_ids)):
        execute_many(
            f"INSERT INTO {table} {named} VALUES (?, ?, ?, ?, ?, 0, 0, 0)",
            [
                (record, organization_id, f"{prefix}-{number:04}", number, f"{prefix.title()} {number}")
                for number, record in enumerate(own, start=1)
            ],
        )
    execute_many(
        "INSERT INTO tag (id, organization_id, asset_id, tag_type, value, match_key, created_at) "
        "VALUES (?, ?, ?, 'rfid', ?, ?, 0)",
        [
            (tag, organization_id, asset, f"3074257BF7194E40{number:08X}", f"3074257BF7194E40{number:08X}")
            for number, (tag, asset) in enumerate(zip(tag_ids, asset_ids, strict=True))
        ],
    )
    return asset_ids, location_ids


def make_sources(organization_id: int, location_ids: list[int]) -> None:
    """Create one reader for each four locations; source N (from 1) is at location N."""
    reader_ids = new_ids(len(location_ids) // PORTS)
    execute_many(
        "INSERT INTO reader (id, organization_id, name, topic, format, created_at, updated_at) "
        "VALUES (?, ?, ?, ?, 'csl', 0, 0)",
        [(reader, organization_id, f"reader {reader}", f"site/{reader}") for reader in reader_ids],
    )
    execute_many(
        "INSERT INTO source (no, organization_id, location_id, reader_id, port) VALUES (?, ?, ?, ?, ?)",
        [
            (number + 1, organization_id, location, reader_ids[number // PORTS], number % PORTS + 1)
            for number, location in enumerate(location_ids)
        ],
    )


def moves(rows: int, chance: random.Random) -> Iterator[list[tuple[int, int]]]:
    """Yield blocks of (asset number, time) in order of time. All move at random, one forklift all the time."""
    weights = [1.0] * ASSETS
    weights[0] = ASSETS * BUSY_SHARE
    step = DAYS * DAY / rows
    began = clock.now() - DAYS * DAY
    for start in range(0, rows, BLOCK):
        chosen = chance.choices(range(ASSETS), weights, k=min(BLOCK, rows - start))
        times = sorted(began + int((start + chance.random() * len(chosen)) * step) for _ in chosen)
        yield list(zip(chosen, times, strict=True))


def make_history(rows: int, organization_id: int, asset_ids: list[int], location_ids: list[int]) -> None:
    chance = random.Random(1)
    last: list[tuple[int, int, int] | None] = [None] * ASSETS  # newest row: time, source, begin of the stay
    counts = [0] * ASSETS
    with writing():
        execute_many(
            "INSERT INTO track (no, asset_id, organization_id, location_id, last_seen_at, dwell_started_at, row_at, "
            "row_seq, history_rows) VALUES (?, ?, ?, ?, 0, 0, 0, 0, 0)",
            [(number + 1, asset, organization_id, location_ids[0]) for number, asset in enumerate(asset_ids)],
        )
    for block in moves(rows, chance):
        opened, closed = [], []
        for number, at in block:
            before = last[number]
            if before and at <= before[0]:
                at = before[0] + 1
            source = chance.randint(1, LOCATIONS)
            delay, rssi = chance.randint(50_000, 2_000_000), -chance.randint(400, 750)
            opened.append((number + 1, at, 0, 0, source, delay, Quality.READER, rssi, Rule.EVERY_READ))
            if before:
                closed.append((chance.randint(0, at - before[0] - 1), number + 1, before[0]))
            moved = before is None or before[1] != source
            last[number] = (at, source, at if moved or before is None else before[2])
            counts[number] += 1
        with writing():
            execute_many(INSERT_ROW, opened)
            execute_many("UPDATE history SET seen_for = ? WHERE position_no = ? AND observed_at = ?", closed)
    with writing():
        execute_many(
            "UPDATE track SET location_id = ?, last_seen_at = ?, dwell_started_at = ?, row_at = ?, history_rows = ? "
            "WHERE no = ?",
            [
                (location_ids[row[1] - 1], row[0] + SECOND, row[2], row[0], counts[number], number + 1)
                for number, row in enumerate(last)
                if row
            ],
        )
        execute("DELETE FROM track WHERE history_rows = 0")


def generate(rows: int) -> None:
    execute("PRAGMA synchronous = off")  # measurements use other connections later
    execute("PRAGMA cache_size = -400000")
    organization_id = organizations.add_organization(shell(), "Bench").id
    with writing():
        asset_ids, location_ids = make_master_data(organization_id)
        make_sources(organization_id, location_ids)
    make_history(rows, organization_id, asset_ids, location_ids)
    execute("PRAGMA wal_checkpoint(TRUNCATE)")


# Measurements ---------------------------------------------------------------------------------------------------


def tracked_assets() -> Tracked:
    """Return the assets to measure, the forklift first."""
    rows = execute("SELECT asset_id, history_rows FROM position ORDER BY no").fetchall()
    return Tracked([asset for asset, _ in rows], [count for _, count in rows])


def bytes_for_a_row(rows: int) -> float:
    """Return disk bytes per row with all indexes of the table; it has none besides its primary key."""
    size: int = execute("SELECT sum(pgsize) FROM dbstat WHERE name = 'history'").fetchone()[0]
    return size / rows


def api_client(organization_id: int) -> tuple[FlaskClient, dict[str, str]]:
    app = make_app(rate_per_second=10**6, rate_burst=10**6)
    client = app.test_client()
    secret = new_client_secret()
    key = api_keys.add_key(shell(organization_id), "bench", list(SCOPES), hash_secret(secret))
    answer = client.post(
        "/api/v1/oauth/token",
        json={"grant_type": "client_credentials", "client_id": key.id, "client_secret": secret},
        headers={"User-Agent": "bench/1"},
    )
    return client, {"User-Agent": "bench/1", "Authorization": f"Bearer {answer.json['access_token']}"}


def timed(request: Callable[[], Any], before: Callable[[], None] = lambda: None, times: int = REQUESTS) -> Figure:
    taken = []
    for _ in range(times):
        before()
        began = time.perf_counter()
        request()
        taken.append((time.perf_counter() - began) * 1000)
    return Figure(median(taken), sorted(taken)[int(len(taken) * 0.95)])


def forget(path: Path) -> Callable[[], None]:
    """Drop the database from memory: this process's connection and the system's page cache."""

    def drop() -> None:
        close_database()
        with path.open("rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        database.connect(reuse_if_open=True)

    return drop


def touch() -> None:
    """Invalidate the caches of the lists."""
    execute("UPDATE version SET records = records + 1")


def report(what: str, figure: Figure, target: float | None = None) -> None:
    text = f"{what}: {figure.usual:.1f} ms, 95 % within {figure.most:.1f} ms"
    if target:
        text += f"; target {target:.0f} ms: {'met' if figure.most < target else 'MISSED'}"
    print(text)


def measure(path: Path, tracked: Tracked) -> None:
    rows = sum(tracked.rows)
    each = bytes_for_a_row(rows)
    verdict = "met" if each <= TARGET_BYTES else "MISSED"
    print(f"{rows:,} rows of history, {each:.1f} bytes each; target {TARGET_BYTES}: {verdict}")
    organization_id = execute("SELECT id FROM organization").fetchone()[0]
    client, headers = api_client(organization_id)
    chance = random.Random(2)

    def get(path: str) -> Any:
        answer = client.get(f"/api/v1{path}", headers=headers)
        assert answer.status_code == 200, answer.json
        return answer.json

    def of_any_asset(offset: Callable[[int], int]) -> Callable[[], Any]:
        def request() -> Any:
            number = chance.randrange(1, len(tracked.rows))
            at = offset(tracked.rows[number])
            return get(f"/assets/{tracked.asset_ids[number]}/history?limit=50&offset={at}")

        return request

    busiest = f"/assets/{tracked.asset_ids[0]}/history?limit=50"
    cold = forget(path)
    first, last = of_any_asset(lambda _: 0), of_any_asset(lambda count: max(0, count - 50))
    report("current locations, 50 of them", timed(lambda: get("/reports/asset-locations?limit=50")), TARGET_FIRST)
    report("  cold", timed(lambda: get("/reports/asset-locations?limit=50"), cold, 20))
    report("  the last 50", timed(lambda: get(f"/reports/asset-locations?offset={ASSETS - 50}"), times=20), TARGET_DEEP)
    report(
        "  the first after a change of the list", timed(lambda: get("/reports/asset-locations"), touch), TARGET_FIRST
    )
    report("  in the web app", timed(lambda: board.board(organization_id, BoardFilter(), limit=50)), TARGET_FIRST)
    now = clock.now()
    then = PastFilter(now - 10 * DAY)
    week, month = ([now - day * DAY for day in range(days, -1, -1)] for days in (7, 31))
    location = execute("SELECT id FROM location LIMIT 1").fetchone()[0]
    report("the board of a past moment", timed(lambda: past_board.board_at(organization_id, then, limit=50), times=20))
    report("coming and going at a location, 7 days", timed(lambda: flow(organization_id, location, week), times=5))
    report("coming and going at a location, 31 days", timed(lambda: flow(organization_id, location, month), times=3))
    stays = partial(past.stays, organization_id, tracked.asset_ids[1], since=now - 31 * DAY, until=now)
    report("stays of an asset, 31 days", timed(stays, times=20))
    report("history of any asset, first page", timed(first), TARGET_FIRST)
    report("  cold", timed(first, cold, 20))
    report("  last page", timed(last), TARGET_DEEP)
    print(f"one asset with {tracked.rows[0]:,} rows of history:")
    report("  first page", timed(lambda: get(busiest)), TARGET_FIRST)
    report("  the middle", timed(lambda: get(f"{busiest}&offset={tracked.rows[0] // 2}"), times=20), TARGET_DEEP)
    report("  last page", timed(lambda: get(f"{busiest}&offset={tracked.rows[0] - 50}"), times=20), TARGET_DEEP)
    report("  last page, cold", timed(lambda: get(f"{busiest}&offset={tracked.rows[0] - 50}"), cold, 5))
    since = clock.rfc3339(clock.now() - 30 * DAY)
    report("  the last 30 days", timed(lambda: get(f"{busiest}&from={since}"), times=20), TARGET_DEEP)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--keep", type=Path, help="make the database there, or measure the one that is there")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        data_dir = options.keep or Path(folder)
        data_dir.mkdir(exist_ok=True)
        is_new = not (data_dir / FILE_NAME).exists()
        migrate.migrate(data_dir)
        began = time.monotonic()
        if is_new:
            generate(options.rows)
        close_database()
        size = (data_dir / FILE_NAME).stat().st_size / 2**20
        print(f"{size:,.0f} MB in {time.monotonic() - began:.0f} s")
        measure(data_dir / FILE_NAME, tracked_assets())
        close_database()


if __name__ == "__main__":
    main()
