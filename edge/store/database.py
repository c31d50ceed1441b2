"""The SQLite database of one box: how it is opened, and how everything is written to it.

One connection per thread, opened when the thread first asks. Readers never wait for the writer (WAL). Writers
queue behind one lock in the process and begin IMMEDIATE, so that nobody meets "database is locked": a transaction
that reads first and then writes would fail at once when another connection wrote in between.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import peewee

from edge.errors import Unavailable

FILE_NAME = "edge.db"
BUSY_SECONDS = 10

PRAGMAS = {
    "auto_vacuum": "incremental",  # counts only before anything is written, so it comes first
    "journal_mode": "wal",
    "synchronous": "full",  # a commit is on the disk before anybody is told "saved"
    "foreign_keys": 1,
    "cache_size": -16_000,  # KiB, for each connection
    "temp_store": "memory",
    "journal_size_limit": 64 * 1024 * 1024,
}


class _Database(peewee.SqliteDatabase):
    def rollback(self) -> None:
        """SQLite undoes a transaction by itself when the disk is full; a second rollback would hide that error."""
        if self.connection().in_transaction:  # type: ignore[no-untyped-call]
            super().rollback()


database: peewee.SqliteDatabase = _Database(None, pragmas=PRAGMAS, timeout=BUSY_SECONDS)
_write_lock = threading.Lock()


def open_database(path: Path) -> None:
    """Point the store at a database file. Connections follow lazily, one for each thread."""
    if not database.deferred:
        close_database()
    database.init(str(path), pragmas=PRAGMAS, timeout=BUSY_SECONDS)


def close_database() -> None:
    """Close this thread's connection; with the last one SQLite checkpoints and removes the WAL."""
    if not database.is_closed():
        database.close()


def execute(sql: str, parameters: Sequence[Any] | Mapping[str, Any] = ()) -> sqlite3.Cursor:
    """Run one statement as written. For the queries that are too hot, or too recursive, for the query builder."""
    try:
        return database.connection().execute(sql, parameters)  # type: ignore[no-any-return]
    except sqlite3.OperationalError as error:
        raise _translated(error) from error


def execute_many(sql: str, rows: Sequence[Sequence[Any]]) -> None:
    try:
        database.cursor().executemany(sql, rows)
    except sqlite3.OperationalError as error:
        raise _translated(error) from error


@contextmanager
def writing() -> Iterator[None]:
    """One durable transaction, alone among the writers. Nested, it joins the outer one.

    Raises Unavailable when the disk is full or another process holds the database; nothing is half-written then.
    """
    if database.in_transaction():
        yield
        return
    with _write_lock:
        try:
            with database.atomic("IMMEDIATE"):
                yield
        except (peewee.OperationalError, sqlite3.OperationalError) as error:
            raise _translated(error) from error


@contextmanager
def reading() -> Iterator[None]:
    """One consistent view over several queries; takes no lock and delays nobody."""
    if database.in_transaction():
        yield
        return
    with database.atomic("DEFERRED"):
        yield


@contextmanager
def translating() -> Iterator[None]:
    """For the few places that use the connection itself: a full disk and a lock are Unavailable there, too."""
    try:
        yield
    except (peewee.OperationalError, sqlite3.OperationalError) as error:
        raise _translated(error) from error


def _translated(error: Exception) -> Exception:
    text = str(error)
    if "full" in text or "disk I/O" in text:
        return Unavailable("The disk is full; make room and try again")
    if "locked" in text or "busy" in text:
        return Unavailable("Another process holds the database; try again")
    return error
