"""The SQLite database of one box: how it is opened, and how everything is written to it.

One connection per thread, opened when the thread first asks. Readers never wait for the writer (WAL). Writers
queue behind one fair lock in the process and begin IMMEDIATE, so that nobody sees "database is locked": a transaction
that reads first and then writes would fail at once if another connection had written in between.

Several writes as one: all of them are made, or none.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import peewee

from edge.database.fair_lock import FairLock
from edge.errors import Busy, Damaged, Unavailable

FILE_NAME = "edge.db"
BUSY_SECONDS = 10
BEHIND_IMPORT_SECONDS = 1.0  # a request waits no longer for a transaction that may take a minute
TOO_SLOW = (
    "This took too long and was stopped; ask for less: fewer days, a longer search text, more filters, a smaller offset"
)
_MOST_WAITING = 6  # times its limit that a statement may take with all its waits for other threads and the disk

PRAGMAS = {
    "journal_mode": "wal",
    "synchronous": "full",  # a commit is on the disk before anybody is told "saved"
    "foreign_keys": 1,
    "cache_size": -4_000,  # KiB, for the connection of each thread; what it lacks, the system has in memory
    "temp_store": "memory",
    "journal_size_limit": 64 * 1024 * 1024,
}
_STEPS = 20_000  # of SQLite's virtual machine between two looks at the clock: about a millisecond


class _Limit(threading.local):
    """How long a statement of this thread may run, and when the current one has to end.

    Its own processor time counts. By the clock on the wall, four that are quick enough alone would all fail together.
    """

    seconds: float | None = None
    is_for_all = False
    deadline = float("inf")
    latest = float("inf")

    def start(self) -> None:
        if self.seconds is not None and not self.is_for_all:
            self.begin(self.seconds)

    def begin(self, seconds: float) -> None:
        self.deadline = time.thread_time() + seconds
        self.latest = time.monotonic() + seconds * _MOST_WAITING

    def is_over(self) -> bool:
        return time.thread_time() > self.deadline or time.monotonic() > self.latest


_limit = _Limit()


class _Database(peewee.SqliteDatabase):
    def _connect(self) -> sqlite3.Connection:
        connection: sqlite3.Connection = super()._connect()  # type: ignore[misc]
        connection.set_progress_handler(_limit.is_over, _STEPS)
        connection.create_function("casefold", 1, str.casefold, deterministic=True)  # SQLite's own knows ASCII only
        return connection

    def execute_sql(self, sql: str, params: Any = None) -> Any:
        """Queries from the builder raise the same errors as `execute`."""
        _limit.start()
        try:
            return super().execute_sql(sql, params)  # type: ignore[no-untyped-call]
        except peewee.DatabaseError as error:
            _raise(error)

    def rollback(self) -> None:
        """SQLite undoes a transaction by itself when the disk is full; a second rollback would hide that error."""
        if self.connection().in_transaction:  # type: ignore[no-untyped-call]
            super().rollback()


database: peewee.SqliteDatabase = _Database(None, pragmas=PRAGMAS, timeout=BUSY_SECONDS)
_write_lock = FairLock()
_long_writing = threading.Event()


def open_database(path: Path, *, checkpoints: bool = True) -> None:
    """Point the store at a database file. Connections follow lazily, one for each thread.

    Who works beside the service leaves checkpoints to it, for the reason that `checkpoint` gives: the lock among the
    writers is of one process. Whoever closes the last connection of all checkpoints in any case.
    """
    if not database.deferred:
        close_database()
    pragmas = PRAGMAS if checkpoints else PRAGMAS | {"wal_autocheckpoint": 0}
    database.init(str(path), pragmas=pragmas, timeout=BUSY_SECONDS)


def close_database() -> None:
    """Close this thread's connection; with the last one SQLite checkpoints and removes the WAL."""
    if not database.is_closed():
        database.close()


def limit_statements(seconds: float | None, *, for_all: bool = False) -> None:
    """From now on, a statement of this thread that takes more processor time raises Unavailable; None ends the limit.

    With `for_all`, this is the time that all its statements have together. Requests are limited, so that none can hold
    up the store; ingest and housekeeping are not.
    """
    _limit.seconds, _limit.is_for_all = seconds, for_all
    _limit.deadline = _limit.latest = float("inf")
    if seconds is not None and for_all:
        _limit.begin(seconds)


def execute(sql: str, parameters: Sequence[Any] | Mapping[str, Any] = ()) -> sqlite3.Cursor:
    """Run one SQL statement as written; `tables` says when that is better than the query builder."""
    _limit.start()
    try:
        return database.connection().execute(sql, parameters)  # type: ignore[no-any-return]
    except (sqlite3.DatabaseError, peewee.DatabaseError) as error:  # Peewee's where the connection cannot be opened
        _raise(error)


def stream(sql: str, parameters: Sequence[Any] | Mapping[str, Any] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield rows for a download, without the time limit of a request."""
    limit_statements(None)
    yield from execute(sql, parameters)


def execute_many(sql: str, rows: Iterable[Sequence[Any]]) -> None:
    _limit.start()
    try:
        database.cursor().executemany(sql, rows)
    except (sqlite3.DatabaseError, peewee.DatabaseError) as error:
        _raise(error)


def changes() -> tuple[int, int]:
    """As long as these numbers stay the same, nobody has written: no other connection, and not this one.

    To be asked within a transaction.
    """
    by_others: int = execute("PRAGMA data_version").fetchone()[0]
    return by_others, database.connection().total_changes


@contextmanager
def writing() -> Iterator[None]:
    """One durable transaction, alone among the writers. Nested, it joins the outer one.

    Raises Unavailable when the store cannot be written now (see `domain_error`); nothing is half-written then.
    """
    if database.in_transaction():
        yield
        return
    with _holding_write_lock(), translating(), database.atomic("IMMEDIATE"):
        yield


def checkpoint(mode: str) -> None:
    """Move the WAL into the file: PASSIVE as far as no reader is in the way, TRUNCATE as soon as none is.

    Alone among the writers: SQLite before 3.51.3, as Debian 12 and 13 have it, can damage the file when another
    connection begins the WAL anew at that very moment.
    """
    with _holding_write_lock():
        execute(f"PRAGMA wal_checkpoint({mode})").fetchall()


@contextmanager
def _holding_write_lock() -> Iterator[None]:
    """Writers queue, but a request does not wait behind an import: it would block a thread that readers need."""
    with _write_lock.holding(BEHIND_IMPORT_SECONDS, _refuse_behind_import):
        yield


def _refuse_behind_import() -> None:
    if _limit.seconds is not None and is_long_writing():
        raise Busy("An import is being written; try again in a few seconds", retry_after_seconds=5)


@contextmanager
def long_writing() -> Iterator[None]:
    """Around a transaction that may take long: requests do not wait for it, and who does is not taken for stuck."""
    _long_writing.set()
    try:
        yield
    finally:
        _long_writing.clear()


def is_long_writing() -> bool:
    return _long_writing.is_set()


@contextmanager
def reading() -> Iterator[None]:
    """One consistent view over several queries; takes no lock and delays nobody."""
    if database.in_transaction():
        yield
        return
    with translating(), database.atomic("DEFERRED"):
        yield


@contextmanager
def translating() -> Iterator[None]:
    """For the few places that use the connection itself: a full disk or a lock raises Unavailable there as well."""
    try:
        yield
    except (sqlite3.DatabaseError, peewee.DatabaseError) as error:
        _raise(error)


_FULL = "The disk is full; make room and try again"
_UNAVAILABLE = {
    sqlite3.SQLITE_FULL: _FULL,
    sqlite3.SQLITE_IOERR_SHMSIZE: _FULL,  # no room for the first thing that is made when the database is opened
    sqlite3.SQLITE_BUSY: "Another process holds the database; try again",
    sqlite3.SQLITE_LOCKED: "Another process holds the database; try again",
    sqlite3.SQLITE_READONLY: "The database is read-only, as happens after a disk fault: see `dmesg` and `mount`",
    sqlite3.SQLITE_IOERR: "The disk cannot be read or written; see `dmesg`",
    sqlite3.SQLITE_INTERRUPT: TOO_SLOW,
    sqlite3.SQLITE_CANTOPEN: "The database file cannot be opened; is its disk mounted, and its folder accessible?",
}
_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_PRIMARY = 0xFF  # an extended code holds the primary one in its lowest byte


def _raise(error: Exception) -> NoReturn:
    known = domain_error(error)
    if known is error:
        raise error
    raise known from error


def domain_error(error: Exception) -> Exception:
    """The domain error for an error of SQLite, or of Peewee wrapping one; any other error is returned unchanged.

    Unavailable for what may pass (disk full, busy, read-only, input/output, cannot open), Damaged for a file that is
    corrupt or not a database. Decided by SQLite's error code, never by its message.
    """
    cause: Exception | None = error
    while isinstance(cause, peewee.PeeweeException):  # Peewee wraps once for each of its own calls
        cause = getattr(cause, "orig", None)
    if not isinstance(cause, sqlite3.DatabaseError):
        return error
    extended = getattr(cause, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
    code = extended if extended in _UNAVAILABLE else extended & _PRIMARY
    if code in _DAMAGED:
        return Damaged(f"The database is damaged ({cause}); stop the service and restore a backup: edge restore FILE")
    return Unavailable(_UNAVAILABLE[code]) if code in _UNAVAILABLE else error


T = TypeVar("T")


def all_or_none(steps: Iterable[Callable[[], T]]) -> list[T]:
    """What each of them returned. Whatever one raises, the others are undone; each notes its own act."""
    with writing():
        return [step() for step in steps]
