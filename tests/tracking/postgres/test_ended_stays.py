"""With the indexes of ended stays in PostgreSQL, pages are the same as from all stays, whatever the sites do."""

from __future__ import annotations

import heapq
import random
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import pairwise
from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from edge import clock
from edge.database.connection import execute
from edge.errors import Conflict
from edge.records import assets
from edge.tracking import flows, history_engine, past_board
from edge.tracking.past import PastFilter
from edge.tracking.past_levels import PAST_LEVELS
from edge.tracking.postgres import batches, lent_rows, pool, schema
from tests.service import wait_for
from tests.sync.world import SECOND, Hub, SiteBox
from tests.tracking.postgres.server import Server
from tests.tracking.test_past_index import HOUR, NOW, SORTED, SPAN, change

pytestmark = [pytest.mark.slow, pytest.mark.postgres]


@pytest.fixture
def hub(tmp_path: Path, postgres_server: Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    monkeypatch.setattr(clock, "now", lambda: NOW)
    monkeypatch.setattr(past_board, "_FIRST_BLOCK", 4)
    monkeypatch.setattr(lent_rows, "_FIRST_PAGE", 2)
    monkeypatch.setattr(Hub, "server", postgres_server)
    yield Hub(tmp_path / "hub", "hub")
    history_engine.use("")


@pytest.mark.long
@pytest.mark.parametrize("seed", range(3))
def test_pages_are_those_of_all_stays(seed: int, hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(seed)
    with hub.in_use():
        shared = [assets.create(hub.actor, name="Pallet").external_key for _ in range(8)]
    boxes = [SiteBox(tmp_path / code, code, hub) for code in ("BER", "MUC")]
    for box in boxes:
        box.join()
        box.settle()
        with box.in_use():
            for _ in range(8):
                assets.create(box.actor, name=chance.choice(["Pallet", "pallet", f"Crate {chance.randrange(99)}"]))
    for _ in range(4):
        for box in boxes:
            with box.in_use():
                for _ in range(20):
                    with suppress(Conflict):  # an asset of the hub
                        change(box, chance)
                for key in chance.sample(shared, 4):  # these travel; no two reads at one time, whose order is open
                    asset = execute("SELECT id FROM asset WHERE external_key = ?", (key,)).fetchone()[0]
                    at = NOW - chance.randrange(SPAN // (60 * SECOND)) * 60 * SECOND - 1 - boxes.index(box)
                    box.scan_now(asset, chance.randrange(3), at)
            box.settle()
        assert hub.rows("SELECT count(*) FROM history")[0][0] > 20  # checks the ends of all stays
        with hub.in_use():
            assert_boards(hub, chance, monkeypatch)
    with hub.in_use():
        moments = sorted(NOW - chance.randrange(SPAN) for _ in range(6))
        there = all_flows(hub, moments)
        assert any(there.values())
        history_engine.moving.bring_back()
        history_engine.use("")
        here = all_flows(hub, moments)
        for question, answer in here.items():
            assert there[question] == answer, question


def assert_boards(hub: Hub, chance: random.Random, monkeypatch: pytest.MonkeyPatch) -> None:
    places = [row[0] for row in execute("SELECT id FROM location")]
    for at in (NOW, NOW - chance.randrange(SPAN), NOW - chance.randrange(SPAN // (60 * SECOND)) * 60 * SECOND):
        for sort in SORTED:
            for place in (None, *chance.sample(places, 2)):
                filters = PastFilter(at, location_id=place, sort=sort)
                monkeypatch.setattr(past_board, "COUNTED", 10**6)
                rows = past_board.board_at(hub.organization_id, filters, limit=1000).rows
                monkeypatch.setattr(past_board, "COUNTED", -1)
                monkeypatch.setattr(past_board, "MOST_COMPUTED", chance.choice([6, 5000]))
                start = chance.randrange(len(rows) + 2)
                for offset, limit in ((0, 7), (start, 5)):
                    page = past_board.board_at(hub.organization_id, filters, limit=limit, offset=offset)
                    assert page.rows == rows[offset : offset + limit], (filters, offset)


def all_flows(hub: Hub, moments: list[int]) -> dict[tuple[str, int, int], Any]:
    owner, answers = hub.organization_id, {}
    for (place,) in execute("SELECT id FROM location").fetchall():
        for at in moments:
            edges = [at + step * HOUR for step in range(9)]
            answers["flow", place, at] = flows.flow(owner, place, edges)
            answers["passages", place, at] = flows.passages(owner, place, at, limit=20)
            answers["moves", 0, at] = flows.moves_since(owner, at, 24)
    return answers


STEP = 60 * SECOND
Row = tuple[int, int, int, int, int]  # track, observed_at, seq, seen_for, source


def ended(rows: list[Row]) -> list[tuple[Row, int]]:
    """Return the rows that have ended, with the begin of the next one."""
    return [(row, after[1]) for row, after in pairwise(sorted(rows)) if row[0] == after[0]]


@pytest.fixture
def history(postgres_server: Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(lent_rows, "_FIRST_PAGE", 1)
    history_engine.use(postgres_server.new_url())
    yield
    history_engine.close()
    history_engine.use("")


rows_of_batch = st.lists(
    st.tuples(
        st.integers(1, 5),
        st.one_of(st.integers(0, 40), st.integers(0, 40_000)).map(lambda n: NOW + n * STEP),
        st.integers(0, 1),
        st.one_of(st.integers(0, 9), st.integers(0, 9000)).map(lambda n: n * STEP),
        st.integers(1, 3),
    ),
    max_size=8,
    unique_by=lambda row: row[:3],
)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(rows_of_batch, min_size=1, max_size=4), st.data())
def test_the_indexes_find_what_a_search_through_all_rows_finds(
    history: None, written: list[list[Row]], data: st.DataObject
) -> None:
    with pool.connected() as connection:
        connection.execute("TRUNCATE stay")
    stored: dict[tuple[int, int, int], Row] = {}
    for batch in written:
        gone = data.draw(st.lists(st.sampled_from(sorted(stored)), max_size=4, unique=True)) if stored else []
        with batches.transaction():
            batches.replace_rows(gone, {row[:3]: (*row[3:], 0, 0, 0, None) for row in batch})
            batches.commit_rows()
        for key in gone:
            del stored[key]
        stored |= {row[:3]: row for row in batch}
    rows = ended(list(stored.values()))
    times = sorted({at for _, at, _, _, _ in stored.values()} | {row[1] + row[3] for row, _ in rows})
    since = data.draw(st.sampled_from(times or [NOW])) + data.draw(st.sampled_from([-1, 0, 1]))
    until = since + data.draw(st.sampled_from([1, STEP, 100 * STEP]))
    sources = data.draw(st.sets(st.integers(1, 3)))
    assert sorted(lent_rows.tracks_at(sources, since, until)) == sorted(
        {row[0] for row, end in rows if row[4] in sources and row[1] < until and end > since}
    )
    lasting = [row for row, end in rows if row[1] <= since < end]
    assert sorted(lent_rows.tracks_seen_around(since, 99)) == sorted(
        row[0] for row in lasting if row[1] + row[3] >= since
    )
    for descending in (False, True):
        levels = [lent_rows.last_seen_before(since, level, descending=descending) for level in range(PAST_LEVELS)]
        found = list(heapq.merge(*levels, key=itemgetter(0), reverse=descending))
        seen = [(row[1] + row[3], row[0]) for row in lasting if row[1] + row[3] < since]
        assert [at for at, _ in found] == sorted((at for at, _ in seen), reverse=descending)
        assert sorted(found) == sorted(seen)


@pytest.mark.parametrize("descending", [False, True])
def test_stays_seen_last_at_the_same_time_are_all_found(history: None, descending: bool) -> None:
    ended_stays = {(track, NOW, 0): (STEP, 1, 0, 0, 0, None) for track in range(7)}
    newest = {(track, NOW + HOUR, 0): (0, 1, 0, 0, 0, None) for track in range(7)}
    with batches.transaction():
        batches.replace_rows([], {**ended_stays, **newest})
        batches.commit_rows()
    levels = [lent_rows.last_seen_before(NOW + 2 * STEP, n, descending=descending) for n in range(PAST_LEVELS)]
    assert sorted(row for level in levels for row in level) == [(NOW + STEP, track) for track in range(7)]


def test_retention_keeps_the_ends_of_stays_that_overlap(history: None) -> None:
    """A site has no such stays, but may send them. The one that lasts would have ended where a deleted one began."""
    rows = [(0, 1), (5, 100), (10, 1), (200, 1)]  # begin and length
    with batches.transaction():
        batches.replace_rows([], {(1, NOW + at * STEP, 0): (last * STEP, 1, 0, 0, 0, None) for at, last in rows})
        batches.commit_rows()
    assert batches.drop_before([1], NOW + 50 * STEP, 9) == 1
    with pool.connected() as connection:
        ends = connection.execute("SELECT observed_at, until FROM stay ORDER BY observed_at").fetchall()
    assert ends == [(NOW + at * STEP, end and NOW + end * STEP) for at, end in ((5, 10), (10, 200), (200, None))]
    assert batches.drop_before([1], NOW + 150 * STEP, 1) == 1
    assert batches.drop_before([1], NOW + 999 * STEP, 9) == 1


def test_retention_waits_for_a_batch_that_deletes_the_newest_stay(history: None) -> None:
    rows = {(1, NOW + step * HOUR, 0): (STEP, 1, 0, 0, 0, None) for step in range(2)}
    with batches.transaction():
        batches.replace_rows([], rows)
        batches.commit_rows()
    with ThreadPoolExecutor() as others:
        with batches.transaction():
            batches.replace_rows([(1, NOW + HOUR, 0)], {})
            dropped = others.submit(batches.drop_before, [1], NOW + HOUR, 10)
            wait_for(lambda: dropped.done() or waiting_statements(), 30)
            batches.commit_rows()
        assert dropped.result() == 0
    assert batches.row_counts([1]) == {1: 1}


def waiting_statements() -> bool:
    return bool(pool.fetch("SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query ~ 'kept'", {}))


def test_a_short_period_reads_only_its_own_rows(history: None) -> None:
    """Also after the rows have moved to other pages, because their stays have ended."""
    with pool.connected() as connection:
        connection.execute(
            "INSERT INTO stay (track, observed_at, seq, seen_for, source, delay, quality, rule) SELECT track, "
            "%s + turn * 86400000000 + track * 1000000, 0, 0, 1, 0, 0, 1 "
            "FROM generate_series(1, 100) turn, generate_series(1, 200) track ORDER BY 2",
            (NOW,),
        )
        connection.execute("UPDATE stay SET until = observed_at + 86400000000")
        connection.execute("ANALYZE stay")
        since = NOW + 50 * clock.DAY
        values = {"since": since + 50 * SECOND, "until": since + 150 * SECOND, "limit": 10_001}
        explain = f"EXPLAIN (ANALYZE, FORMAT JSON) {lent_rows._SHORT_PERIOD}"
        [([plan],)] = connection.execute(explain.encode(), values).fetchall()
    assert len(lent_rows.of_short_period(values["since"], values["until"], 10_000) or ()) == 100
    assert 100 <= rows_read(plan["Plan"]) <= 110
    names = set(re.findall(r"'Index Name': '(\w+)'", str(plan)))
    assert names == {f"stay_{number}_to_timestamp_idx" for number in range(schema.PARTITIONS)}


def rows_read(node: dict[str, Any]) -> int:
    """Return the number of rows that a plan has read from tables."""
    if (below := node.get("Plans")) and node["Node Type"] != "Bitmap Heap Scan":
        return sum(map(rows_read, below))
    removed = (node.get(name, 0) for name in ("Rows Removed by Filter", "Rows Removed by Index Recheck"))
    return int(node["Actual Rows"]) + sum(removed)
