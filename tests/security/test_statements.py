"""Queries of requests have a time limit, and the cost of ingest queries does not grow with stored data."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import count

import pytest
from flask import Flask

from edge import app as application
from edge import clock
from edge.audit.actors import shell
from edge.database import connection as store
from edge.database.connection import TOO_SLOW, database, execute, limit_statements, writing
from edge.errors import Unavailable
from edge.readers.kept_messages import Pack, Window
from edge.records.assets import create
from edge.tracking.recent_reads import RecentReads
from edge.tracking.stays import Quality, Scan
from tests.api.conftest import Api, error
from tests.conftest import Cast

ENDLESS = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"


def test_a_request_with_a_slow_query_gets_an_error_with_advice(
    app: Flask, acme: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(application, "STATEMENT_SECONDS", 0.05)
    app.view_functions["api.list_assets"] = lambda: str(execute(ENDLESS).fetchone())
    answer = acme.get("/assets")
    assert answer.status_code == 503
    assert error(answer)["detail"] == TOO_SLOW
    assert "Retry-After" in answer.headers


def test_earlier_writes_of_the_request_are_rolled_back(cast: Cast) -> None:
    def write() -> None:
        with writing():
            create(shell(cast.acme), name="half")
            execute(ENDLESS).fetchone()

    limit_statements(0.05)
    try:
        with pytest.raises(Unavailable, match="took too long"):
            write()
    finally:
        limit_statements(None)
    assert execute("SELECT count(*) FROM asset").fetchone() == (0,)


def test_a_statement_is_not_stopped_because_others_have_the_processor(
    cast: Cast, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four parallel histories take four times as long as one. The limit applies to the time of each of them."""
    began = time.monotonic()
    looks = count()  # from the second on, others have had the processor for two seconds
    limit_statements(0.5)
    monkeypatch.setattr(store.time, "monotonic", lambda: began + 2 * (next(looks) > 0))
    try:
        bounded = ENDLESS.replace("FROM n)", "FROM n WHERE i < 20000)")
        assert execute(bounded).fetchone() == (20_000,)
    finally:
        limit_statements(None)
    assert next(looks) > 2  # a limit by wall-clock time would have stopped it


def test_the_next_statement_has_its_own_time(cast: Cast) -> None:
    limit_statements(0.3)
    try:
        with pytest.raises(Unavailable):
            execute(ENDLESS).fetchone()
        count = ENDLESS.replace("FROM n)", "FROM n WHERE i < 5000)")
        assert execute(count).fetchone() == (5_000,)
    finally:
        limit_statements(None)


def looked_at(work: Callable[[], None]) -> int:
    """Return the number of instructions that SQLite needed."""
    steps = count()
    database.connection().set_progress_handler(lambda: next(steps) < 0, 1)
    work()
    database.connection().set_progress_handler(None, 1)
    return next(steps)


def test_keeping_a_message_costs_the_same_in_a_full_window(store: object) -> None:
    window = Window(100 << 20, clock.HOUR)

    def keep(messages: int = 1) -> None:
        window.keep(Pack(None, 1, clock.now(), b"", b"x" * 100) for _ in range(messages))

    with writing():
        first = looked_at(keep)
        keep(5_000)
        assert looked_at(keep) < first + 100


def test_keeping_reads_costs_the_same_after_many_batches(store: object) -> None:
    recent = RecentReads()

    def keep() -> None:
        recent.refresh()
        recent.note(Scan(1, 1, 1, 1, None, clock.now(), clock.now(), Quality.READER), 1, 0)
        recent.write(clock.now(), 0)

    with writing():
        for _ in range(200):
            keep()
        first = looked_at(keep)
        for _ in range(2_000):
            keep()
        assert looked_at(keep) < first + 100
