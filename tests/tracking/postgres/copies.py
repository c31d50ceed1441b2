"""Stays of a box with reads of its own, copied to PostgreSQL for a request, since such a hub takes none itself."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from edge.database.connection import execute
from edge.tracking import history_engine
from edge.tracking.postgres import pool

_COLUMNS = "position_no, observed_at, seq, seen_for, source_no, delay, quality, rule, rssi"
_COPY = "COPY stay (track, observed_at, seq, seen_for, source, delay, quality, rule, rssi) FROM STDIN"


@contextmanager
def copied_stays(url: str) -> Iterator[None]:
    """Read the stays from a database of PostgreSQL, which has those of the file then. Does nothing without a URL."""
    if not url:
        yield
        return
    stays = execute(f"SELECT {_COLUMNS} FROM history").fetchall()
    history_engine.use(url)
    try:
        with pool.connected() as connection, connection.transaction(), connection.cursor() as cursor:
            cursor.execute("DELETE FROM stay")
            with cursor.copy(_COPY) as copied:
                for row in stays:
                    copied.write_row(row)
        with history_engine.lent_rows.lent([]):
            pass  # from now on, the rows in the file are not visible
        yield
    finally:
        history_engine.use("")
        execute("DROP TABLE IF EXISTS temp.history")
