"""What became of every message: the ledger, what was set aside, and what nobody has set up yet.

Written by ingest within the transaction of the scans, so that the books always agree with the history.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import NamedTuple

from edge import clock
from edge.store.database import execute, execute_many

NO_READER = 0
SAMPLE_BYTES = 65_536  # there may be a thousand
PACKET_IDS = 65_535  # how many MQTT has


class Bucket(StrEnum):
    """Where a message, and where each of its reads, ends: in exactly one of these."""

    __hash__ = str.__hash__  # of an Enum it is a Python function, and the ledger asks several times for each read

    RECORDED = "recorded"
    REPEAT = "repeat"  # delivered again, or older than what the stay it belongs to already tells
    UNMATCHED_TAG = "unmatched_tag"
    AMBIGUOUS_TAG = "ambiguous_tag"
    NO_LOCATION = "no_location"
    FILTERED = "filtered"  # below the antenna's signal threshold, or the antenna is switched off
    MALFORMED = "malformed"
    UNKNOWN_TOPIC = "unknown_topic"
    STATUS = "status"  # a sign of life without reads
    IGNORED = "ignored"  # a shape that is neither
    RETAINED = "retained"  # the broker's memory, no news


class Tally(NamedTuple):
    reader_id: int
    hour: int
    bucket: Bucket


class DeadLetter(NamedTuple):
    organization_id: int
    reader_id: int
    topic: str
    payload: bytes
    reason: str
    received_at: int


class UnknownTag(NamedTuple):
    organization_id: int
    tag_type: str
    match_key: str
    reader_id: int
    value: str
    reason: str
    seen_at: int
    location_id: int | None


class Heard(NamedTuple):
    """The newest thing known of a reader."""

    reader_id: int
    heard_at: int
    read_at: int | None
    clock_offset: int | None
    qos: int
    note: str | None
    is_offline: bool


def add_to_ledger(messages: Mapping[Tally, int], reads: Mapping[Tally, int]) -> None:
    execute_many(
        "INSERT INTO ledger (reader_id, hour, bucket, messages, reads) VALUES (?, ?, ?, ?, ?) "
        "ON CONFLICT DO UPDATE SET messages = messages + excluded.messages, reads = reads + excluded.reads",
        [(*tally, messages.get(tally, 0), reads.get(tally, 0)) for tally in {**messages, **reads}],
    )


def set_aside(letters: Iterable[DeadLetter]) -> None:
    execute_many(
        "INSERT INTO dead_letter (organization_id, reader_id, topic, payload, reason, received_at) "
        "VALUES (?, ?, ?, ?, ?, ?)",
        list(letters),
    )


def take_up(letter_nos: Iterable[int]) -> None:
    """They were handed in again, and whatever became of them now is in the books."""
    execute_many("DELETE FROM dead_letter WHERE no = ?", [(no,) for no in letter_nos])


def note_unknown_tags(sightings: Iterable[UnknownTag]) -> None:
    execute_many(
        "INSERT INTO unknown_tag (organization_id, tag_type, match_key, reader_id, value, reason, first_seen_at, "
        "last_seen_at, sightings, location_id) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?7, 1, ?8) ON CONFLICT DO UPDATE "
        "SET last_seen_at = max(last_seen_at, excluded.last_seen_at), sightings = sightings + 1, "
        "reason = excluded.reason, location_id = excluded.location_id",
        list(sightings),
    )


def note_unclaimed(messages: Iterable[tuple[str, int, bytes]]) -> None:
    """(topic, received_at, payload) of messages that no reader claims; the newest payload is kept as a sample, and
    of a huge one its beginning."""
    execute_many(
        "INSERT INTO unclaimed_topic (topic, first_heard_at, last_heard_at, messages, sample) "
        "VALUES (?1, ?2, ?2, 1, ?3) ON CONFLICT DO UPDATE "
        "SET last_heard_at = excluded.last_heard_at, messages = messages + 1, sample = excluded.sample",
        [(topic, received_at, payload[:SAMPLE_BYTES]) for topic, received_at, payload in messages],
    )


def note_readers(heard: Iterable[Heard]) -> None:
    execute_many(
        "INSERT INTO reader_state (reader_id, last_heard_at, last_read_at, clock_offset, qos, note, is_offline) "
        "VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET last_heard_at = excluded.last_heard_at, "
        "last_read_at = coalesce(excluded.last_read_at, last_read_at), clock_offset = excluded.clock_offset, "
        "qos = excluded.qos, note = coalesce(excluded.note, note), is_offline = excluded.is_offline",
        list(heard),
    )


def note_antennas(read_at: Mapping[tuple[int, int], int]) -> None:
    """(reader, port) -> when it last read something; port 0 where the reader has no antennas."""
    execute_many(
        "INSERT INTO antenna_state (reader_id, port, last_read_at) VALUES (?, ?, ?) "
        "ON CONFLICT DO UPDATE SET last_read_at = excluded.last_read_at",
        [(*antenna, at) for antenna, at in read_at.items()],
    )


def keep_receipts(number: int, entries: bytes) -> None:
    """Of messages committed now and acknowledged afterwards; `number` counts them from the first one ever."""
    execute("INSERT INTO receipt (number, entries) VALUES (?, ?)", (number, entries))
    execute("DELETE FROM receipt WHERE number <= ?", (number - PACKET_IDS,))


def load_receipts() -> list[tuple[int, bytes]]:
    return list(execute("SELECT number, entries FROM receipt ORDER BY number"))


def newest_scan() -> int:
    """Time of the newest scan on this box, 0 when there is none."""
    newest: int | None = execute("SELECT max(last_seen_at) FROM position").fetchone()[0]
    return newest or 0


def clock_offsets() -> dict[int, int]:
    """The constant offset of each reader's clock that was known when it was last heard."""
    return dict(execute("SELECT reader_id, clock_offset FROM reader_state WHERE clock_offset IS NOT NULL").fetchall())


def hour_of(received_at: int) -> int:
    return received_at // clock.HOUR


def reader_states(organization_id: int) -> dict[int, Heard]:
    """What is known of each reader of an organization that was ever heard, by its id."""
    rows = execute(
        "SELECT s.reader_id, s.last_heard_at, s.last_read_at, s.clock_offset, s.qos, s.note, s.is_offline "
        "FROM reader_state s JOIN reader r ON r.id = s.reader_id WHERE r.organization_id = ?",
        (organization_id,),
    )
    return {row[0]: Heard(*row)._replace(is_offline=bool(row[6])) for row in rows}


def totals(reader_id: int, since_hour: int) -> list[tuple[str, int, int]]:
    """(bucket, messages, reads) of a reader since that hour, the fullest bucket first."""
    return list(
        execute(
            "SELECT bucket, sum(messages), sum(reads) FROM ledger WHERE reader_id = ? AND hour >= ? "
            "GROUP BY bucket ORDER BY sum(messages) DESC, bucket",
            (reader_id, since_hour),
        )
    )
