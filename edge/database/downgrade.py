"""Downgrade of the database to the schema of an earlier release, in one transaction.

Newer tables and columns are dropped; all other rows stay. It refuses steps that cannot be undone this way.
"""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

from edge.database import migrate, triggers
from edge.database.connection import FILE_NAME
from edge.database.migrate import SchemaObject
from edge.errors import SetupError

# A step with this line changes values, so an earlier release would misread them.
ONE_WAY = "-- No way back:"
_ASIDE = "newer_"
_Waiting = dict[str, list[Any]]
_PACKED_READS = 63  # the schema since which `recent_read` has compressed reads
# Consequences of the loss of a table for other people than the one who asked for it.
_CONSEQUENCES = {
    "people_setting": "The earlier release does not know which assets are people: everyone who may see assets can now "
    "see where they are",
}


class NewerValue(NamedTuple):
    """Value of an enumeration that releases with a schema before `since` do not know, and its replacement there.

    Without such a value the row is left out, as the rows of a newer table are.
    """

    table: str
    column: str
    value: str
    since: int
    instead: str | None = None


NEWER_VALUES = (
    NewerValue("event", "kind", "asset.passed", 22),
    NewerValue("event", "kind", "asset.measured", 22),
    NewerValue("event", "kind", "asset.history", 52),
    NewerValue("upstream_record", "trouble_kind", "blocked", 52, "waits"),
)


class Downgraded(NamedTuple):
    schema_before: int
    dropped: dict[str, int]  # rows of each dropped table, and of each value that the earlier release does not know

    @property
    def warnings(self) -> list[str]:
        return [text for table, text in _CONSEQUENCES.items() if self.dropped.get(table)]


def downgrade(data_dir: Path, number: int) -> Downgraded:
    """Change the database to schema `number`, completely or not at all. Requires the lock of the data directory.

    Raises SetupError if the data does not fit that schema.
    """
    with closing(sqlite3.connect(data_dir / FILE_NAME, isolation_level=None)) as connection:
        (present,) = connection.execute("PRAGMA user_version").fetchone()
        _check_steps(number, present)
        connection.execute("PRAGMA foreign_keys = off")
        connection.execute("PRAGMA legacy_alter_table = on")  # references to a renamed table keep its name
        connection.execute("PRAGMA synchronous = full")
        connection.execute("BEGIN IMMEDIATE")
        try:
            dropped = _change(connection, number)
        except sqlite3.Error as error:
            connection.execute("ROLLBACK")
            raise SetupError(f"The data does not fit schema {number}: {error}") from error
        except SetupError:
            connection.execute("ROLLBACK")
            raise
        connection.execute("COMMIT")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    return Downgraded(present, dropped)


def _check_steps(number: int, present: int) -> None:
    newest = migrate.newest_schema()
    if not 0 < number <= present <= newest:
        raise SetupError(f"The database has schema {present}; this release knows 1 to {newest}")
    for name, sql in migrate.steps_after(number, present):
        reason = next((line for line in sql.splitlines() if line.startswith(ONE_WAY)), "")
        if reason:
            raise SetupError(f"Step {name} cannot be undone: {reason.removeprefix(ONE_WAY).strip()}")


def _change(connection: sqlite3.Connection, number: int) -> dict[str, int]:
    required, allowed = migrate.known_schema(number)
    present = migrate.schema_of(connection)
    for item in present:
        if item.kind == "trigger":
            connection.execute(f'DROP TRIGGER "{item.name}"')
        elif item.kind == "index" and item not in required:
            connection.execute(f'DROP INDEX "{item.name}"')
    marks_newest = "track_newest_added" in {item.name for item in present}
    waiting, former = _former_log(connection, number, {item.name for item in required}, marks_newest=marks_newest)
    dropped = _leave_out_values(connection, number)
    kinds = {item.name: item.kind for item in required if item.kind in ("table", "view")}
    dropped |= _put_views_aside(connection, present, kinds)
    dropped |= _drop_tables(connection, present, {item.name for item in allowed})
    _unpack_reads(connection, number)
    for item in sorted(required - present):
        if item.kind == "table" and (item.name in waiting or item.name in _COMPUTED):
            connection.execute(item.sql)
            marks = ", ".join("?" * len(_columns(connection, item.name)))
            connection.executemany(f"INSERT INTO {item.name} VALUES ({marks})", waiting.get(item.name, ()))
        elif item.kind == "table":
            _rebuild(connection, item)
    for item in required - present:
        if item.kind == "table" and connection.execute(f'PRAGMA foreign_key_check("{item.name}")').fetchone():
            raise SetupError(f"Records of {item.name} refer to records that only a newer release has")
    _create(connection, required | (present & allowed))
    for statement in former:
        connection.execute(statement)
    connection.execute("DELETE FROM schema_step WHERE number > ?", (number,))
    connection.execute(f"PRAGMA user_version = {number:d}")
    _check_result(connection, required, allowed)
    return dropped


def _former_log(
    connection: sqlite3.Connection, number: int, tables: set[str], *, marks_newest: bool
) -> tuple[_Waiting, list[str]]:
    """Return the changes that followers have not read, as rows of tables of earlier releases, and their triggers."""
    followers, waiting = {"newest"} if marks_newest else set(), {}
    if _columns(connection, "follower"):
        followers |= {name for (name,) in connection.execute("SELECT name FROM follower")}
        waiting = {
            table: connection.execute(sql).fetchall()
            for table, (last, sql) in _WAITING.items()
            if number <= last and not _columns(connection, table)
        }
        for name, last, unknown, computed in _LATER_FOLLOWERS:
            if number <= last and name in followers:
                for table in computed:
                    connection.execute(f"DELETE FROM {table}")
                connection.execute("DELETE FROM change WHERE kind >= ?", (unknown,))
                connection.execute("DELETE FROM follower WHERE name = ?", (name,))
        connection.execute("DELETE FROM change WHERE NOT EXISTS (SELECT 1 FROM follower)")
    return waiting, [
        statement
        for statement, needed_by in triggers.former(number)
        if followers & needed_by and triggers.tables_of(statement) <= tables
    ]


# Followers of the log, each with the last schema without it, the first kind of change that only it and later ones need,
# and the tables that earlier releases fill themselves.
_LATER_FOLLOWERS: tuple[tuple[str, int, int, tuple[str, ...]], ...] = (
    ("past", triggers.LAST_WITH_FORMER_DIGESTS, 15, ("past_stay", "past_stay_build")),
    ("digests", triggers.LAST_WITH_FORMER_DIGESTS, 15, ("history_digest",)),
    ("epcis", triggers.LAST_WITH_FORMER_EPCIS, 14, ()),
    ("events", triggers.LAST_WITH_FORMER_LOG, 12, ()),
)
_COMPUTED = ("copy_digest",)  # tables that earlier releases fill themselves
# By table that earlier releases have: the last schema with it, and its rows. Kinds in `event_candidate`: 1 a track, 2
# an asset without one, 3 a record, 4 a passage, 5 sensor values; in `epcis_pending`: 1 a stay, 2 a load, 4 a passage.
_WAITING = {
    "event_candidate": (
        triggers.LAST_WITH_FORMER_LOG,
        "SELECT NULL, CASE kind WHEN 1 THEN 1 WHEN 12 THEN 2 WHEN 2 THEN 3 WHEN 8 THEN 4 ELSE 5 END, a FROM change "
        "WHERE seq > (SELECT position FROM follower WHERE name = 'events') "
        "AND (kind IN (1, 12, 13) OR kind IN (2, 8) AND c = 1) ORDER BY seq",
    ),
    "epcis_pending": (
        triggers.LAST_WITH_FORMER_EPCIS,
        "SELECT DISTINCT NULL, a, b / 1000 * 1000, min(before ->> 0, 4), c, 0 FROM change "
        "WHERE seq > (SELECT position FROM follower WHERE name = 'epcis') AND kind = 14",
    ),
}


# Former tables, which are views now, and the table that continues their numbers; then the tables that have their rows.
_FORMER_TABLES = {
    **dict.fromkeys(("event_destination", "channel", "output"), "destination"),
    "channel_message": "message",
    **dict.fromkeys(("event_retry", "event_attempt", "channel_file"), ""),
}
_SUCCESSORS = ("destination", "destination_retry", "destination_attempt", "message", "message_file")


def _put_views_aside(
    connection: sqlite3.Connection, present: set[SchemaObject], required: Mapping[str, str]
) -> Iterator[tuple[str, int]]:
    """Put the rows of former tables aside for `_rebuild`. Yields the number of those that have no table."""
    for item in present:
        if item.kind != "view":
            continue
        aside = f"{_ASIDE}{item.name}"
        if required.get(item.name) == "table":
            connection.execute(f'CREATE TABLE "{aside}" AS SELECT * FROM "{item.name}"')
            numbers = "INSERT INTO sqlite_sequence SELECT ?, seq FROM sqlite_sequence WHERE name = ?"
            connection.execute(numbers, (aside, _FORMER_TABLES[item.name]))
        elif item.name in _FORMER_TABLES and item.name not in required:
            yield item.name, _count(connection, item.name)
        connection.execute(f'DROP VIEW "{item.name}"')


def _drop_tables(
    connection: sqlite3.Connection, present: set[SchemaObject], kept: set[str]
) -> Iterator[tuple[str, int]]:
    # A virtual table goes first and takes its own tables along.
    for item in sorted(present, key=lambda item: "VIRTUAL" not in item.sql):
        if item.kind == "table" and item.name not in kept:
            exists = connection.execute("SELECT 1 FROM sqlite_schema WHERE name = ?", (item.name,)).fetchone()
            if exists:
                if item.name not in _SUCCESSORS:
                    yield item.name, _count(connection, item.name)
                connection.execute(f'DROP TABLE "{item.name}"')


def _leave_out_values(connection: sqlite3.Connection, number: int) -> dict[str, int]:
    """Replace or delete values that releases of schema `number` do not know. Returns the number of rows of each."""
    counts = {}
    for table, column, value, since, instead in NEWER_VALUES:
        if number < since and _columns(connection, table):
            change = f'DELETE FROM "{table}"' if instead is None else f'UPDATE "{table}" SET "{column}" = :instead'
            done = connection.execute(f'{change} WHERE "{column}" = :value', {"value": value, "instead": instead})
            counts[f"{table} {value}"] = done.rowcount
    return counts


def _unpack_reads(connection: sqlite3.Connection, number: int) -> None:
    """Give earlier releases the reads of the last minutes, by which they judge late ones."""
    if number < _PACKED_READS and "packed" in _columns(connection, "recent_read"):
        connection.create_function("unpacked", 1, zlib.decompress, deterministic=True)
        connection.execute("UPDATE recent_read SET reads = unpacked(packed), packed = x'' WHERE packed <> x''")


def _rebuild(connection: sqlite3.Connection, required: SchemaObject) -> None:
    """Give a table its earlier columns."""
    name, aside = required.name, f"{_ASIDE}{required.name}"
    if not _columns(connection, aside):
        if "VIRTUAL" in required.sql or not _columns(connection, name):
            raise SetupError(f"Table {name} was removed or replaced by a newer release")
        connection.execute(f'ALTER TABLE "{name}" RENAME TO "{aside}"')
    connection.execute(required.sql)
    newer = _columns(connection, aside)
    lost = [column for column in _columns(connection, name) if column not in newer]
    if lost:
        raise SetupError(f"Columns of {name} were removed by a newer release: {', '.join(lost)}")
    columns = ", ".join(f'"{column}"' for column in _columns(connection, name))
    connection.execute(f'INSERT INTO "{name}" ({columns}) SELECT {columns} FROM "{aside}"')
    # Numbers that were given once are never given again.
    connection.execute("DELETE FROM sqlite_sequence WHERE name = ?", (name,))
    connection.execute("UPDATE sqlite_sequence SET name = ? WHERE name = ?", (name, aside))
    connection.execute(f'DROP TABLE "{aside}"')


def _create(connection: sqlite3.Connection, required: set[SchemaObject]) -> None:
    """Create missing indexes, views and triggers."""
    present = {(item.kind, item.name) for item in migrate.schema_of(connection)}  # kinds may share a name
    for kind in ("index", "view", "trigger"):
        for item in sorted(required):
            if item.kind == kind and (kind, item.name) not in present:
                connection.execute(item.sql)


def _check_result(connection: sqlite3.Connection, required: set[SchemaObject], allowed: set[SchemaObject]) -> None:
    present = migrate.schema_of(connection)
    if not required <= present or not present <= allowed:
        names = ", ".join(sorted(item.name for item in (required - present) | (present - allowed))[:5])
        raise SetupError(f"The tables would differ from those of the earlier release: {names}")


def _columns(connection: sqlite3.Connection, table: str) -> list[str]:
    return [row[0] for row in connection.execute("SELECT name FROM pragma_table_info(?)", (table,))]


def _count(connection: sqlite3.Connection, table: str) -> int:
    count: int = connection.execute(f'SELECT count(*) FROM "{table}"').fetchone()[0]
    return count
