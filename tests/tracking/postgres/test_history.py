"""A hub with its history in PostgreSQL answers as one with the history in its file, and without PostgreSQL in words."""

from __future__ import annotations

import tracemalloc
from types import SimpleNamespace
from typing import Any, cast

import pytest

from edge.config.settings import Config
from edge.database.connection import execute
from edge.errors import Conflict, HistoryUnavailable, SetupError
from edge.memory_budget import WORK
from edge.operations.doctor.findings import Finding, Subject
from edge.operations.doctor.sync import history_database
from edge.tracking import deletion, exports, flows, history_engine, past, past_board, report, stays
from edge.tracking.past import PastFilter
from edge.tracking.positions import record
from edge.tracking.postgres import lent_rows, pool
from edge.tracking.stays import Quality, Scan
from tests.sync.world import EPOCH, GAP, HOUR, Hub, SiteBox, assert_equal
from tests.tracking.postgres.conftest import move
from tests.tracking.postgres.server import Server

pytestmark = [pytest.mark.slow, pytest.mark.postgres]


def everything(hub: Hub) -> dict[str, Any]:
    """Return what the pages and the API show of the history."""
    owner, found = hub.organization_id, {}
    assets = [row[0] for row in execute("SELECT id FROM asset ORDER BY id")]
    places = [row[0] for row in execute("SELECT id FROM location ORDER BY id")]
    for asset in assets:
        found[f"moves {asset}"] = report.moves(owner, asset, limit=5), report.moves(owner, asset, before=EPOCH + HOUR)
        found[f"decided {asset}"] = report.decided_stays(owner, asset, 4)
        found[f"events {asset}"] = stays.stays_after(asset, EPOCH + HOUR, 5)
        found[f"stays {asset}"] = past.stays(owner, asset, since=EPOCH + 5 * HOUR, until=EPOCH + 20 * HOUR)
        for sort in (report.NEWEST_FIRST, (report.NEWEST_FIRST[0]._replace(descending=False),)):
            for since, offset in ((None, 0), (None, 3), (EPOCH + 3 * HOUR, 0), (EPOCH + 3 * HOUR, 2), (None, 99)):
                found[f"history {asset} {sort} {since} {offset}"] = report.list_history(
                    owner, asset, since=since, limit=4, offset=offset, sort=sort
                )
    for at in (EPOCH - 1, EPOCH + 7 * HOUR, EPOCH + 99 * HOUR):
        for order in past.SORTS:
            found[f"past {at} {order}"] = past_board.board_at(owner, PastFilter(at, sort=order), limit=5, offset=1)
        found[f"past file {at}"] = list(exports.past_rows(owner, PastFilter(at)))
    edges = [EPOCH + step * 3 * HOUR for step in range(8)]
    for place in places:
        found[f"flow {place}"] = flows.flow(owner, place, edges)
        found[f"passages {place}"] = flows.passages(owner, place, EPOCH + 8 * HOUR)
        found[f"file {place}"] = list(flows.export_rows(owner, since=edges[1], until=edges[5], location_id=place))
    found["file"] = list(flows.export_rows(owner, since=edges[1], until=edges[5]))
    found["moves"] = flows.moves_since(owner, EPOCH + 4 * HOUR, 30)
    found["since"] = list(flows.stays_since(owner, EPOCH + 4 * HOUR))
    found["sightings"] = report.sightings(assets)
    return found


def finding(url: str) -> Finding:
    """Return the finding of the doctor, which runs as a process of its own and chooses the engine itself."""
    return history_database(cast(Subject, SimpleNamespace(config=SimpleNamespace(hub_history=url))))


def test_a_move_at_the_first_moment_of_a_period_counts_in_both_engines(
    sites: list[SiteBox], postgres_server: Server
) -> None:
    site, start = sites[0], EPOCH + 99 * HOUR
    left, passed = site.add_asset("P-left"), site.add_asset("P-passed")
    for asset, dock, at in ((left, 0, start - 1), (left, 1, start), (passed, 2, start - 1)):
        site.scan(asset, dock, at)
    for dock in (0, 1):
        site.scan(passed, dock, start)  # stays at dock 0 for no time
    site.sync()
    hub = site.hub

    def shown() -> dict[int, Any]:
        owner, edges = hub.organization_id, [start, start + HOUR]
        places = [row[0] for row in execute("SELECT id FROM location ORDER BY id")]
        return {place: (flows.flow(owner, place, edges), flows.passages(owner, place, start)) for place in places}

    with hub.in_use():
        here = shown()
        assert sum(len(passages) for _, passages in here.values()) == 6
        history_engine.use(postgres_server.new_url())
        assert list(history_engine.moving.copy_there())
        history_engine.moving.finish_there()
        there = shown()
        assert there == here


def test_all_lists_are_equal_in_both_engines_and_after_the_move_back(
    sites: list[SiteBox], postgres_server: Server
) -> None:
    hub = sites[0].hub
    with hub.in_use():
        here = everything(hub)
        assert len(here["file"]) > 20
        url = postgres_server.new_url()
        move(hub, url)
        assert execute("SELECT count(*) FROM main.history").fetchone() == (0,)
        assert finding(url).text == "PostgreSQL answers; the stays have 16 partitions"
        there = everything(hub)
        for name, rows in here.items():
            assert there[name] == rows, name
        assert history_engine.moving.bring_back() == 2 * 4 * 9
        history_engine.use("")
        assert everything(hub) == here


def test_an_interrupted_move_continues_and_copies_what_changed_meanwhile(
    sites: list[SiteBox], postgres_server: Server
) -> None:
    hub, url = sites[0].hub, postgres_server.new_url()
    with hub.in_use():
        history_engine.use(url)
        assert list(history_engine.moving.copy_there())
    sites[0].scan(sites[0].add_asset("P-9"), 0, EPOCH)
    sites[0].scan(sites[0].rows("SELECT min(id) FROM asset")[0][0], 2, EPOCH + HOUR // 2)
    sites[0].sync()
    with hub.in_use():
        history_engine.use(url)
        with pytest.raises(Conflict, match="not equal"):
            history_engine.moving.finish_there()
        assert list(history_engine.moving.copy_there())
        assert history_engine.moving.finish_there() > 2 * 4 * 9
    hub.history = url
    assert_equal(sites[0])
    sites[0].scan(sites[0].add_asset("P-10"), 0, EPOCH)
    sites[0].sync()
    assert_equal(sites[0])


def test_such_a_hub_takes_no_reads_of_its_own(sites: list[SiteBox], postgres_server: Server) -> None:
    hub = sites[0].hub
    with hub.in_use():
        move(hub, postgres_server.new_url())
        asset, place = (execute(f"SELECT max(id) FROM {table}").fetchone()[0] for table in ("asset", "location"))
        scan = Scan(hub.organization_id, asset, place, None, None, EPOCH, EPOCH, Quality.HANDHELD)
        with pytest.raises(Conflict, match="takes no reads or scans"):
            record([scan], GAP)


def test_retention_deletes_old_stays_but_never_the_newest(sites: list[SiteBox], postgres_server: Server) -> None:
    hub = sites[0].hub
    with hub.in_use():
        move(hub, postgres_server.new_url())
        dropped = 0
        while more := deletion.drop_history(EPOCH + 99 * HOUR):
            dropped += more
        assert dropped == 2 * 4 * 8
        assert execute("SELECT DISTINCT history_rows FROM track").fetchall() == [(1,)]


def test_an_engine_without_the_stays_is_refused_at_start(sites: list[SiteBox], postgres_server: Server) -> None:
    hub, url = sites[0].hub, postgres_server.new_url()
    with hub.in_use():
        with pytest.raises(SetupError, match="edge hub move-history"):
            history_engine.use_engine(url)
        move(hub, url)
        with pytest.raises(SetupError, match=r"Set hub\.history"):
            history_engine.use_engine("")
        history_engine.use_engine(url)
    with sites[0].in_use(), pytest.raises(SetupError, match=r"own database has stays"):
        history_engine.use_engine(url)


@pytest.mark.parametrize(
    ("url", "sslmode"),
    [
        ("postgresql://edge@127.0.0.1/edge", None),
        ("postgresql://edge@[::1]:5433/edge", None),
        ("postgresql:///edge?host=/run/postgresql", None),
        ("postgresql://edge@db.example/edge", "verify-full"),
        ("postgresql://edge@127.0.0.1,db.example/edge", "verify-full"),
    ],
)
def test_connections_beyond_this_machine_verify_the_certificate(url: str, sslmode: str | None) -> None:
    assert pool.parameters(url).get("sslmode") == sslmode
    assert pool.parameters(url)["target_session_attrs"] == "read-write"


@pytest.mark.parametrize("url", ["postgresql://edge@db.example/edge?sslmode=require", "not a url", "mysql://a/b c"])
def test_a_url_without_verified_tls_is_refused(url: str) -> None:
    with pytest.raises(SetupError):
        pool.parameters(url)


def test_the_url_is_a_secret() -> None:
    assert Config.__dataclass_fields__["hub_history"].metadata["is_secret"]
    assert history_engine.shown_url("postgresql://edge:pass@db/edge?a=b") == "postgresql://db/edge"


def test_lending_many_stays_takes_little_memory_and_is_bounded(
    sites: list[SiteBox], postgres_server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever opened a page about a month with millions of stays would have stopped the hub for lack of memory."""
    hub, number = sites[0].hub, 100_000
    with hub.in_use():
        move(hub, postgres_server.new_url())
        [(track, source)] = execute("SELECT t.no, s.no FROM track t, source s LIMIT 1").fetchall()
        with pool.connected() as connection:
            connection.execute(
                "INSERT INTO stay SELECT %s, %s + n, 0, 0, %s, 0, NULL, 0, NULL, 0 FROM generate_series(1, %s) n",
                (track, EPOCH + 1000 * HOUR, source, number),
            )
        tracemalloc.start()
        with lent_rows.lent(lent_rows.of_period([track], EPOCH + 1000 * HOUR)):
            assert tracemalloc.get_traced_memory()[1] < 10_000_000
            assert WORK.used == (number // pool.PART) * pool.PART * lent_rows.BYTES_OF_ROW
            assert execute("SELECT count(*) FROM history").fetchone()[0] >= number
        tracemalloc.stop()
        assert execute("PRAGMA temp.page_count").fetchone()[0] < 20, "the memory is returned"
        assert WORK.used == 0
        monkeypatch.setattr(lent_rows, "MOST_LENT", number)
        with pytest.raises(HistoryUnavailable, match="shorter period"):
            flows.moves_since(hub.organization_id, EPOCH, 24)
        assert (WORK.used, execute("SELECT count(*) FROM temp.history").fetchone()) == (0, (0,))
