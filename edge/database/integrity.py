"""Is the database file sound? Checked quickly at the start, and table by table while the service runs."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from edge.database.connection import domain_error

_ANYTHING = "SELECT 1 FROM sqlite_schema"
_STEPS = 10_000  # of SQLite's virtual machine between two looks at the clock: about a millisecond


def faults_at_start(path: Path, seconds: float) -> list[str]:
    """What is wrong, as far as it is found within `seconds`; a large file is checked further in the background.

    Raises Unavailable when it cannot be read at all.
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
    """To SQLite a file that a power cut emptied is a sound database, in which a new site would begin."""
    return [] if connection.execute("PRAGMA user_version").fetchone()[0] else ["it is empty"]


def faults_by_table(path: Path) -> Iterator[tuple[str, list[str]]]:
    """Each table with what is wrong in it; the caller may pause before it asks for the next one."""
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
        found = [str(row[0]) for row in connection.execute(question)]
    except sqlite3.OperationalError:
        raise
    except sqlite3.DatabaseError as error:  # too damaged even to be checked
        return [str(error)]
    return [] if found == ["ok"] else found


def open_read_only(path: Path) -> sqlite3.Connection:
    """A connection that changes nothing.

    Only what a cut of power left half done outside the WAL, as when a restored file was opened first, is undone before:
    that needs to write, and every start would be refused otherwise.
    """
    connection = _connect(path, "ro")
    try:
        connection.execute(_ANYTHING).fetchone()
    except sqlite3.DatabaseError as error:  # any other one is met again by whoever reads
        if error.sqlite_errorcode == sqlite3.SQLITE_READONLY_ROLLBACK:
            with closing(_connect(path, "rw")) as writer:
                writer.execute(_ANYTHING).fetchone()
    return connection


def _connect(path: Path, mode: str) -> sqlite3.Connection:
    return sqlite3.connect(f"{path.absolute().as_uri()}?mode={mode}", uri=True, timeout=10)
