"""Measure a hub with its history in PostgreSQL: 20 sites, 200,000 assets and 10 million stays.

    python -m tests.bench.postgres [--rows 10000000] [--new 200000]

The stays are written in the order of observation, all assets interleaved. Then the hub takes more of them in batches of
sites, with fsync, and is compared with a plain COPY of the same rows by the same server at the same time.
"""

from __future__ import annotations

import argparse
import gc
import random
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from statistics import median
from typing import NamedTuple
from zoneinfo import ZoneInfo

import psycopg

from edge import clock
from edge.audit.actors import shell
from edge.clock import DAY, SECOND
from edge.database import change_log
from edge.database.connection import close_database, execute, execute_many, writing
from edge.database.ids import new_ids
from edge.epcis import query, subscriptions
from edge.epcis.names import Names
from edge.epcis.sources import Query
from edge.events import destinations
from edge.events import log as event_log
from edge.feed import cursors, pages
from edge.feed.cursors import Place as PlaceOfReader
from edge.people import api_keys
from edge.people.api_keys import SCOPES
from edge.people.secrets import hash_secret, new_client_secret
from edge.runtime.serve import COLLECT_AFTER
from edge.sync import batch_format, hub
from edge.sync.store import change_feed, sites
from edge.sync.store.exchange import Batch, Cursor, Origin, Patch, Stay, TrackState
from edge.tracking import flows, history_engine, past_board, report
from edge.tracking.past import PastFilter
from edge.tracking.stays import ScanSource, number_of
from tests.application import make_app
from tests.epcis.test_same_events import add_webhook
from tests.sync.world import Hub
from tests.tracking.postgres.server import Server

SITES, ASSETS, PLACES, DAYS = 20, 200_000, 10, 400  # assets in all, places of each site
OF_SITE = ASSETS // SITES
MOVES = 1000  # in a batch; each ends a stay and begins another one
THREADS = 4
EPOCH_OF_SITE = "bench"
REPEATS = 30


class Place(NamedTuple):
    id: int
    source: int


class SiteData(NamedTuple):
    """A site: the numbers of its tracks here, and its places."""

    no: int
    first_track: int
    places: list[Place]


def make_hub(folder: Path, url: str) -> tuple[Hub, list[SiteData]]:
    made = Hub(folder / "hub", "hub")
    made.history = url
    numbers = [made.add_site(f"S{number:02}") for number in range(SITES)]
    with made.in_use():
        data = [make_site(made.organization_id, no, index) for index, no in enumerate(numbers)]
        execute("UPDATE site SET epoch = ?, acked_seq = 0, chain = x''", (EPOCH_OF_SITE,))
        execute("ANALYZE")
    return made, data


def make_site(owner: int, no: int, index: int) -> SiteData:
    """Write the places, assets and tracks of a site directly."""
    ids = new_ids(PLACES + OF_SITE)
    top = execute("SELECT location_id FROM site WHERE no = ?", (no,)).fetchone()[0]
    with writing():
        execute_many(
            "INSERT INTO location (id, organization_id, external_key, key_number, name, parent_id, valid_from, "
            "created_at, updated_at) VALUES (?, ?, ?, ?, ?, ?, 0, 0, 0)",
            [
                (one, owner, f"L{index:02}-{n}", 1000 + index * PLACES + n, f"Dock {index:02}-{n}", top)
                for n, one in enumerate(ids[:PLACES])
            ],
        )
        places = [Place(one, number_of(owner, ScanSource(one, None, 1, no, 7, None))) for one in ids[:PLACES]]
        execute_many(
            "INSERT INTO asset (id, organization_id, external_key, key_number, name, valid_from, created_at, "
            "updated_at) VALUES (?, ?, ?, ?, ?, 0, 0, 0)",
            [
                (one, owner, f"A{index:02}-{n:05}", 1000 + index * OF_SITE + n, f"Pallet {index:02}-{n:05}")
                for n, one in enumerate(ids[PLACES:])
            ],
        )
        first: int = execute("SELECT ifnull(max(no), 0) + 1 FROM track").fetchone()[0]
        execute_many(
            "INSERT INTO track (no, asset_id, site_no, remote_no, organization_id, location_id, last_seen_at, "
            "dwell_started_at, row_at, row_seq, row_rule, history_rows) VALUES (?, ?, ?, ?, ?, ?, 0, 0, 0, 0, 1, 0)",
            [(first + n, one, no, n + 1, owner, places[0].id) for n, one in enumerate(ids[PLACES:])],
        )
    return SiteData(no, first, places)


def moved(track: int, turn: int, step: int) -> tuple[int, int]:
    """Return when an asset moves in a round, after its begin, and to which place of its site. As in `_FILL`."""
    return track * 48271 % ASSETS * (step // ASSETS), (track * 7919 + turn * 104729 + track * turn) % PLACES


# Rows in the order of time; tracks and sources have numbers in the order of the sites.
_FILL = f"""
INSERT INTO stay (track, until, observed_at, seq, seen_for, source, delay, quality, rule, rssi)
SELECT track, %(ended)s::bigint + track * 48271 %% {ASSETS} * (%(step)s::bigint / {ASSETS}),
       %(began)s::bigint + track * 48271 %% {ASSETS} * (%(step)s::bigint / {ASSETS}), 0,
       %(step)s::bigint / 2 + track * 6101 %% 1000, 1 + (track - 1) / {OF_SITE} * {PLACES}
           + (track * 7919 + %(turn)s::bigint * 104729 + track * %(turn)s::bigint) %% {PLACES}, 400000, 0, 1, -55
FROM generate_series(1, {ASSETS}::bigint) track ORDER BY 3
"""


def fill(url: str, data: list[SiteData], rows: int) -> dict[int, tuple[int, Place]]:
    """Write the rows. Every asset moves once in each round. Returns the newest stay of each track."""
    rounds = rows // ASSETS
    step, first, began = DAYS * DAY // rounds, clock.now() - DAYS * DAY, time.monotonic()
    assert [place.source for site in data for place in site.places] == list(range(1, SITES * PLACES + 1))
    with closing(psycopg.connect(url, autocommit=True)) as connection:
        for turn in range(rounds):
            ended = None if turn == rounds - 1 else first + (turn + 1) * step
            values = {"began": first + turn * step, "ended": ended, "step": step, "turn": turn}
            connection.execute(_FILL.encode(), values)
        connection.execute("VACUUM ANALYZE stay")
    last: dict[int, tuple[int, Place]] = {}
    for site in data:
        for track in range(site.first_track, site.first_track + OF_SITE):
            offset, place = moved(track, rounds - 1, step)
            last[track] = first + (rounds - 1) * step + offset, site.places[place]
    execute_many(
        "UPDATE track SET row_at = ?2, last_seen_at = ?2, dwell_started_at = ?2, location_id = ?3, history_rows = ?4 "
        "WHERE no = ?1",
        [(no, at, place.id, rounds) for no, (at, place) in last.items()],
    )
    execute("ANALYZE")
    print(f"{rows:,} stays filled in {time.monotonic() - began:.0f} s", flush=True)
    return last


class Sender:
    """A site that moves its assets, each batch other ones."""

    def __init__(self, site: SiteData, last: dict[int, tuple[int, Place]]) -> None:
        self.site, self._last, self._turn = site, last, 0
        self.cursor = Cursor(EPOCH_OF_SITE, 0, b"")
        self._chance = random.Random(site.no)

    def body(self, moves: int = MOVES) -> bytes:
        """Return the next batch: the former stays as they ended, the new ones, and the positions."""
        places, patches, tracks = self.site.places, [], []
        at = clock.now() - DAY // 2 + self._turn * SECOND
        for n in range(moves):
            number = (self._turn * moves + n) % OF_SITE
            track = self.site.first_track + number
            before_at, before = self._last[track]
            place = self._chance.randrange(PLACES)
            ended = Stay(before_at, 0, at - before_at - SECOND, places.index(before), 400_000, 0, 1, -55)
            begun = Stay(at + n, 0, 0, place, 400_000, 0, 1, -55)
            patches += [Patch(number + 1, one.observed_at, one.observed_at, [one]) for one in (ended, begun)]
            tracks.append(TrackState(number + 1, None, -places[place].id, at + n, at + n, at + n, 0, 1))
            self._last[track] = at + n, places[place]
        self._turn += 1
        until = self.cursor.acked_seq + len(patches)
        origins = [Origin(-place.id, 7, 1, None) for place in places]
        body = batch_format.encode(self.cursor, Batch(until, 0, [], [], {}, {}, tracks, [], origins, patches))
        self.cursor = Cursor(EPOCH_OF_SITE, until, batch_format.next_chain(self.cursor.chain, body))
        return body


class Cost(NamedTuple):
    """Seconds for each stay, and processor time of the hub and of PostgreSQL."""

    seconds: float
    hub: float
    server: float


def ingest(server: Server, owner: int, senders: list[Sender], new: int, moves: int = MOVES) -> Cost:
    """Let the sites send this many new stays, several sites at once. Returns the cost of each."""
    bodies = [[sender.body(moves) for _ in range(max(new // moves // SITES, 1))] for sender in senders]

    def send(number: int) -> None:
        for body in bodies[number]:
            answer = hub.changes(sites.get_site(owner, senders[number].site.no), body)
            assert answer["applied"], answer
        close_database()

    number = len(bodies) * len(bodies[0]) * moves
    began, spent, spent_there = time.perf_counter(), time.process_time(), server.cpu_seconds()
    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(send, range(len(senders))))
    seconds = (time.perf_counter() - began, time.process_time() - spent, server.cpu_seconds() - spent_there)
    return Cost(*(one / number for one in seconds))


def plain_copy(url: str, rows: int) -> float:
    """Copy rows of tracks that do not exist into the same table. Returns the seconds for a row."""
    with closing(psycopg.connect(url)) as connection:
        began = time.perf_counter()
        with connection.cursor().copy(
            "COPY stay (track, observed_at, seq, seen_for, source, delay, quality, rule, rssi) FROM STDIN"
        ) as copied:
            for number in range(rows):
                copied.write_row((10**9 + number, clock.now(), 0, 1, 1, 400_000, 0, 1, -55))
        connection.commit()
        seconds = time.perf_counter() - began
        connection.execute("DELETE FROM stay WHERE track >= 1000000000")
        connection.commit()
    return seconds / rows


def timed(name: str, goal: float, ask: Callable[[int], object]) -> None:
    """Print the median and the 95th percentile of a question in milliseconds."""
    times = []
    for number in range(REPEATS):
        began = time.perf_counter()
        ask(number)
        times.append((time.perf_counter() - began) * 1000)
        if sum(times) > 60_000:
            break
    usual, most = median(times), sorted(times)[int(len(times) * 0.95)]
    print(f"{name}: {usual:.1f} ms, 95 % within {most:.1f} ms (goal {goal:.0f} ms)", flush=True)


def measure_reads(owner: int, data: list[SiteData]) -> None:
    chance = random.Random(3)
    assets = [asset for (asset,) in execute("SELECT asset_id FROM track ORDER BY random() LIMIT 100")]
    secret = new_client_secret()
    key = api_keys.add_key(shell(owner), "bench", list(SCOPES), hash_secret(secret))
    client = make_app().test_client()
    grant = {"grant_type": "client_credentials", "client_id": key.id, "client_secret": secret}
    agent = {"User-Agent": "bench/1"}
    token = client.post("/api/v1/oauth/token", json=grant, headers=agent).json["access_token"]  # type: ignore[index]
    headers = {"Authorization": f"Bearer {token}", **agent}

    def request(n: int) -> None:
        answer = client.get(f"/api/v1/assets/{assets[n]}/history?limit=50", headers=headers)
        assert answer.status_code == 200, answer.text

    timed("first page of an asset's history, function", 5, lambda n: report.list_history(owner, assets[n], limit=50))
    timed("first page of an asset's history, API", 5, request)
    timed("moves of an asset's page", 5, lambda n: report.moves(owner, assets[n], limit=50))
    moments = [clock.now() - chance.randrange(DAYS) * DAY for _ in range(REPEATS)]
    for sort in ("key", "name", "location", "-seen"):
        filters = [PastFilter(at, sort=sort) for at in moments]
        timed(
            f"past board of {ASSETS:,} assets by {sort}",
            500,
            lambda n, filters=filters: past_board.board_at(owner, filters[n], limit=50),
        )
    places = [site.places[0].id for site in data]
    in_place = [PastFilter(at, location_id=places[n % SITES]) for n, at in enumerate(moments)]
    timed("past board of a location", 500, lambda n: past_board.board_at(owner, in_place[n], limit=50))
    midnights = [at // DAY * DAY for at in moments]
    hours = [[at + hour * clock.HOUR for hour in range(25)] for at in midnights]
    timed("a location's day", 50, lambda n: flows.flow(owner, places[n % SITES], hours[n]))
    timed("arrivals at a location today", 50, lambda n: flows.passages(owner, places[n % SITES], clock.now() - DAY))


def measure_feed(owner: int) -> None:
    """Measure pages of the open feed and of EPCIS. The feed has readers since the last batches."""
    key = api_keys.add_key(shell(owner), "feed", list(SCOPES), hash_secret(new_client_secret()))
    begun = pages.first_page(owner, key.id, None).cursor
    following = [begun._replace(place=PlaceOfReader(pages.TABLES.index("stay"), (0, 0, 0)))]

    def copy(_: int) -> None:
        page = pages.next_page(owner, following.pop())
        assert len(page.lines) == pages.MOST_ROWS
        following.append(page.cursor)

    timed(f"page of {pages.MOST_ROWS:,} stays of a first copy", 100, copy)
    reader, cursor = cursors.begin(owner, key.id, None)
    numbers = [change_log.newest() - pages.MOST_CHANGES * (n + 1) for n in range(REPEATS)]
    timed(
        f"page of {pages.MOST_CHANGES:,} changes of stays",
        100,
        lambda n: pages._changed(reader, cursor._replace(number=numbers[n])),
    )
    now, zone = clock.now(), ZoneInfo("UTC")
    periods = [(now - (n + 1) * DAY, clock.HOUR // 4) for n in range(REPEATS)]
    questions = {
        "EPCIS, first page of all": [Query() for _ in range(REPEATS)],
        "EPCIS, first page of a quarter of an hour": [Query(since=at, until=at + length) for at, length in periods],
        "EPCIS, first page of a month": [Query(since=at - 30 * DAY, until=at) for at, _ in periods],
    }
    for name, asked in questions.items():
        timed(
            name,
            50 if "quarter" in name else 200,
            lambda n, asked=asked: query.page(owner, asked[n], Names(owner, "http://hub"), zone, None, 30),
        )


def measure_webhook(server: Server, made: Hub, senders: list[Sender], new: int) -> None:
    """Measure what a webhook with EPCIS costs: each new stay, the log, and messages."""
    row = add_webhook(made.actor)
    subscriptions.log_changes(is_needed=True)
    sent = ingest(server, made.organization_id, senders, new)
    began, number = time.process_time(), 0
    while more := subscriptions.log_changes(is_needed=True):
        number += more
    logged, began = time.process_time() - began, time.process_time()
    events = event_log.after(made.organization_id, row.position, 300)
    for event in events:
        assert subscriptions.body(row, event, "http://hub", ZoneInfo("UTC"))
    print(
        f"with a webhook that sends EPCIS: {sent.hub * 1e6:.0f} us of the hub, {sent.server * 1e6:.0f} us of "
        f"PostgreSQL; {logged / number * 1e6:.0f} us to log a stay, "
        f"{(time.process_time() - began) / len(events) * 1e3:.1f} ms for a message",
        flush=True,
    )
    destinations.remove(made.actor, row.no)
    subscriptions.log_changes(is_needed=False)


def measure_size(url: str) -> None:
    with closing(psycopg.connect(url)) as connection:
        size, heap = connection.execute(
            "SELECT sum(pg_total_relation_size(relid)), sum(pg_relation_size(relid)) FROM pg_partition_tree('stay')"
        ).fetchone() or (0, 0)
        rows = (connection.execute("SELECT count(*) FROM stay").fetchone() or (1,))[0]
    print(f"{size / rows:.0f} bytes of disk for a stay, {heap / rows:.0f} of them in the table ({rows:,} stays)")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--new", type=int, default=200_000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="edge-bench-") as folder:
        (Path(folder) / "server").mkdir()
        Path(folder).chmod(0o755)
        server = Server(Path(folder) / "server", fsync="on", shared_buffers="1GB", max_wal_size="8GB")
        try:
            measure(Path(folder), server, options.rows, options.new)
        finally:
            server.stop("immediate")


def measure(folder: Path, server: Server, rows: int, new: int) -> None:
    url = server.new_url()
    made, data = make_hub(folder, url)
    with made.in_use():
        history_engine.check_reachable()  # creates the tables
        last = fill(url, data, rows)
        measure_size(url)
        senders = [Sender(site, last) for site in data]
        gc.freeze()  # as in the service
        gc.set_threshold(COLLECT_AFTER)
        for _ in range(3):
            cost, copied = ingest(server, made.organization_id, senders, new), plain_copy(url, new)
            print(
                f"{1 / cost.seconds:,.0f} new stays a second in batches of {MOVES} ({copied / cost.seconds:.0%} of a "
                f"plain COPY); processor time for each: {cost.hub * 1e6:.0f} us of the hub, {cost.server * 1e6:.0f} us "
                "of PostgreSQL",
                flush=True,
            )
        measure_webhook(server, made, senders, new)
        change_feed.open_for_readers()
        read = ingest(server, made.organization_id, senders, new)
        print(
            f"with readers of the open feed: {read.hub * 1e6:.0f} us of the hub, {read.server * 1e6:.0f} us of "
            "PostgreSQL",
            flush=True,
        )
        measure_feed(made.organization_id)
        few = ingest(server, made.organization_id, senders, SITES * 20, moves=2)
        print(
            f"a batch of 2 moves: {few.seconds * 2000:.1f} ms; processor time: {few.hub * 2000:.1f} ms of the hub, "
            f"{few.server * 2000:.1f} ms of PostgreSQL",
            flush=True,
        )
        measure_size(url)
        measure_reads(made.organization_id, data)


if __name__ == "__main__":
    main()
