"""The SQLite database: connections, transactions and error translation.

Each thread has its own connection, opened on first use and closed when the thread ends. Readers never wait for the
writer (WAL). Writers queue for one fair lock in the process and use BEGIN IMMEDIATE: a transaction that reads and then
writes would fail with "database is locked" after a write by another connection.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from edge.database.fair_lock import FairLock
from edge.database.light_peewee import peewee
from edge.database.slow_statements import SlowStatements
from edge.errors import Damaged, Unavailable
from edge.texts import N_, fill

FILE_NAME = "edge.db"
BUSY_SECONDS = 10
TOO_SLOW = N_(
    "The query took too long and was stopped. Use fewer days, a longer search text, more filters or a smaller offset"
)
_MOST_WAITING = 6  # wall-clock limit of a statement, as a multiple of its CPU limit

PRAGMAS = {
    "journal_mode": "wal",
    "synchronous": "full",  # a commit is on disk before "saved" is reported
    "foreign_keys": 1,
    "cache_size": -4_000,  # KiB per connection; the operating system caches the rest
    "temp_store": "file",  # in memory, one sort of long names by a client would take all that the unit may have
    "journal_size_limit": 64 * 1024 * 1024,
}
_STEPS = 20_000  # SQLite VM steps between checks of the time limit, about 1 ms
SLOW_SECONDS = 0.1  # of processor time; after that, a read shares it with others of its organization


class _Limit(threading.local):
    """Time limit for the statements of this thread.

    CPU time of the thread counts, since with wall-clock time four fast parallel statements would fail together.
    """

    seconds_of_each: float | None = None
    deadline = float("inf")
    latest = float("inf")
    organization_id = 0
    slow_from = float("inf")  # processor time
    last_step = 0.0

    def begin(self, seconds: float) -> None:
        self.deadline = time.thread_time() + seconds
        self.latest = time.monotonic() + seconds * _MOST_WAITING

    def is_over(self) -> bool:
        """Return True if the statement must end. Called after each step of it."""
        used, now = time.thread_time(), time.monotonic()
        if used > self.slow_from and not _of_thread.is_writing:
            _slow.pace(self.organization_id, now - self.last_step)
            now = time.monotonic()
        self.last_step = now
        return used > self.deadline or now > self.latest


_slow = SlowStatements()
_limit = _Limit()


class _OfThread(threading.local):
    """The connection of this thread, once it is open, and the time for which it has held the write lock."""

    closing: _Closing | None = None
    held_seconds = 0.0
    began = 0.0  # processor time of the thread at the begin of its last transaction
    is_writing = False
    is_read_only = False  # SQLite opens a file that cannot be written at that moment read-only, and leaves it so


class _Closing:
    """Closes the connection of a thread that ends, or that opens another one."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def __del__(self) -> None:
        with suppress(sqlite3.ProgrammingError):  # the process ends before this thread
            self._connection.close()


_of_thread = _OfThread()


class _Viewer(threading.local):
    """Whether the statements of this thread leave out the positions of people."""

    hides_people = False


_viewer = _Viewer()


def hide_people(is_hidden: bool) -> None:
    """Set what `hides_people()` returns in SQL. It is True at the start of every request, False in other threads."""
    _viewer.hides_people = is_hidden


def are_people_hidden() -> bool:
    return _viewer.hides_people


class _Database(peewee.SqliteDatabase):
    def _connect(self) -> sqlite3.Connection:
        connection: sqlite3.Connection = super()._connect()  # type: ignore[misc]
        _of_thread.closing = _Closing(connection)
        connection.set_progress_handler(_limit.is_over, _STEPS)
        connection.create_function(
            "casefold", 1, str.casefold, deterministic=True
        )  # SQLite's own function handles ASCII only
        # Constant within a statement, so SQLite calls it once.
        connection.create_function("hides_people", 0, are_people_hidden, deterministic=True)
        return connection

    def execute_sql(self, sql: str, params: Any = None) -> Any:
        """Run a statement of Peewee, such as BEGIN, with the same errors as `execute`."""
        if _limit.seconds_of_each is not None:
            _limit.begin(_limit.seconds_of_each)
        try:
            return super().execute_sql(sql, params)  # type: ignore[no-untyped-call]
        except peewee.DatabaseError as error:
            _raise(error)

    def rollback(self) -> None:
        """Roll back unless SQLite already has, as on a full disk; a second rollback would hide that error."""
        if self.connection().in_transaction:  # type: ignore[no-untyped-call]
            super().rollback()


database: peewee.SqliteDatabase = _Database(None, pragmas=PRAGMAS, timeout=BUSY_SECONDS)
_write_lock = FairLock()


def open_database(path: Path, *, checkpoints: bool = True) -> None:
    """Set the database file. Each thread connects lazily.

    Processes other than the service disable checkpoints, because the writer lock covers one process only; see
    `checkpoint`. The last connection to close always runs a checkpoint.
    """
    if not database.deferred:
        close_database()
    pragmas = PRAGMAS if checkpoints else PRAGMAS | {"wal_autocheckpoint": 0}
    database.init(str(path), pragmas=pragmas, timeout=BUSY_SECONDS)


def close_database() -> None:
    """Close this thread's connection. With the last one, SQLite checkpoints and removes the WAL."""
    if not database.is_closed():
        database.close()


def limit_statements(seconds: float | None, *, for_all: bool = False) -> None:
    """Limit the CPU time of this thread's statements; None removes the limit. Longer statements raise Unavailable.

    With `for_all`, the limit applies to the sum of all statements. Requests are limited, so none can block the store;
    ingest and housekeeping are not.
    """
    _limit.seconds_of_each = None if for_all else seconds
    _limit.deadline = _limit.latest = float("inf")
    if seconds is not None and for_all:
        _limit.begin(seconds)


def share_processor(organization_id: int | None) -> None:
    """Let slow reads of this thread share one processor with others of the organization. None: they share nothing."""
    _limit.slow_from = float("inf") if organization_id is None else time.thread_time() + SLOW_SECONDS
    _limit.organization_id = organization_id or 0


def execute(sql: str, parameters: Sequence[Any] | Mapping[str, Any] = ()) -> sqlite3.Cursor:
    """Run one SQL statement."""
    if _limit.seconds_of_each is not None:
        _limit.begin(_limit.seconds_of_each)
    try:
        return database.connection().execute(sql, parameters)  # type: ignore[no-any-return]
    except (sqlite3.DatabaseError, peewee.DatabaseError) as error:  # Peewee's own if the connection cannot be opened
        _raise(error)


def find_scalar(sql: str, parameters: Sequence[Any] | Mapping[str, Any] = ()) -> int | None:
    """Return the first column of the first row of a query, None without a row."""
    row = execute(sql, parameters).fetchone()
    return row[0] if row else None


def scalar(sql: str, parameters: Sequence[Any] | Mapping[str, Any] = ()) -> int:
    """Return the only value of a query that has one row, such as a count."""
    value: int = execute(sql, parameters).fetchone()[0]
    return value


def column(sql: str, parameters: Sequence[Any] | Mapping[str, Any] = ()) -> list[Any]:
    """Return the first column of a query."""
    return [row[0] for row in execute(sql, parameters)]


def stream(sql: str, parameters: Sequence[Any] | Mapping[str, Any] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield rows for a download, without the time limit of a request."""
    limit_statements(None)
    yield from execute(sql, parameters)


def insert(table: str, values: Mapping[str, Any], rest: str = "") -> sqlite3.Cursor:
    """Add a row. Names of the table and columns are constants. `rest`: SQL after the values, such as `RETURNING no`."""
    names, places = ", ".join(values), ", ".join("?" * len(values))
    return execute(f"INSERT INTO {table} ({names}) VALUES ({places}) {rest}", tuple(values.values()))


def update(table: str, record_id: int | str, values: Mapping[str, Any], key: str = "id") -> None:
    """Change columns of one row. Names of the table and columns are constants."""
    assignments = ", ".join(f"{name} = ?" for name in values)
    execute(f"UPDATE {table} SET {assignments} WHERE {key} = ?", (*values.values(), record_id))


def execute_many(sql: str, rows: Iterable[Sequence[Any]]) -> None:
    """Run one SQL statement for each row of parameters."""
    if _limit.seconds_of_each is not None:
        _limit.begin(_limit.seconds_of_each)
    try:
        database.cursor().executemany(sql, rows)
    except (sqlite3.DatabaseError, peewee.DatabaseError) as error:
        _raise(error)


def changes() -> tuple[int, int]:
    """Return two numbers that stay equal while no connection, including this one, writes.

    Call inside a transaction.
    """
    by_others: int = execute("PRAGMA data_version").fetchone()[0]
    return by_others, database.connection().total_changes


@contextmanager
def writing() -> Iterator[None]:
    """Run a durable transaction, exclusive among writers. Nested, it joins the outer one.

    Raises Unavailable if the store cannot be written (see `domain_error`), and rolls back.
    """
    if database.in_transaction():
        yield
        return
    if _of_thread.is_read_only:
        close_database()  # the next connection can write if the disk can
        _of_thread.is_read_only = False
    with _write_lock.holding():
        begun, _of_thread.began, _of_thread.is_writing = time.monotonic(), time.thread_time(), True
        try:
            with translating(), database.atomic("IMMEDIATE"):
                yield
        finally:
            _of_thread.is_writing = False
            _of_thread.held_seconds += time.monotonic() - begun


def others_wait() -> bool:
    """Return True if another thread waits for the write lock."""
    return _write_lock.waiting > 0


def held_seconds() -> float:
    """Return for how long this thread has held the write lock so far, with its commits."""
    return _of_thread.held_seconds


def transaction_seconds() -> float:
    """Return the processor time of this thread since the begin of its writing transaction."""
    return time.thread_time() - _of_thread.began


def checkpoint(mode: str) -> None:
    """Move the WAL into the database file: PASSIVE up to the oldest reader, TRUNCATE once no reader is left.

    Takes the writer lock: SQLite before 3.51.3 (Debian 12 and 13) can corrupt the file if another connection resets the
    WAL at the same moment.
    """
    with _write_lock.holding():
        execute(f"PRAGMA wal_checkpoint({mode})").fetchall()


@contextmanager
def reading() -> Iterator[None]:
    """Run several queries on one consistent snapshot, without a lock."""
    if database.in_transaction():
        yield
        return
    with translating(), database.atomic("DEFERRED"):
        yield


@contextmanager
def translating() -> Iterator[None]:
    """Translate errors of direct connection use, such as a full disk or a lock, to domain errors."""
    try:
        yield
    except (sqlite3.DatabaseError, peewee.DatabaseError) as error:
        _raise(error)


_FULL = N_("The disk is full; free disk space and try again")
_UNAVAILABLE = {
    sqlite3.SQLITE_FULL: _FULL,
    sqlite3.SQLITE_IOERR_SHMSIZE: _FULL,  # no space for the shared-memory file when opening
    sqlite3.SQLITE_BUSY: N_("Another process has locked the database; try again"),
    sqlite3.SQLITE_LOCKED: N_("Another process has locked the database; try again"),
    sqlite3.SQLITE_READONLY: N_("The database is read-only, perhaps after a disk error: see `dmesg` and `mount`"),
    sqlite3.SQLITE_IOERR: N_("The disk cannot be read or written; see `dmesg`"),
    sqlite3.SQLITE_INTERRUPT: TOO_SLOW,
    sqlite3.SQLITE_CANTOPEN: N_("The database file cannot be opened; check that its disk is mounted and readable"),
}
_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_DAMAGE = N_("The database is damaged (%(cause)s): systemctl stop edge; edge repair; systemctl start edge")
_PRIMARY = 0xFF  # the lowest byte of an extended code is the primary code


def _raise(error: Exception) -> NoReturn:
    known = domain_error(error)
    if known is error:
        raise error
    raise known from error


def domain_error(error: Exception) -> Exception:
    """Return the domain error for an SQLite error (possibly wrapped by Peewee); any other error is returned unchanged.

    Unavailable for temporary errors (disk full, busy, read-only, I/O, cannot open), Damaged for a corrupt file. Uses
    SQLite's error code, never its message. After a read-only one, the next writing transaction reopens the database.
    """
    cause: Exception | None = error
    while isinstance(cause, peewee.PeeweeException):  # each Peewee call wraps again
        cause = getattr(cause, "orig", None)
    if not isinstance(cause, sqlite3.DatabaseError):
        return error
    extended = getattr(cause, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
    code = extended if extended in _UNAVAILABLE else extended & _PRIMARY
    if code == sqlite3.SQLITE_READONLY:
        _of_thread.is_read_only = True
    if code in _DAMAGED:
        return Damaged(fill(_DAMAGE, cause=cause))
    return Unavailable(_UNAVAILABLE[code]) if code in _UNAVAILABLE else error


T = TypeVar("T")


def all_or_none(steps: Iterable[Callable[[], T]]) -> list[T]:
    """Run all steps in one transaction and return their results. An error in one rolls back all of them."""
    with writing():
        return [step() for step in steps]
