"""Integrity checks of the database file: quick at startup, and table by table while the service runs."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from edge.database.connection import domain_error

_ANYTHING = "SELECT 1 FROM sqlite_schema"
_STEPS = 10_000  # SQLite VM steps between checks of the time limit, about 1 ms


def faults_at_start(path: Path, seconds: float) -> list[str]:
    """Return the faults detected within `seconds`; the background check covers the rest of a large file.

    Raises Unavailable if the file cannot be read at all.
    """
    deadline = time.monotonic() + seconds
    try:
        with closing(open_read_only(path)) as connection:
            connection.set_progress_handler(lambda: int(time.monotonic() > deadline), _STEPS)
            return _faults(connection, "PRAGMA quick_check(3)") or _emptied(connection)
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode == sqlite3.SQLITE_INTERRUPT:
            return []
        raise domain_error(error) from error


def _emptied(connection: sqlite3.Connection) -> list[str]:
    """Report a file emptied by a power cut, which SQLite accepts as a new database."""
    return [] if connection.execute("PRAGMA user_version").fetchone()[0] else ["it is empty"]


def faults_by_table(path: Path) -> Iterator[tuple[str, list[str]]]:
    """Yield each table with its faults; the caller may pause between tables."""
    with closing(open_read_only(path)) as connection:
        names = [
            name
            for (name,) in connection.execute(
                "SELECT name FROM sqlite_schema WHERE type = 'table' AND sql NOT LIKE 'CREATE VIRTUAL%' ORDER BY name"
            )
        ]
        for name in names:
            yield name, _faults(connection, f"PRAGMA quick_check('{name}')")


def _faults(connection: sqlite3.Connection, question: str) -> list[str]:
    try:
        faults = [str(row[0]) for row in connection.execute(question)]
    except sqlite3.OperationalError:
        raise
    except sqlite3.DatabaseError as error:  # too damaged to check
        return [str(error)]
    return [] if faults == ["ok"] else faults


def open_read_only(path: Path) -> sqlite3.Connection:
    """Return a connection that changes nothing.

    An exception is a hot rollback journal, as after a power cut with a restored file: recovering it needs a write, and
    otherwise every start would fail.
    """
    connection = _connect(path, "ro")
    try:
        connection.execute(_ANYTHING).fetchone()
    except sqlite3.DatabaseError as error:  # other errors recur when the caller reads
        if error.sqlite_errorcode == sqlite3.SQLITE_READONLY_ROLLBACK:
            with closing(_connect(path, "rw")) as writer:
                writer.execute(_ANYTHING).fetchone()
    return connection


def _connect(path: Path, mode: str) -> sqlite3.Connection:
    return sqlite3.connect(f"{path.absolute().as_uri()}?mode={mode}", uri=True, timeout=10)
