"""Copies of the whole database: make one while the service runs, check it, and prepare it for use on a box."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import NamedTuple

from edge.audit.actors import Actor
from edge.audit.audit import INSERT_ENTRY, Act, Entry, Subject
from edge.database.connection import database, translating
from edge.database.migrate import known_schema, newest_schema, schema_of
from edge.errors import Corrupt
from edge.sync.store.epochs import renew_epochs
from edge.tracking import copies

# More than the ids assigned between two backups; allows 9 million restores before the range of ids is used up.
ID_LEAP = 1_000_000_000


class CopySummary(NamedTuple):
    """Summary of a database file for the person who restores it."""

    schema: int
    organizations: int
    assets: int
    newest_scan_at: int | None
    is_site: int = 0  # 1 if the box reports to a hub


def copy_database(target: Path) -> None:
    """Write a consistent copy of the open database to one file, without blocking writers.

    The copy is made in one pass: in steps, SQLite would restart it after every commit.
    """
    with translating(), closing(sqlite3.connect(target)) as copy:
        database.connection().backup(copy, pages=-1)
        copy.execute("PRAGMA journal_mode = delete").fetchone()  # complete without a second file


def inspect_copy(path: Path) -> CopySummary:
    """Read the whole file. Raises Corrupt if it is damaged, not edge's, or newer than this program."""
    try:
        with _opened(path) as copy:
            schema = copy.execute("PRAGMA user_version").fetchone()[0]
            if not 1 <= schema <= newest_schema():
                raise Corrupt(f"{path.name} has schema {schema}; this version of edge supports 1 to {newest_schema()}")
            _check_schema(path, copy, schema)
            faults = [row[0] for row in copy.execute("PRAGMA integrity_check(5)")]
            if faults != ["ok"]:
                raise Corrupt(f"{path.name} is damaged: {'; '.join(faults)}")
            if copy.execute("PRAGMA foreign_key_check").fetchone():
                raise Corrupt(f"{path.name} is damaged: rows refer to rows that do not exist")
            if copy.execute("SELECT one FROM instance").fetchone() is None:
                raise Corrupt(f"{path.name} is incomplete")
            organizations, assets, is_site = copy.execute(_SUMMARY).fetchone()
            summary = CopySummary(schema, organizations, assets, copies.newest_read(copy.execute) or None, is_site)
    except sqlite3.DatabaseError as error:
        raise Corrupt(f"{path.name} is not a database of edge ({error})") from error
    return summary


def _check_schema(path: Path, copy: sqlite3.Connection, schema: int) -> None:
    """Raise Corrupt for unknown triggers or views, which would run with all rights of the service."""
    present, (needed, allowed) = schema_of(copy), known_schema(schema)
    for item in sorted(present - allowed):
        raise Corrupt(f"{path.name} is not a database of edge: unknown {item.kind} {item.name}")
    for item in sorted(needed - present):
        raise Corrupt(f"{path.name} is not a database of edge: missing {item.kind} {item.name}")


_SUMMARY = """
    SELECT (SELECT count(*) FROM organization), (SELECT count(*) FROM asset WHERE deleted_at IS NULL),
           (SELECT count(*) FROM target)
"""


def schema_of_header(header: bytes) -> int | None:
    """Return the schema number in the first 100 bytes of a database file (sqlite.org/fileformat.html, 1.3)."""
    return int.from_bytes(header[60:64], "big") if header.startswith(b"SQLite format 3\0") else None


def count_rows(path: Path, tables: list[str]) -> dict[str, int]:
    """Count the rows of an inspected copy by table. Tables it does not have are left out."""
    with _opened(path) as copy:
        present = {name for (name,) in copy.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
        return {
            table: copy.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in tables if table in present
        }


def move_ids_forward(path: Path, present: Path) -> None:
    """Ensure that ids assigned after this copy was made are never assigned again (interface: Identifiers).

    If `present` is a readable database of the same instance, the count continues from there. The copy also gets a new
    sync epoch.
    """
    with _opened(path) as copy:
        id_key, count = copy.execute("SELECT id_key, id_count FROM instance").fetchone()
        count = max(count, _id_count(present, id_key))
        copy.execute("UPDATE instance SET id_count = ?", (count + ID_LEAP,))
        renew_epochs(copy.execute)
        copies.keep_hub_positions(copy.execute)
        copy.commit()


def note_origin(actor: Actor, path: Path, action: str, origin: str) -> None:
    """Record in the copy's audit where the database of this box came from."""
    with _opened(path) as copy:
        copy.execute(INSERT_ENTRY, Act(actor).row(Entry(action, Subject("box", 0, "this box"), {"from": origin})))
        copy.commit()


def _id_count(path: Path, id_key: bytes) -> int:
    """Return the id count, or 0 if the file is missing, unreadable, or of another instance: ID_LEAP is enough then."""
    if not path.exists():
        return 0
    try:
        with _opened(path) as present:
            row = present.execute("SELECT id_count FROM instance WHERE id_key = ?", (id_key,)).fetchone()
    except sqlite3.DatabaseError:
        return 0
    return row[0] if row else 0


@contextmanager
def _opened(path: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=rw", uri=True)) as connection:
        connection.execute("PRAGMA trusted_schema = off")  # the file is untrusted until it is checked
        yield connection
