"""No query of anybody can hold the store: each statement of a request ends after a while."""

from __future__ import annotations

import pytest
from flask import Flask

from edge import app as application
from edge.errors import Unavailable
from edge.store.actors import shell
from edge.store.assets import create
from edge.store.database import TOO_SLOW, execute, limit_statements, writing
from tests.api.conftest import Api, error
from tests.conftest import Cast

ENDLESS = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"


def test_a_request_whose_query_takes_too_long_is_told_what_to_do(
    app: Flask, acme: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(application, "STATEMENT_SECONDS", 0.05)
    app.view_functions["api.list_assets"] = lambda: str(execute(ENDLESS).fetchone())
    answer = acme.get("/assets")
    assert answer.status_code == 503
    assert error(answer)["detail"] == TOO_SLOW
    assert "Retry-After" in answer.headers


def test_what_was_written_before_it_is_undone(cast: Cast) -> None:
    def write() -> None:
        with writing():
            create(shell(cast.acme), name="half")
            execute(ENDLESS).fetchone()

    limit_statements(0.05)
    try:
        with pytest.raises(Unavailable, match="ask for less"):
            write()
    finally:
        limit_statements(None)
    assert execute("SELECT count(*) FROM asset").fetchone() == (0,)


def test_the_next_statement_has_its_own_time(cast: Cast) -> None:
    limit_statements(0.3)
    try:
        with pytest.raises(Unavailable):
            execute(ENDLESS).fetchone()
        count = ENDLESS.replace("FROM n)", "FROM n WHERE i < 5000)")
        assert execute(count).fetchone() == (5_000,)
    finally:
        limit_statements(None)
