"""Figures of the whole box, across organizations. For its operator only, never for a page or the API of one."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import NamedTuple

from edge.clock import HOUR
from edge.database.connection import column, database, execute, reading, scalar, translating
from edge.errors import Damaged
from edge.readers.status import LAST_MESSAGE
from edge.tracking import report


class ReaderFigure(NamedTuple):
    reader_id: int
    name: str
    organization: str
    is_enabled: bool
    last_received_at: int | None
    clock_setting: str
    clock_offset: int | None
    qos: int | None
    is_offline: bool
    clock_stands_at: int | None


def reader_figures() -> list[ReaderFigure]:
    return [ReaderFigure(*row) for row in execute(_READERS)]


_READERS = f"""
    SELECT r.id, r.name, organization.name, is_enabled, {LAST_MESSAGE}, clock_setting, clock_offset, qos,
           ifnull(is_offline, 0), clock_stands_at
    FROM reader r JOIN organization ON organization.id = r.organization_id
    LEFT JOIN reader_state s ON s.reader_id = r.id
    WHERE deleted_at IS NULL ORDER BY organization.name, r.name
"""


def reader_totals(since_hour: int) -> list[tuple[str, int, int]]:
    """Return (name, messages, recorded or repeated reads) of all readers, and of all formats, since that hour.

    Names across all organizations. For the probation of a release only.
    """
    return execute(_TOTALS, (since_hour,)).fetchall()


_TOTALS = """
    WITH total AS (
        SELECT reader.name, reader.format, reader.organization_id, sum(ledger.messages) AS messages,
               sum(CASE WHEN ledger.bucket IN ('recorded', 'repeat', 'held') THEN ledger.reads ELSE 0 END) AS recorded
        FROM ledger JOIN reader ON reader.id = ledger.reader_id WHERE ledger.hour >= ? GROUP BY reader.id)
    SELECT 'reader ' || total.name || ' of ' || organization.name, messages, recorded
    FROM total JOIN organization ON organization.id = total.organization_id
    UNION ALL SELECT 'format ' || format, sum(messages), sum(recorded) FROM total GROUP BY format
"""


def damaged_records(first: int, last: int) -> list[tuple[str, str]]:
    """Return (kind, external_key) of records that lists cannot show: times outside the range, or invalid metadata."""
    times = ("valid_from", "ifnull(valid_to, 0)", "created_at", "updated_at", "ifnull(deleted_at, 0)")
    is_odd = " OR ".join(f"{column} NOT BETWEEN ?1 AND ?2" for column in times)
    return execute(
        f"SELECT 'asset', external_key FROM asset WHERE {is_odd} OR NOT json_valid(metadata) "
        f"UNION ALL SELECT 'location', external_key FROM location WHERE {is_odd} LIMIT 20",
        (first, last),
    ).fetchall()


def unplaced_antennas(since: int) -> list[tuple[str, str]]:
    """Return (reader, antenna) of antennas without a location that have read since that time."""
    return execute(_UNPLACED, (since,)).fetchall()


def sleds_without_operator() -> list[str]:
    """Return the sleds of people who can no longer scan, and of revoked handhelds."""
    return column(_WITHOUT_OPERATOR)


_WITHOUT_OPERATOR = """
    SELECT reader.name FROM sled JOIN reader ON reader.id = sled.reader_id AND reader.is_enabled
    LEFT JOIN person ON person.id = sled.person_id AND person.disabled_at IS NULL AND person.role <> 'viewer'
    LEFT JOIN device ON device.id = sled.device_id AND device.revoked_at IS NULL
    WHERE person.id IS NULL AND device.id IS NULL ORDER BY reader.name
"""
_UNPLACED = """
    SELECT reader.name, ifnull(antenna_name.name, state.port) FROM antenna_state AS state
    JOIN reader ON reader.id = state.reader_id AND reader.deleted_at IS NULL AND reader.is_enabled
    LEFT JOIN antenna ON antenna.reader_id = state.reader_id AND antenna.port = state.port
    LEFT JOIN antenna_name ON antenna_name.reader_id = state.reader_id AND antenna_name.port = state.port
    LEFT JOIN location ON location.id = ifnull(antenna.location_id, reader.location_id)
    WHERE state.last_read_at >= ? AND ifnull(antenna.is_enabled, 1) AND reader.id NOT IN (SELECT reader_id FROM sled)
      AND (location.id IS NULL OR location.deleted_at IS NOT NULL)
    ORDER BY reader.name, state.port
"""


def unassigned_topics(since: int) -> list[tuple[str, bool, bytes]]:
    """Return (topic, whether an organization owns it, newest message or its beginning), most messages first."""
    return [
        (topic, bool(is_owned), sample)
        for topic, is_owned, sample in execute(
            "SELECT topic, organization_id IS NOT NULL, sample FROM unassigned_topic WHERE last_heard_at >= ? "
            "ORDER BY messages DESC",
            (since,),
        )
    ]


def dead_letters(received_since: int) -> int:
    return scalar("SELECT count(*) FROM dead_letter WHERE received_at >= ?", (received_since,))


def unreadable_readers(received_since: int) -> list[str]:
    """Return the names of readers with dead letters since that time."""
    return column(
        "SELECT DISTINCT r.name FROM dead_letter d JOIN reader r ON r.id = d.reader_id WHERE d.received_at >= ? "
        "ORDER BY r.name",
        (received_since,),
    )


def retaining_readers(since: int) -> list[str]:
    """Return the names of readers whose retained messages the broker has delivered since that time."""
    return column(
        "SELECT DISTINCT reader.name FROM ledger JOIN reader ON reader.id = reader_id WHERE bucket = 'retained' "
        "AND hour >= ? AND deleted_at IS NULL ORDER BY 1",
        (since // HOUR,),
    )


def messages_by_session(since: int) -> dict[int, int]:
    """Return the number of messages by edge's session at the broker, which has a queue for each."""
    rows = execute(
        "SELECT ifnull(session, 0), sum(messages) FROM ledger LEFT JOIN broker_account USING (reader_id) "
        "WHERE hour >= ? GROUP BY 1",
        (since // HOUR,),
    )
    return dict(rows.fetchall())


def administrators() -> int:
    return scalar("SELECT count(*) FROM person WHERE role = 'administrator' AND disabled_at IS NULL")


def faults(limit: int = 3) -> list[str]:
    """Read the whole file and return its integrity errors; empty if it is sound."""
    try:
        with translating():
            faults = column(f"PRAGMA integrity_check({limit:d})")
    except Damaged as error:  # too damaged to run the check
        return [str(error.__cause__)]
    return [] if faults == ["ok"] else faults


def count_live(tables: list[str]) -> dict[str, int]:
    """Count the rows of these tables, including soft-deleted ones."""
    return {table: execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in tables}


class Storage(NamedTuple):
    database_bytes: int
    disk_free_bytes: int
    disk_bytes: int


class Counts(NamedTuple):
    assets: int
    locations: int
    history_rows: int


def storage() -> Storage:
    """Return the size of the database with its write-ahead log, and of its disk."""
    path = Path(database.database)
    size = sum(part.stat().st_size for part in (path, path.with_name(path.name + "-wal")) if part.exists())
    disk = shutil.disk_usage(path.parent)
    return Storage(size, disk.free, disk.total)


def counts(organization_id: int) -> Counts:
    with reading():
        assets, locations = (
            execute(
                f"SELECT count(*) FROM {table} WHERE organization_id = ? AND deleted_at IS NULL", (organization_id,)
            ).fetchone()[0]
            for table in ("asset", "location")
        )
        return Counts(assets, locations, report.count_stays(organization_id))
