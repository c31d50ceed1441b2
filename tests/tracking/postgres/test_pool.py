"""Connections while a server hangs, is switched off, or has no standby: nobody waits for it longer than necessary."""

from __future__ import annotations

import socket
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psycopg
import pytest

from edge.clock import SECOND
from edge.errors import HistoryUnavailable
from edge.tracking.postgres import batches, bounded, labels, pool
from tests.service import wait_for
from tests.sync.world import EPOCH
from tests.tracking.postgres.server import Server

pytestmark = [pytest.mark.slow, pytest.mark.postgres]

WITHOUT_STANDBY = "ALTER SYSTEM SET synchronous_standby_names = 'standby'"


@pytest.fixture
def server() -> Iterator[Server]:
    """A server of its own, because it is frozen."""
    with tempfile.TemporaryDirectory(prefix="edge-postgres-") as folder:
        made = Server(Path(folder))
        yield made
        pool.close()
        pool.use("")
        made.stop("immediate")


@pytest.fixture
def silent() -> Iterator[int]:
    """The port of a host that takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


def several_at_once(number: int) -> None:
    """Use this number of connections at the same time."""
    meeting = threading.Barrier(number)

    def use(_: int) -> None:
        with pool.connected() as connection:
            connection.execute("SELECT 1")
            meeting.wait(60)

    with ThreadPoolExecutor(number) as threads:
        list(threads.map(use, range(number)))


@pytest.mark.parametrize(
    ("url", "reached", "host", "port"),
    [
        ("postgresql://a,b/edge", ("b", 5432), "b,a", ","),
        ("postgresql://a:1,b:2,c:3/edge", ("b", 2), "b,c,a", "2,3,1"),
        ("postgresql://a,b:6000,c/edge", ("c", 5432), "c,a,b", ",,6000"),
        ("postgresql://a,b:6000/edge", ("a", 5432), "a,b", ",6000"),
        ("postgresql://a,b/edge", ("z", 5432), "a,b", ","),
        ("postgresql:///edge?host=a,b&port=7", ("b", 7), "b,a", "7,7"),
        ("postgresql:///edge?host=/run/postgresql", ("/run/postgresql", 5432), "/run/postgresql", None),
    ],
)
def test_the_host_that_answered_last_is_the_first_one(
    url: str, reached: tuple[str, int], host: str, port: str | None
) -> None:
    given: dict[str, Any] = {**psycopg.conninfo.conninfo_to_dict(url), "sslmode": "verify-full"}
    changed = pool.host_first(given, *reached)
    assert (changed["host"], changed.get("port"), changed["sslmode"]) == (host, port, "verify-full")


def test_a_host_that_does_not_answer_delays_one_connection_only(server: Server, silent: int) -> None:
    name = server.new_url().rpartition("/")[2]
    pool.use(f"postgresql://edge@127.0.0.1:{silent},127.0.0.1:{server.port}/{name}")
    with pool.connected() as connection:
        assert connection.info.port == server.port
    began = time.monotonic()
    several_at_once(6)
    assert time.monotonic() - began < 2


def test_connections_to_a_server_that_hangs_are_given_up_at_once(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounded, "CHECK_SECONDS", 0.5)
    monkeypatch.setattr(pool, "AWAY_SECONDS", 0.1)
    pool.use(server.new_url())
    several_at_once(6)
    with server.frozen():
        began = time.monotonic()
        with pytest.raises(HistoryUnavailable), pool.connected():
            pass
        assert time.monotonic() - began < pool.WAIT_SECONDS + 1
        assert pool._pool().get_stats()["pool_available"] == 0, "the others would be tried one after the other"
    wait_for(_is_reachable, 20)


def _is_reachable() -> bool:
    try:
        with pool.connected() as connection:
            return connection.execute("SELECT 1").fetchone() == (1,)
    except HistoryUnavailable:
        return False


def test_a_statement_ends_if_the_server_hangs(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded.Connection, "answer_seconds", 1.0)
    pool.use(server.new_url())
    with pytest.raises(HistoryUnavailable, match="cannot be reached"), pool.connected() as connection, server.frozen():
        connection.execute("SELECT 1")


def write(number: int) -> None:
    with batches.transaction():
        batches.replace_rows([], {(number, EPOCH, 0): (SECOND, 1, 0, 0, 1, None)})
        batches.commit_rows()


def refused_after(number: int) -> float:
    """Write a stay. Returns the seconds until it was refused for lack of a standby."""
    began = time.monotonic()
    with pytest.raises(HistoryUnavailable, match="standby has not confirmed"):
        write(number)
    return time.monotonic() - began


def test_without_a_standby_few_commits_wait_and_others_are_refused_at_once(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They would occupy all threads for requests, so pages and the current positions would not be shown either."""
    monkeypatch.setattr(pool, "COMMIT_SECONDS", 3.0)
    monkeypatch.setattr(pool, "SOON_SECONDS", 0.5)
    pool.use(server.new_url())
    with pool.connected():
        pass  # creates the tables
    server.run(WITHOUT_STANDBY)
    server.run("SELECT pg_reload_conf()")
    with ThreadPoolExecutor(8) as threads:
        first = [threads.submit(refused_after, number) for number in range(8)]
        wait_for(lambda: sum(one.done() for one in first) == 8 - pool.MOST_COMMITS, 5)
        assert refused_after(9) < 0.3
        assert labels.make_equal(labels.TRACKS, [(1, "Acme", "BER", "P-1", "Pallet")], 1, 1) == 1
        assert not all(one.done() for one in first)
    waited = sorted(one.result() for one in first)
    assert waited[-pool.MOST_COMMITS] >= 3 > waited[-pool.MOST_COMMITS - 1]
