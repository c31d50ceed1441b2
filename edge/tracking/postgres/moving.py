"""Moves the stays of a hub to PostgreSQL, and back.

Tracks are compared in groups, and differences are copied. So a move that was interrupted continues, and a second run
copies only the changes since the first one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from edge.audit.actors import Actor
from edge.audit.audit import Subject, acting
from edge.database import change_log
from edge.database.connection import execute, execute_many, writing
from edge.database.triggers import OF_STAYS, Follower
from edge.errors import Conflict
from edge.tracking.postgres import batches, lent_rows, pool, schema, writers
from edge.tracking.postgres.pool import connected, fetch

_GROUP = 20_000  # rows at once, unless one track has more
_COLUMNS = "position_no, observed_at, seq, seen_for, source_no, delay, quality, rule, rssi"
_HERE = f"SELECT {_COLUMNS} FROM history WHERE position_no BETWEEN ? AND ?"
_NEXT = """
SELECT max(no) FROM (
    SELECT no, sum(history_rows) OVER (ORDER BY no) - history_rows AS before FROM track WHERE no > ?
) WHERE before < ?
"""


def _groups() -> Iterator[tuple[int, int]]:
    """Yield the first and the last number of each group of tracks."""
    last = 0
    while (until := execute(_NEXT, (last, _GROUP)).fetchone()[0]) is not None:
        yield last + 1, until
        last = until


def _there(first: int, last: int) -> set[tuple[Any, ...]]:
    return set(fetch(lent_rows.OF_NUMBERS, {"first": first, "last": last}))


def check_free() -> None:
    """Raise Conflict if this box has own reads, or its stays or those of another hub are in PostgreSQL already."""
    if _are_elsewhere():  # a copy of the rows here would delete them there
        raise Conflict("The stays of this hub are in PostgreSQL already. Set hub.history and start the service")
    if execute("SELECT 1 FROM track WHERE site_no IS NULL LIMIT 1").fetchone():
        raise Conflict("This box has recorded reads itself; only the history of a hub's sites can be in PostgreSQL")
    sites = {site for (site,) in fetch("SELECT site FROM site_cursor", {})}
    if sites:
        raise Conflict("This database of PostgreSQL is already in use by a hub; create another one")


def _are_elsewhere() -> bool:
    if execute("SELECT 1 FROM history LIMIT 1").fetchone():
        return False
    return execute("SELECT 1 FROM track WHERE history_rows > 0 LIMIT 1").fetchone() is not None


def copy_there() -> Iterator[int]:
    """Make the stays in PostgreSQL equal to those here. Yields the number of rows compared after each group."""
    done = 0
    for first, last in _groups():
        here = set(execute(_HERE, (first, last)).fetchall())
        there = _there(first, last)
        if here != there:
            new_rows = {row[:3]: row[3:] for row in here - there}
            with batches.transaction():
                batches.replace_rows({row[:3] for row in there - here} - new_rows.keys(), new_rows)
                batches.commit_rows()
        done += len(here)
        yield done


def finish_there() -> int:
    """Compare all stays once more, and delete them here. Returns their number. Call while the service is stopped.

    Raises Conflict if they differ.
    """
    with writing():
        number = _check_equal()
        with _without_changes():
            execute("DELETE FROM history")
        _end_past_index()
    return number


def _end_past_index() -> None:
    """Empty the index of past positions. PostgreSQL has its own."""
    change_log.leave(Follower.PAST)
    for table in ("past_stay", "past_stay_build"):
        execute(f"DELETE FROM {table}")


@contextmanager
def _without_changes() -> Iterator[None]:
    """Record no changes for the open feed, webhooks and events: the stays remain equal. Call in a transaction."""
    for name in OF_STAYS:
        execute(f"DROP TRIGGER IF EXISTS {name}")
    yield
    change_log.install()


def take_over() -> None:
    """Let this machine write instead of another one with the same hub. Raises HistoryUnavailable."""
    with pool.connected(writers.take_over):
        pass


def record_move(actor: Actor, participle: str, number: int) -> None:
    """Record in the audit that this number of stays was moved."""
    with acting(actor) as act:
        act.note(f"history.{participle}", Subject("setting", "hub.history", "hub.history"), {"stays": number})


def bring_back() -> int:
    """Copy the stays from PostgreSQL here, compare them, and delete them there. Returns their number.

    Call while the service is stopped. Raises Conflict if they differ.
    """
    with writing():
        are_here = execute("SELECT 1 FROM history LIMIT 1").fetchone() is not None
        if are_here and not fetch("SELECT 1 FROM stay LIMIT 1", {}):
            raise Conflict("The stays are here already. Empty hub.history and start the service")
        if not are_here:
            with _without_changes():
                for first, last in _groups():
                    _insert(sorted(_there(first, last)))
            execute("DELETE FROM history_digest")
        number = _check_equal()
        if _are_elsewhere():
            raise Conflict("This database of PostgreSQL has no stays of this hub")
    with connected() as connection, connection.transaction():
        writers.hold(connection)
        connection.execute("TRUNCATE stay, site_cursor")
        schema.release(connection)
    return number


def _insert(stays: Sequence[tuple[Any, ...]]) -> None:
    execute_many(f"INSERT INTO history ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", stays)


def _check_equal() -> int:
    number = 0
    for first, last in _groups():
        here = set(execute(_HERE, (first, last)).fetchall())
        if here != _there(first, last):
            raise Conflict(f"The stays of the tracks {first} to {last} are not equal; run the command again")
        number += len(here)
    return number
