"""Status of readers and antennas: last message, last read, clock. Written by ingest."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from edge import clock
from edge.database.bounds import MOST_PORTS
from edge.database.connection import execute, execute_many, reading, scalar
from edge.readers import unknown_tags
from edge.readers.ledger import hour_of
from edge.readers.readers import get_reader

ANTENNA_EVERY = 60 * clock.SECOND


class ReaderStatus(NamedTuple):
    """Latest state of a reader. `clock_offset`: microseconds. `qos`: of its last message."""

    reader_id: int
    received_at: int
    read_at: int | None
    clock_offset: int | None
    qos: int
    note: str | None
    is_offline: bool
    clock_stands_at: int | None = None  # time of a stopped clock


class ReaderState(NamedTuple):
    """State of a reader for lists.

    `messages` and `reads`: in the last `minutes` (this hour and the previous one, or since setup). `not_understood`:
    number of those messages that its format does not recognize or cannot parse. `unplaced`: number of active antennas
    without a location; the operator of a sled chooses it.
    """

    id: int
    name: str
    topic: str
    format: str
    is_enabled: bool
    location_id: int | None
    location_name: str | None
    last_received_at: int | None
    last_read_at: int | None
    clock_offset: int | None
    qos: int | None
    note: str | None
    is_offline: bool
    messages: int
    not_understood: int
    reads: int
    minutes: int
    unplaced: int
    clock_stands_at: int | None


class AntennaState(NamedTuple):
    """State of an antenna. `is_own`: the antenna has its own settings; otherwise those of its reader apply."""

    port: int
    name: str | None
    is_own: bool
    location_id: int | None
    location_name: str | None
    min_rssi: float | None
    is_enabled: bool
    last_read_at: int | None

    @property
    def label(self) -> str:
        return self.name or str(self.port)


def record_readers(statuses: Iterable[ReaderStatus]) -> None:
    """Update the status of readers, in the caller's transaction. A None in `read_at` or `note` keeps the old value."""
    execute_many(
        "INSERT INTO reader_state (reader_id, last_heard_at, last_read_at, clock_offset, qos, note, is_offline, "
        "clock_stands_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET "
        "last_heard_at = excluded.last_heard_at, is_offline = excluded.is_offline, "
        "last_read_at = coalesce(excluded.last_read_at, last_read_at), clock_offset = excluded.clock_offset, "
        "clock_stands_at = excluded.clock_stands_at, qos = excluded.qos, note = coalesce(excluded.note, note)",
        list(statuses),
    )


def record_offsets(offsets: Mapping[int, int | None]) -> None:
    """Update clock offsets (microseconds) that were decided after the messages were received."""
    execute_many(
        "UPDATE reader_state SET clock_offset = ? WHERE reader_id = ?",
        [(offset, reader_id) for reader_id, offset in offsets.items()],
    )


def record_antennas(read_at: Mapping[tuple[int, int], int]) -> None:
    """Update the last read of each antenna. `read_at`: {(reader, port): time}; port 0 if the reader has no antennas.

    It may lag by `ANTENNA_EVERY`, since each write wears an SD card. Stores at most `MOST_PORTS` ports of a reader.
    """
    execute_many(
        "INSERT INTO antenna_state (reader_id, port, last_read_at) SELECT ?1, ?2, ?3 "
        "WHERE EXISTS (SELECT 1 FROM antenna_state WHERE reader_id = ?1 AND port = ?2) "
        f"OR (SELECT count(*) FROM antenna_state WHERE reader_id = ?1) < {MOST_PORTS} "
        "ON CONFLICT DO UPDATE SET last_read_at = excluded.last_read_at "
        f"WHERE excluded.last_read_at NOT BETWEEN last_read_at AND last_read_at + {ANTENNA_EVERY}",
        [(*antenna, at) for antenna, at in sorted(read_at.items())],
    )


def statuses(organization_id: int) -> dict[int, ReaderStatus]:
    """Return the status of each reader with at least one message, by reader ID."""
    rows = execute(
        "SELECT s.reader_id, s.last_heard_at, s.last_read_at, s.clock_offset, s.qos, s.note, s.is_offline, "
        "s.clock_stands_at FROM reader_state s JOIN reader r ON r.id = s.reader_id WHERE r.organization_id = ?",
        (organization_id,),
    )
    return {row[0]: ReaderStatus(*row)._replace(is_offline=bool(row[6])) for row in rows}


# Time of the last message of reader `r` with the state `s`, also of one that its format does not understand.
LAST_MESSAGE = """
    nullif(max(ifnull(s.last_heard_at, 0),
               ifnull((SELECT received_at FROM dead_letter WHERE reader_id = r.id ORDER BY no DESC LIMIT 1), 0),
               ifnull((SELECT received_at FROM ignored_message WHERE reader_id = r.id ORDER BY no DESC LIMIT 1), 0)), 0)
"""
_STATES = f"""
SELECT r.id, r.name, r.topic, r.format, r.is_enabled, l.id, l.name, {LAST_MESSAGE}, s.last_read_at, s.clock_offset,
       s.qos, s.note, ifnull(s.is_offline, 0), ifnull(sum(b.messages), 0),
       ifnull(sum(b.messages) FILTER (WHERE b.bucket IN ('ignored', 'malformed', 'too_large')), 0),
       ifnull(sum(b.reads), 0),
       max(1, (:now - max(:since, r.created_at)) / 60000000),
       (SELECT count(*) FROM antenna_state h LEFT JOIN antenna a ON a.reader_id = h.reader_id AND a.port = h.port
        LEFT JOIN location p ON p.id = ifnull(a.location_id, r.location_id) AND p.deleted_at IS NULL
        WHERE h.reader_id = r.id AND p.id IS NULL AND ifnull(a.is_enabled, 1)
          AND r.id NOT IN (SELECT reader_id FROM sled)),
       s.clock_stands_at
FROM reader r
LEFT JOIN location l ON l.id = r.location_id AND l.deleted_at IS NULL
LEFT JOIN reader_state s ON s.reader_id = r.id
LEFT JOIN ledger b ON b.reader_id = r.id AND b.hour >= :since / 3600000000
WHERE r.organization_id = :organization_id AND r.deleted_at IS NULL
GROUP BY r.id ORDER BY r.name
"""


def list_states(organization_id: int) -> list[ReaderState]:
    """Return the state of all live readers of an organization by name."""
    now = clock.now()
    since = (hour_of(now) - 1) * clock.HOUR
    rows = execute(_STATES, {"organization_id": organization_id, "now": now, "since": since})
    return [ReaderState._make(row) for row in rows.fetchall()]


def reads_per_minute(organization_id: int) -> int:
    """Return the average of all readers of an organization in this hour and the previous one."""
    now = clock.now()
    first = hour_of(now) - 1
    reads: int = execute(
        "SELECT ifnull(sum(b.reads), 0) FROM reader r JOIN ledger b ON b.reader_id = r.id AND b.hour >= ? "
        "WHERE r.organization_id = ? AND r.deleted_at IS NULL",
        (first, organization_id),
    ).fetchone()[0]
    return reads * 60 * clock.SECOND // max(now - first * clock.HOUR, 1)


_ANTENNAS = """
WITH port (port) AS (
    SELECT port FROM antenna WHERE reader_id = :id UNION SELECT port FROM antenna_state WHERE reader_id = :id
)
SELECT port.port, n.name, a.port IS NOT NULL, l.id, l.name, ifnull(a.min_rssi, r.min_rssi),
       ifnull(a.is_enabled, 1) AND r.is_enabled, s.last_read_at
FROM port
JOIN reader r ON r.id = :id
LEFT JOIN antenna a ON a.reader_id = :id AND a.port = port.port
LEFT JOIN antenna_state s ON s.reader_id = :id AND s.port = port.port
LEFT JOIN antenna_name n ON n.reader_id = :id AND n.port = port.port
LEFT JOIN location l ON l.id = ifnull(a.location_id, r.location_id) AND l.deleted_at IS NULL
ORDER BY n.name, port.port
"""


def antennas(organization_id: int, reader_id: int) -> list[AntennaState]:
    """Return the configured antennas and those with reads; port 0: reader without antennas. Raises NotFound."""
    get_reader(organization_id, reader_id)
    return [AntennaState(*row) for row in execute(_ANTENNAS, {"id": reader_id})]


class InboxCounts(NamedTuple):
    """Number of items that need attention."""

    topics: int
    unknown_tags: int
    dead_letters: int


def inbox_counts(organization_id: int) -> InboxCounts:
    """Count the unassigned topics, unknown tags and dead letters of an organization."""
    with reading():
        return InboxCounts(
            _count("unassigned_topic", organization_id),
            unknown_tags.count_tags(organization_id),
            _count("dead_letter", organization_id),
        )


def _count(table: str, organization_id: int) -> int:
    return scalar(f"SELECT count(*) FROM {table} WHERE organization_id = ?", (organization_id,))
