"""Measure a site that reconnects after two weeks offline: real processes, broker and TLS, over a slow line.

    python -m tests.bench.sync_line FOLDER [--stays 1000000]

The first run creates the boxes in FOLDER, which takes minutes; every run measures copies of them. With two cores, the
hub has one and the site with its broker the other. Measures the time until the hub's board is right, the stays a second
after that, the latency of the hub's API meanwhile, and the slowdown of ingest at the site.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import sqlite3
import statistics
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import msgspec

from edge import clock
from edge.database import connection as database
from edge.database.connection import FILE_NAME, close_database, execute, execute_many, writing
from edge.people import api_keys
from edge.people.secrets import hash_secret
from edge.readers import readers
from edge.readers.clocks import READER
from edge.readers.readers import Placement
from edge.records import assets
from edge.records.tags import NewTag
from edge.sync import files
from edge.sync.store import hub_link, sites
from edge.sync.store.hub_link import HubAccess
from edge.tracking.positions import record
from edge.tracking.stays import Quality, Scan, ScanSource, number_of
from tests.bench.ingest import TOPIC, csl_messages, verdict
from tests.mosquitto import Mosquitto, free_port, mosquitto
from tests.service import Service, wait_for
from tests.sync import tls
from tests.sync.line import Way, line
from tests.sync.processes import Process
from tests.sync.world import EPOCH, GAP, HOUR, Hub, SiteBox

ASSETS = 2000
DAYS = 14
SECRET = "edge_" + "0" * 64
READER_SECRET = "edge_" + "1" * 64
MILLISECOND = 1000
AGENT = "sync-bench/1"
CATCH_UP_SECONDS = 40
INGEST_MESSAGES = 20_000


def make(folder: Path, stays: int) -> None:
    """Create a hub and a site in sync, then two weeks of data at the site that the hub does not have."""
    database.PRAGMAS["synchronous"] = "off"
    hub = Hub(folder / "hub", "hub")
    ber = SiteBox(folder / "ber", "BER", hub)
    with ber.in_use(), writing():
        epcs = [f"3074257BF7194E40{number:08X}" for number in range(ASSETS)]
        ids = [assets.create(ber.actor, name=f"Pallet {epc}", tags=[NewTag("rfid", epc)]).id for epc in epcs]
        gate = readers.add_reader(ber.actor, name="dock", topic=TOPIC, format="csl", clock_setting=READER)
        for port, dock in enumerate([*ber.docks, ber.yard], start=1):
            readers.set_antenna(ber.actor, gate.id, port, Placement(dock, None, True))
        scans = [
            Scan(
                ber.organization_id,
                asset,
                ber.docks[number % 3],
                ber.reader_id,
                1,
                EPOCH,
                EPOCH + 7,
                Quality.READER,
                -51,
            )
            for number, asset in enumerate(ids)
        ]
        record(scans, GAP)
    with hub.in_use():
        sites.renew_code(hub.actor, ber.site_no, hash_secret("code"))
        joined = sites.join(hash_secret("code"), hash_secret(SECRET))
        assert joined
        assert joined.api_key_id
        wms = api_keys.add_key(
            hub.actor, "WMS", ["assets:read", "locations:read", "tracking:read"], hash_secret(READER_SECRET)
        )
        (folder / "wms").write_text(wms.id)
    certificate = tls.make(folder / "tls", days=29)
    with ber.in_use():
        hub_link.begin(ber.actor, HubAccess("https://127.0.0.1:1", "BER", "The hub", joined.api_key_id))
    files.write(ber.folder, SECRET, certificate.authority.read_text())
    ber.settle(1000)
    with ber.in_use():
        _two_weeks(ber, stays)
    close_database()


def _two_weeks(ber: SiteBox, stays: int) -> None:
    """Write stays in order for each asset; the triggers of the feed see every row."""
    chance = random.Random(1)
    tracks = [row[0] for row in execute("SELECT no FROM track ORDER BY no")]
    with writing():
        sources = [number_of(ber.organization_id, ScanSource(dock, ber.reader_id, 1)) for dock in ber.docks]
    begin, span = EPOCH + 24 * HOUR, DAYS * 24 * HOUR
    step, length = span // stays, span // stays * len(tracks)
    for first in range(0, stays, 50_000):
        rows = [
            (
                *(tracks[number % len(tracks)], begin + number * step + chance.randrange(step)),
                *(0, chance.randrange(length // 2), sources[(number // len(tracks) + number) % 3]),
                *(chance.randrange(50_000, 2_000_000), 1, -chance.randrange(400, 750), 0),
            )
            for number in range(first, min(first + 50_000, stays))
        ]
        with writing():
            execute_many("INSERT INTO history VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", rows)
    with writing():
        execute(_CATCH_UP_TRACKS)


_CATCH_UP_TRACKS = """
UPDATE track SET (location_id, last_seen_at, dwell_started_at, row_at, row_seq) = (
    SELECT s.location_id, h.observed_at + h.seen_for, h.observed_at, h.observed_at, h.seq
    FROM history h JOIN source s ON s.no = h.source_no
    WHERE h.position_no = track.no ORDER BY h.observed_at DESC LIMIT 1
), history_rows = (SELECT count(*) FROM history WHERE position_no = track.no)
"""


class Pair:
    """The two services on copies of the boxes, with a line between them that is down at first."""

    def __init__(self, made: Path, folder: Path, broker: Mosquitto, stack: ExitStack) -> None:
        self.broker, self.port = broker, free_port()
        for name in ("hub", "ber"):
            shutil.copytree(made / name, folder / name)
        with closing(sqlite3.connect(folder / "ber" / FILE_NAME)) as connection, connection:
            connection.execute("UPDATE target SET url = ?", (f"https://127.0.0.1:{self.port}",))
        self.hub = stack.enter_context(Service(folder / "hub", "embedded", mqtt__listen=f"127.0.0.1:{free_port()}"))
        self.site = stack.enter_context(Service(folder / "ber", broker.url))
        self._certificate = tls.Certificate(*(made / "tls" / name for name in ("hub.crt", "hub.key", "ca.crt")))
        self._wms = (made / "wms").read_text()
        self._stack = stack
        for service, core in ((self.hub, 1), (self.site, 0)):
            service.start()
            assert service.process
            pin(service.process.pid, core)
        pin(broker.pid, 0)
        wait_for(lambda: self.hub.has_logged("Serving pages"), 120, self.hub.read_log)
        self.site.wait_until_connected(120)

    def connect(self) -> None:
        inner = int(self.hub.http.rpartition(":")[2])
        process = Process(lambda: line(self.port, inner, self._certificate, Way(), 1))
        self._stack.callback(process.kill)

    def one(self, service: Service, sql: str) -> Any:
        with closing(sqlite3.connect(f"file:{service.data_dir / FILE_NAME}?mode=ro", uri=True)) as connection:
            return connection.execute(sql).fetchall()

    def ask(self, path: str, token: str = "") -> bytes:
        headers = {"Authorization": f"Bearer {token}", "User-Agent": AGENT, "Content-Type": "application/json"}
        body = None
        if not token:
            body = msgspec.json.encode(
                {"grant_type": "client_credentials", "client_id": self._wms, "client_secret": READER_SECRET}
            )
        asked = urllib.request.Request(self.hub.http + path, body, headers)
        with urllib.request.urlopen(asked) as answer:
            return bytes(answer.read())

    @contextmanager
    def api_clients(self, took: list[float]) -> Iterator[None]:
        """Make fifty requests a second."""
        token = msgspec.json.decode(self.ask("/api/v1/oauth/token"))["access_token"]
        over = threading.Event()

        def ask() -> None:
            turn = 0
            while not over.is_set():
                path = ("/api/v1/assets", "/api/v1/reports/asset-locations")[turn % 2]
                turn += 1
                began = time.perf_counter()
                self.ask(path, token)
                took.append(time.perf_counter() - began)
                over.wait(max(0.0, 0.02 - took[-1]))

        thread = threading.Thread(target=ask, daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    def ingested(self) -> int:
        return int(self.one(self.site, "SELECT ifnull(sum(messages), 0) FROM ledger")[0][0])

    def ingest(self) -> float:
        """Return the messages a second that the site takes from the full queue of its broker."""
        at = clock.now() - INGEST_MESSAGES * MILLISECOND
        before = self.ingested()
        epcs = [f"3074257BF7194E40{number:08X}" for number in range(1000)]
        began = time.perf_counter()
        self.broker.publish(TOPIC, (payload for _, payload in csl_messages(epcs, INGEST_MESSAGES, at)))
        wait_for(lambda: self.ingested() >= before + INGEST_MESSAGES, 300, self.site.read_log)
        return INGEST_MESSAGES / (time.perf_counter() - began)


def processor_seconds(service: Service) -> float:
    """Return the processor time of all threads so far."""
    assert service.process
    fields = Path(f"/proc/{service.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def pin(pid: int, core: int) -> None:
    """Pin all threads of a process to one core."""
    if (os.cpu_count() or 1) > 1:
        for thread in Path(f"/proc/{pid}/task").iterdir():
            os.sched_setaffinity(int(thread.name), {core})


_BOARD_OF_SITE = "SELECT no, last_seen_at FROM track WHERE site_no IS NULL ORDER BY no"
_BOARD_AT_HUB = "SELECT remote_no, last_seen_at FROM track WHERE site_no IS NOT NULL ORDER BY remote_no"
_STAYS = "SELECT sum(history_rows) FROM track"


def catch_up(pair: Pair) -> None:
    quiet: list[float] = []
    busy: list[float] = []
    with pair.api_clients(quiet):
        time.sleep(10)  # baseline without sync
    spent = [processor_seconds(service) for service in (pair.hub, pair.site)]
    expected_board, total = pair.one(pair.site, _BOARD_OF_SITE), pair.one(pair.site, _STAYS)[0][0]
    before = pair.one(pair.hub, _STAYS)[0][0]
    with pair.api_clients(busy):
        began = time.perf_counter()
        pair.connect()
        wait_for(lambda: pair.one(pair.hub, _BOARD_AT_HUB) == expected_board, 120, pair.site.read_log)
        board = time.perf_counter() - began
        stays = -1
        while time.perf_counter() - began < CATCH_UP_SECONDS and stays + before != total:
            time.sleep(0.25)
            stays = pair.one(pair.hub, _STAYS)[0][0] - before
        seconds = time.perf_counter() - began
    hub, site = (processor_seconds(one) - was for one, was in zip((pair.hub, pair.site), spent, strict=True))
    print(f"board right after {board:.1f} s, target 5 s: {verdict(board < 5)}")
    print(
        f"{stays / seconds:,.0f} stays a second over {seconds:.0f} s, target 5,000: {verdict(stays / seconds >= 5000)}"
    )
    at_hub, at_site = hub / stays * 1e6, site / stays * 1e6
    print(f"processor time of a stay: {at_hub:.0f} us at the hub with its API, {at_site:.0f} us at the site")
    for name, took in (("alone", quiet), ("while a site catches up", busy)):
        p50, p99 = statistics.median(took) * 1000, sorted(took)[len(took) * 99 // 100] * 1000
        latencies = f"median {p50:.1f} ms, p99 {p99:.1f} ms of {len(took)}"
        print(f"API of the hub {name}: {latencies}, target 25 ms: {verdict(p99 < 25)}")


def ingest_meanwhile(pair: Pair, rounds: int) -> None:
    """Alternate both measurements, because the machine has other work."""
    speeds: dict[bool, list[float]] = {True: [], False: []}
    spent = {True: 0.0, False: 0.0}
    pair.ingest()
    for number in range(2 * rounds):
        is_syncing = number % 2 == 0
        pair.site.run("sync", "resume" if is_syncing else "pause")
        time.sleep(6)
        before = processor_seconds(pair.site)
        speeds[is_syncing].append(pair.ingest())
        spent[is_syncing] += processor_seconds(pair.site) - before
    ratio = statistics.median(speeds[True]) / statistics.median(speeds[False])
    print(
        f"the site takes {statistics.median(speeds[False]):,.0f} messages a second; while it catches up {ratio:.1%}, "
    )
    print(f"target 95 %: {verdict(ratio >= 0.95)}; in processor time {spent[False] / spent[True]:.1%}")


def compare(pair: Pair) -> None:
    """Check that every stay of the site is at the hub, by the sums of their columns."""
    wait_for(lambda: pair.one(pair.site, "SELECT max(seq) = acked_seq FROM change, target")[0][0], 900)
    sums = "SELECT count(*), sum(h.observed_at % 1000003), sum(h.seen_for), sum(h.rssi) FROM history h JOIN track t "
    sums += "ON t.no = h.position_no WHERE t.site_no IS {}"
    print("all equal:", pair.one(pair.site, sums.format("NULL")) == pair.one(pair.hub, sums.format("NOT NULL")))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--stays", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=2, help="of ingest with and without catching up")
    parser.add_argument("--complete", action="store_true", help="wait until all is at the hub, and compare")
    options = parser.parse_args()
    if not options.folder.exists():
        make(options.folder, options.stays)
        return
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        pair = Pair(options.folder, folder, stack.enter_context(mosquitto(folder)), stack)
        catch_up(pair)
        if options.rounds:
            ingest_meanwhile(pair, options.rounds)
        if options.complete:
            pair.site.run("sync", "resume")
            compare(pair)


if __name__ == "__main__":
    main()
