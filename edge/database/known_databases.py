"""Checks that this release can upgrade the open database; otherwise explains the reason and the remedy."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

from edge.database.connection import column, execute
from edge.errors import SetupError

Columns = set[tuple[str, str, str, int]]  # table, name, type, position in the primary key


def too_new(path: Path, present: int, newest: int) -> SetupError:
    """Return the error for a database of a later release."""
    return SetupError(
        f"{path} was written by a newer version of edge (schema {present}, this one supports {newest}). "
        "Install that version again, or restore a backup made before the upgrade. To stay with this version and keep "
        "newer records: run edge export with the newer version, then edge import with this one"
    )


def check_origin(path: Path, present: int, steps: Sequence[str]) -> None:
    """Raise SetupError for another program's database, or one with migrations other than `steps`."""
    tables = set(column("SELECT name FROM sqlite_schema WHERE type = 'table'"))
    if present == 0:
        if tables:
            raise _foreign(path)
        return
    if not {"instance", "schema_step", "organization"} <= tables:
        raise _foreign(path)
    applied = column("SELECT name FROM schema_step ORDER BY number")
    if applied != list(steps[:present]):
        raise _unreleased(path)


def check_columns(path: Path, create: Callable[[sqlite3.Connection], None]) -> None:
    """Raise SetupError if the columns differ from those that `create` makes. Comments do not matter."""
    with closing(sqlite3.connect(":memory:")) as fresh:
        create(fresh)
        if _columns(fresh.execute) - _columns(execute):
            raise _unreleased(path)


def _columns(ask: Callable[[str], sqlite3.Cursor]) -> Columns:
    return set(
        ask(
            "SELECT t.name, c.name, c.type, c.pk FROM sqlite_schema AS t JOIN pragma_table_info(t.name) AS c "
            "WHERE t.type = 'table' AND t.sql NOT LIKE 'CREATE VIRTUAL%'"
        ).fetchall()
    )


def _foreign(path: Path) -> SetupError:
    return SetupError(
        f"{path} is the database of another program. Nothing was changed: move the file away, or set data_dir to the "
        "folder of this site"
    )


def _unreleased(path: Path) -> SetupError:
    return SetupError(
        f"{path} was written by a version of edge that was never released, and its tables differ. Nothing was changed. "
        "To keep the records: start that version once more and read assets, locations and history through its API, "
        "move the file away, run edge init with this version, and load assets and locations on the page Import"
    )
