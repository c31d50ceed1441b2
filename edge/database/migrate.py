"""Migrations: numbered SQL steps, each applied and recorded in one transaction."""

from __future__ import annotations

import os
import secrets
import sqlite3
from contextlib import closing
from importlib import resources
from pathlib import Path
from sqlite3 import complete_statement
from typing import NamedTuple

from edge import clock
from edge.database import change_log, known_databases, triggers
from edge.database.connection import FILE_NAME, execute, open_database, scalar, writing
from edge.database.instance import move_badge_key_out
from edge.errors import Damaged, SetupError


def migrate(data_dir: Path, *, keeps_copy: bool = True) -> list[str]:
    """Open the database, create it if needed, and apply missing steps. Returns their names.

    Requires the lock of the data directory. Copies the file before the first step unless the caller already has a copy.
    Raises SetupError for a schema newer than this program.
    """
    path = data_dir / FILE_NAME
    path.touch(mode=0o600)
    if not path.stat().st_size:
        _prepare(path)
    open_database(path)
    steps = _steps()
    present = present_schema()
    if present > len(steps):
        raise known_databases.too_new(path, present, len(steps))
    known_databases.check_origin(path, present, [name for name, _ in steps])
    missing = steps[present:]
    if missing and present:
        known_databases.check_columns(path, lambda fresh: create_schema(fresh, present))
    if missing and present and keeps_copy:
        _copy_aside(path, present)
    if missing and present:
        move_badge_key_out(data_dir)
    for number, (name, sql) in enumerate(missing, start=present + 1):
        _apply(number, name, sql)
    if len(steps) > triggers.LAST_WITH_FORMER_LOG:
        with writing():
            change_log.install()
    if execute("SELECT 1 FROM sqlite_schema WHERE name = 'track_newest_added'").fetchone():
        for statement in triggers.NEWEST_TRACK.values():  # those of an earlier release have other names
            execute(statement)
    if execute("SELECT one FROM instance").fetchone() is None:
        _create_instance()
    return [name for name, _ in missing]


def _prepare(path: Path) -> None:
    """Set the pragmas that only work before the first write."""
    with closing(sqlite3.connect(path)) as new:
        new.execute("PRAGMA auto_vacuum = incremental")
        new.execute("PRAGMA journal_mode = wal")


def check_schema(data_dir: Path) -> None:
    """Check the schema of the open database. Raises SetupError or Damaged if this program cannot use it."""
    present, newest = present_schema(), newest_schema()
    if not present:
        raise Damaged(f"{data_dir / FILE_NAME} is empty; stop the service and restore a backup: edge restore FILE")
    if present > newest:
        raise known_databases.too_new(data_dir / FILE_NAME, present, newest)
    if present < newest:
        raise SetupError(
            f"{data_dir / FILE_NAME} has schema {present} and this version of edge needs {newest}. Start the service "
            "to upgrade it: systemctl restart edge"
        )


def present_schema() -> int:
    return scalar("PRAGMA user_version")


def newest_schema() -> int:
    return len(_steps())


def steps_after(number: int, last: int) -> list[tuple[str, str]]:
    """Return name and SQL of the steps from schema `number` to schema `last`."""
    return _steps()[number:last]


class SchemaObject(NamedTuple):
    """A table, index, trigger or view, as listed by SQLite."""

    kind: str
    name: str
    table: str
    sql: str


def known_schema(number: int) -> tuple[set[SchemaObject], set[SchemaObject]]:
    """Return the required and the allowed objects of a schema; allowed ones include sync, events and Litestream."""
    with closing(sqlite3.connect(":memory:")) as fresh:
        create_schema(fresh, number)
        always = schema_of(fresh)
        tables = {item.name for item in always if item.kind == "table"}
        for statement in triggers.optional(number):
            if triggers.tables_of(statement) <= tables:  # a trigger without its table would stop every write
                fresh.execute(statement)
        for statement in OF_LITESTREAM:
            fresh.execute(statement)
        return always, schema_of(fresh)


def create_schema(connection: sqlite3.Connection, number: int) -> None:
    """Create the schema in an empty database, like `migrate`."""
    for position, (name, sql) in enumerate(_steps()[:number], start=1):
        for statement in _statements(sql):
            connection.execute(statement)
        connection.execute(_RECORD_OF_STEPS)
        connection.execute("INSERT INTO schema_step VALUES (?, ?, ?)", (position, name, clock.now()))
    connection.execute(f"PRAGMA user_version = {number:d}")


def schema_of(connection: sqlite3.Connection) -> set[SchemaObject]:
    """Return the schema objects without those that SQLite creates (automatic indexes, statistics)."""
    rows = connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_schema WHERE sql IS NOT NULL")
    objects = {SchemaObject(*row) for row in rows}
    return {item for item in objects if item.kind != "table" or not item.name.startswith("sqlite_")}


# Tables of the continuous backup.
OF_LITESTREAM = (
    "CREATE TABLE _litestream_seq (id INTEGER PRIMARY KEY, seq INTEGER)",
    "CREATE TABLE _litestream_lock (id INTEGER)",
)

_RECORD_OF_STEPS = "CREATE TABLE IF NOT EXISTS schema_step (number INTEGER PRIMARY KEY, name TEXT, applied_at INTEGER)"


def _steps() -> list[tuple[str, str]]:
    folder = resources.files("edge.database.migrations")
    files = sorted((file for file in folder.iterdir() if file.name.endswith(".sql")), key=lambda file: file.name)
    return [(file.name.removesuffix(".sql"), file.read_text("utf-8")) for file in files]


def _apply(number: int, name: str, sql: str) -> None:
    with writing():
        for statement in _statements(sql):
            execute(statement)
        execute(_RECORD_OF_STEPS)
        execute("INSERT INTO schema_step VALUES (?, ?, ?)", (number, name, clock.now()))
        execute(f"PRAGMA user_version = {number:d}")


def _statements(sql: str) -> list[str]:
    """Split a step into statements, since `executescript` would commit."""
    statements, pending = [], ""
    for line in sql.splitlines(keepends=True):
        pending += line
        if complete_statement(pending):
            statements.append(pending)
            pending = ""
    return statements


def _create_instance() -> None:
    with writing():
        execute(
            "INSERT INTO instance (one, id_key, id_count, badge_key, created_at) VALUES (1, ?, 0, zeroblob(32), ?)",
            (secrets.token_bytes(32), clock.now()),
        )


def _copy_aside(path: Path, schema: int) -> None:
    """Copy the database, renaming the copy once it is complete. Replaces an older copy of the same schema."""
    aside = path.with_name(f"{path.name}.schema-{schema}")
    unfinished = aside.with_name(f"{aside.name}.part")
    unfinished.unlink(missing_ok=True)
    unfinished.touch(mode=0o600)
    execute("VACUUM INTO ?", (str(unfinished),))
    with unfinished.open("rb") as file:
        os.fsync(file.fileno())
    unfinished.replace(aside)
