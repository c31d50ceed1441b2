"""Recover what can still be read of a damaged database into a new, sound one.

A damaged page ends a read. So each table is read from both ends, and the part in between is halved until the rows
around every such page are found. (SQLite's shell has `.recover`, but Debian 12 builds it without what that needs.)
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

from edge.errors import Corrupt
from edge.store import event_triggers, sync_triggers
from edge.store.integrity import open_read_only
from edge.store.migrate import create_schema, newest_schema

_SEARCH = ("trigram", "version")  # made by triggers as the rest comes in
_LEAST, _MOST = -(2**63), 2**63 - 1
_TRIES = 10  # how often a range that gives nothing is halved: a page between two damaged ones is a fair part of a gap


class Recovered(NamedTuple):
    """By table: rows in the new file, gaps that could not be read, rows that contradict what else was recovered."""

    rows: dict[str, int]
    unreadable: dict[str, int]
    rejected: dict[str, int]


class _Table(NamedTuple):
    name: str
    columns: list[str]
    key: list[str]  # the columns by which it is stored; it is divisible if the first one is a number
    is_divisible: bool


def recover(damaged: Path, target: Path) -> Recovered:
    """The damaged file is only read. Raises Corrupt if even the secrets of the site cannot be recovered."""
    with closing(sqlite3.connect(target, isolation_level=None)) as fresh:
        create_schema(fresh, newest_schema())
        try:
            with closing(open_read_only(damaged)) as old:
                old.execute("PRAGMA trusted_schema = off")
                tables = [_common(old, fresh, name) for name in _names(fresh)]
                fresh.execute("BEGIN")
                counts = {table.name: _copy(old, fresh, table) for table in tables if table.columns}
                triggers = _optional_triggers(old)
        except sqlite3.DatabaseError as error:
            raise Corrupt(f"Nothing of {damaged} can be recovered ({error}); restore a backup: edge restore") from error
        rejected = {name: count for name, (_, count) in counts.items()}
        for name in _orphans(fresh):
            rejected[name] = rejected.get(name, 0) + 1
        fresh.execute(_COUNT_HISTORY)
        for statement in triggers:  # last, since none of this is a change to report to a hub or a receiver
            fresh.execute(statement)
        fresh.execute("COMMIT")
        rows = {table.name: _count(fresh, table.name) for table in tables}
    if not rows["instance"]:
        raise Corrupt("The secrets of this site cannot be recovered; restore a backup: edge restore")
    return Recovered(rows, _present({name: gaps for name, (gaps, _) in counts.items()}), _present(rejected))


def _names(connection: sqlite3.Connection) -> list[str]:
    """In the order they were made, so that what is referred to comes first."""
    rows = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY rowid")
    return [name for (name,) in rows if not name.startswith(("sqlite_", *_SEARCH)) and name != "schema_step"]


def _common(old: sqlite3.Connection, fresh: sqlite3.Connection, name: str) -> _Table:
    theirs = {row[1] for row in old.execute(f"PRAGMA table_info({name})")}
    ours = fresh.execute(f"PRAGMA table_info({name})").fetchall()
    columns = [row[1] for row in ours if row[1] in theirs]
    if not _is_without_rowid(fresh, name):
        return _Table(name, columns, ["rowid"], True)
    key = sorted((row for row in ours if row[5]), key=lambda row: row[5])
    return _Table(name, columns, [row[1] for row in key], key[0][2] == "INTEGER")


def _is_without_rowid(connection: sqlite3.Connection, name: str) -> bool:
    return bool(connection.execute("SELECT wr FROM pragma_table_list WHERE name = ?", (name,)).fetchone()[0])


def _copy(old: sqlite3.Connection, fresh: sqlite3.Connection, table: _Table) -> tuple[int, int]:
    """Copy a table; returns the gaps that could not be read, and the rows that the new table refused."""
    columns = ", ".join(table.columns)
    insert = f"INSERT INTO {table.name} ({columns}) VALUES ({', '.join('?' * len(table.columns))})"
    gaps = rejected = 0
    is_gap = False
    for row in _read(old, table, _LEAST, _MOST):
        if row is None:
            gaps += not is_gap
            is_gap = True
            continue
        is_gap = False
        try:
            fresh.execute(insert, row)
        except sqlite3.IntegrityError:
            rejected += 1
    return gaps, rejected


def _read(
    old: sqlite3.Connection, table: _Table, low: int, high: int, tries: int = _TRIES
) -> Iterator[tuple[Any, ...] | None]:
    """The rows between two values of the first column of the key; None where some cannot be read."""
    first = last = None
    try:
        for row in old.execute(_select(table, "ASC"), (low, high) if table.is_divisible else ()):
            first = row[: len(table.key)]
            yield row[len(table.key) :]
    except sqlite3.DatabaseError:
        for row in _backwards(old, table, low, high):
            if first is not None and row[: len(table.key)] <= first:
                break
            last = row[: len(table.key)]
            yield row[len(table.key) :]
        start = first[0] if first and table.is_divisible else low
        end = last[0] if last and table.is_divisible else high
        yield None
        # Everything readable from either end is done. What lies strictly between is halved, until nothing is found.
        tries = tries - 1 if first is None and last is None else _TRIES
        if table.is_divisible and end - start > 1 and tries:
            middle = (start + end) // 2
            yield from _read(old, table, start + 1, middle, tries)
            yield from _read(old, table, middle + 1, end - 1, tries)


def _backwards(old: sqlite3.Connection, table: _Table, low: int, high: int) -> Iterator[tuple[Any, ...]]:
    try:
        yield from old.execute(_select(table, "DESC"), (low, high) if table.is_divisible else ())
    except sqlite3.DatabaseError:
        return


def _select(table: _Table, direction: str) -> str:
    between = f"WHERE {table.key[0]} BETWEEN ? AND ?" if table.is_divisible else ""
    order = ", ".join(f"{name} {direction}" for name in table.key)
    return f"SELECT {', '.join(table.key + table.columns)} FROM {table.name} NOT INDEXED {between} ORDER BY {order}"


def _optional_triggers(old: sqlite3.Connection) -> list[str]:
    """Those that a database has only while it takes part in sync, or sends events."""
    present = {name for (name,) in old.execute("SELECT name FROM sqlite_schema WHERE type = 'trigger'")}
    known = (*sync_triggers.OPTIONAL, *event_triggers.TRIGGERS.values())
    return [statement for statement in known if present & set(statement.split())]


def _orphans(connection: sqlite3.Connection) -> Iterator[str]:
    """Delete rows that refer to lost rows, and then those that referred to these; yields the table of each."""
    while found := connection.execute("PRAGMA foreign_key_check").fetchall():
        for table, rowid, _, number in {row[:2]: row for row in found}.values():
            yield from [table] * _drop_orphan(connection, table, rowid, number)


def _drop_orphan(connection: sqlite3.Connection, table: str, rowid: int | None, number: int) -> int:
    """Returns how many rows went. In a table without rowid all orphans go at once: none can be named."""
    if rowid is not None:
        return connection.execute(f"DELETE FROM {table} WHERE rowid = ?", (rowid,)).rowcount
    links = connection.execute("SELECT * FROM pragma_foreign_key_list(?) WHERE id = ?", (table, number)).fetchall()
    matching = " AND ".join(f"parent.{link[4] or 'rowid'} = {table}.{link[3]}" for link in links)
    filled = " AND ".join(f"{link[3]} IS NOT NULL" for link in links)
    return connection.execute(
        f"DELETE FROM {table} WHERE {filled} AND NOT EXISTS (SELECT 1 FROM {links[0][2]} AS parent WHERE {matching})"
    ).rowcount


_COUNT_HISTORY = "UPDATE track SET history_rows = (SELECT count(*) FROM history WHERE position_no = track.no)"


def _count(connection: sqlite3.Connection, table: str) -> int:
    number: int = connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
    return number


def _present(counts: dict[str, int]) -> dict[str, int]:
    return {name: count for name, count in counts.items() if count}
