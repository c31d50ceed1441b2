"""Tables or rights that are dropped while the hub runs: one line in the log has the remedy, another one the end."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import closing, suppress

import psycopg
import pytest

from edge.errors import HistoryUnavailable
from edge.runtime import readiness
from edge.tracking import history_engine
from edge.tracking.postgres import batches, pool
from tests.sync.world import EPOCH, Hub, SiteBox
from tests.tracking.postgres.conftest import move
from tests.tracking.postgres.server import Server
from tests.tracking.postgres.test_history import finding

pytestmark = [pytest.mark.slow, pytest.mark.postgres]


@pytest.fixture
def hub(
    sites: list[SiteBox],
    postgres_server: Server,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> Iterator[Hub]:
    """A hub in use, which connects as a role without further rights and tries again at once."""
    caplog.set_level(logging.INFO, pool.__name__)
    monkeypatch.setattr(pool, "AWAY_SECONDS", 0.0)
    monkeypatch.setattr(pool, "WAIT_SECONDS", 1.0)
    used, url = sites[0].hub, postgres_server.new_url()
    with used.in_use():
        move(used, url)
    with suppress(psycopg.errors.DuplicateObject):
        postgres_server.run("CREATE ROLE limited LOGIN")
    alter(url, "GRANT ALL ON ALL TABLES IN SCHEMA public TO limited")
    used.history = url.replace("edge@", "limited@")
    with used.in_use():
        history_engine.check_reachable()
        yield used


def alter(url: str, sql: str) -> None:
    with closing(psycopg.connect(url.replace("limited@", "edge@"), autocommit=True)) as connection:
        connection.execute(sql.encode())


def write() -> None:
    with batches.transaction():
        batches.replace_rows([], {(1, EPOCH - 1, 0): (1, 1, 0, 0, 1, None)})
        batches.commit_rows()


def attempt(times: int, *actions: Callable[[], object]) -> int:
    """Run actions again and again. Returns how many failed."""
    failed = 0
    for _ in range(times):
        for act in actions:
            try:
                act()
            except HistoryUnavailable:
                failed += 1
    return failed


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == pool.__name__]


@pytest.mark.parametrize(
    ("broken", "mended", "reason"),
    [
        (
            "ALTER TABLE stay RENAME TO gone",
            "ALTER TABLE gone RENAME TO stay",
            "Tables are missing in PostgreSQL, or their schema is not visible: stay. Restore the database, or give",
        ),
        (
            "REVOKE INSERT ON stay FROM limited",
            "GRANT INSERT ON stay TO limited",
            "The role of hub.history may not read and write these tables in PostgreSQL: stay. Make it their owner",
        ),
        (
            "ALTER TABLE site_cursor RENAME TO gone",
            "ALTER TABLE gone RENAME TO site_cursor",
            "Tables are missing in PostgreSQL, or their schema is not visible: site_cursor. Restore",
        ),
    ],
)
def test_a_fault_is_logged_once_with_its_remedy_and_its_end(
    broken: str, mended: str, reason: str, hub: Hub, caplog: pytest.LogCaptureFixture
) -> None:
    assert readiness.check_history().ok
    alter(hub.history, broken)
    failing = (batches.cursors,) if "site_cursor" in broken else (write,)
    assert attempt(5, *failing, history_engine.check_reachable) == 10
    [line] = lines(caplog)
    assert line.startswith(f"PostgreSQL cannot be used, so history is not shown and sites wait: {reason}")
    shown = readiness.check_history()
    assert not shown.ok
    assert reason in shown.detail
    alter(hub.history, mended)
    assert attempt(5, write, history_engine.check_reachable) == 0
    assert lines(caplog)[1:] == ["PostgreSQL can be used again: the history is shown, and sites send"]
    assert readiness.check_history().ok
    alter(hub.history, broken)
    assert reason in finding(hub.history).text


def test_a_detached_partition_is_named_with_the_statement_that_attaches_it(hub: Hub) -> None:
    """Only sites with stays in that partition were refused; doctor said "ok, 15 partitions"."""
    write()
    with closing(psycopg.connect(hub.history.replace("limited@", "edge@"))) as connection:
        [(partition,)] = connection.execute(
            "SELECT DISTINCT tableoid::regclass::text FROM stay WHERE track = 1"
        ).fetchall()
    alter(hub.history, f"ALTER TABLE stay DETACH PARTITION {partition}")
    found = finding(hub.history)
    assert found.level == "problem"
    assert f"Partitions of the stays are detached in PostgreSQL: {partition}. Attach each: " in found.text
    assert attempt(3, write, history_engine.check_reachable) == 6
    shown = readiness.check_history()
    assert not shown.ok
    remedy = shown.detail.partition("Attach each: ")[2].partition(")")[0]
    assert remedy.startswith(f"ALTER TABLE stay ATTACH PARTITION {partition} FOR VALUES")
    alter(hub.history, f"{remedy})")
    assert attempt(3, write, history_engine.check_reachable) == 0
    assert readiness.check_history().ok


def test_a_fault_that_comes_and_goes_does_not_fill_the_log(hub: Hub, caplog: pytest.LogCaptureFixture) -> None:
    """The check of tables does not find it, so statements that read work, and those that write do not."""
    alter(hub.history, "ALTER TABLE stay ADD CONSTRAINT none CHECK (track < 0) NOT VALID")
    assert attempt(20, write, history_engine.check_reachable) == 20
    faults = [line for line in lines(caplog) if "cannot be used" in line]
    assert len(faults) == 1
    assert "violates check constraint" in faults[0]
    assert len(lines(caplog)) == 2


def test_another_fault_is_logged_as_well(hub: Hub, caplog: pytest.LogCaptureFixture) -> None:
    alter(hub.history, "REVOKE INSERT ON stay FROM limited")
    assert attempt(3, write) == 3
    alter(hub.history, "ALTER TABLE track_label RENAME TO gone")
    assert attempt(3, write) == 3
    assert [line.partition("PostgreSQL: ")[2].partition(".")[0] for line in lines(caplog)] == ["stay", ""]
    assert "not visible: track_label" in lines(caplog)[1]


def test_missing_tables_are_not_created_while_the_hub_runs(hub: Hub) -> None:
    """The hub would continue with an empty database, and nobody would notice."""
    tables = "stay, edge_history, hub_writer, site_cursor, track_label, source_label"
    alter(hub.history, "DROP SCHEMA report CASCADE")
    alter(hub.history, f"DROP TABLE {tables}")
    assert attempt(2, history_engine.check_reachable) == 2
    pool.close()
    assert attempt(2, history_engine.check_reachable) == 2
    assert "are missing" in history_engine.why_away()
