"""Ledger of each reader: every message and every read is counted in exactly one bucket.

Ingest writes it in the transaction of the scans, so it always agrees with the history.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import NamedTuple

from edge import clock
from edge.database.connection import execute, execute_many, scalar, stream, writing
from edge.readers.readers import get_reader

NO_READER = 0


class Bucket(StrEnum):
    """Outcome of a message or a read."""

    __hash__ = str.__hash__  # Enum.__hash__ is a slow Python function, called several times for each read

    RECORDED = "recorded"
    REPEAT = "repeat"  # delivered again, or within a recorded stay
    UNMATCHED_TAG = "unmatched_tag"
    AMBIGUOUS_TAG = "ambiguous_tag"
    NO_LOCATION = "no_location"
    FILTERED = "filtered"  # below the antenna's signal threshold, or the antenna is disabled
    MALFORMED = "malformed"
    TOO_LARGE = "too_large"  # over 1 MiB
    UNKNOWN_TOPIC = "unknown_topic"
    STATUS = "status"  # a message without reads that shows that the reader is online
    IGNORED = "ignored"  # not recognized by the reader's format
    HELD = "held"  # on hold for some seconds, until the offset of the reader's clock is decided
    DROPPED = "dropped"  # dropped by the broker, which reports only a total for all readers
    RETAINED = "retained"  # an old message that the broker stores for new subscribers


class Tally(NamedTuple):
    reader_id: int
    hour: int
    bucket: Bucket


class Hour(NamedTuple):
    """One hour of a reader's ledger. `buckets`: (messages, reads). `not_kept`: number counted but not stored."""

    starts_at: int
    buckets: dict[str, tuple[int, int]]
    not_kept: int = 0

    @property
    def messages(self) -> int:
        return sum(messages for messages, _ in self.buckets.values())

    @property
    def reads(self) -> int:
        return sum(reads for _, reads in self.buckets.values())


def add(
    messages: Mapping[Tally, int], reads: Mapping[Tally, int], not_kept: Mapping[Tally, int] = MappingProxyType({})
) -> None:
    """Add numbers to the ledger, in the caller's transaction.

    `not_kept`: number of messages or tags that were not stored for review because of a limit (`database.bounds`).
    """
    execute_many(
        "INSERT INTO ledger (reader_id, hour, bucket, messages, reads, not_kept) VALUES (?, ?, ?, ?, ?, ?) "
        "ON CONFLICT DO UPDATE SET messages = messages + excluded.messages, reads = reads + excluded.reads, "
        "not_kept = not_kept + excluded.not_kept",
        [
            (*tally, messages.get(tally, 0), reads.get(tally, 0), not_kept.get(tally, 0))
            for tally in {**messages, **reads, **not_kept}
        ],
    )


def subtract(messages: Mapping[Tally, int], reads: Mapping[Tally, int]) -> None:
    """Add negative numbers for messages that moved to another bucket, and delete empty buckets."""
    add(messages, reads)
    execute_many(
        "DELETE FROM ledger WHERE reader_id = ? AND messages <= 0 AND reads <= 0",
        [(reader_id,) for reader_id in {tally.reader_id for tally in messages}],
    )


def note_dropped(total: int) -> int:
    """Count the messages dropped by the broker since the last call. Returns their number.

    `total`: number since the start of the broker. The first call counts nothing, because the time of those is unknown.
    """
    row = execute("SELECT counted FROM broker_drops").fetchone()
    if row == (total,):
        return 0
    more = 0 if row is None else total - row[0] if total >= row[0] else total  # lower: the broker was restarted
    with writing():
        execute("INSERT INTO broker_drops VALUES (1, ?) ON CONFLICT DO UPDATE SET counted = excluded.counted", (total,))
        if more:
            add({Tally(NO_READER, hour_of(clock.now()), Bucket.DROPPED): more}, {})
    return more


def dropped(hours_ago: int = 24) -> int:
    """Return the number of messages that the broker dropped in the last hours, as counted by `note_dropped`."""
    return scalar(
        "SELECT ifnull(sum(messages), 0) FROM ledger WHERE reader_id = ? AND bucket = ? AND hour > ?",
        (NO_READER, Bucket.DROPPED, hour_of(clock.now()) - hours_ago),
    )


def hour_of(received_at: int) -> int:
    """Return the hour of a time, in hours since the epoch."""
    return received_at // clock.HOUR


def hours(organization_id: int, reader_id: int, count: int = 24) -> list[Hour]:
    """Return the last `count` hours, newest first, without empty hours. Raises NotFound."""
    get_reader(organization_id, reader_id)
    by_hour: dict[int, dict[str, tuple[int, int]]] = {}
    not_kept: Counter[int] = Counter()
    rows = execute(
        "SELECT hour, bucket, messages, reads, not_kept FROM ledger WHERE reader_id = ? AND hour > ? "
        "ORDER BY hour DESC, bucket",
        (reader_id, hour_of(clock.now()) - count),
    )
    for hour, bucket, messages, reads, beyond in rows:
        by_hour.setdefault(hour, {})[bucket] = (messages, reads)
        not_kept[hour] += beyond
    return [Hour(hour * clock.HOUR, buckets, not_kept[hour]) for hour, buckets in by_hour.items()]


def totals(reader_id: int, since_hour: int) -> list[tuple[str, int, int]]:
    """Return (bucket, messages, reads) of a reader since an hour, most messages first."""
    return list(
        execute(
            "SELECT bucket, sum(messages), sum(reads) FROM ledger WHERE reader_id = ? AND hour >= ? "
            "GROUP BY bucket ORDER BY sum(messages) DESC, bucket",
            (reader_id, since_hour),
        )
    )


class ExportRow(NamedTuple):
    """One bucket of one hour of a reader's ledger; `hour` counts from the epoch."""

    reader_name: str
    hour: int
    bucket: str
    messages: int
    reads: int


_EXPORT = """
SELECT r.name, b.hour, b.bucket, b.messages, b.reads FROM reader r JOIN ledger b ON b.reader_id = r.id
WHERE r.organization_id = ? AND b.hour >= ? AND b.hour < ? ORDER BY r.name, b.hour, b.bucket
"""


def export_rows(organization_id: int, *, since: int, until: int) -> Iterator[ExportRow]:
    """Yield the ledger of all readers, reader by reader, oldest hour first."""
    for row in stream(_EXPORT, (organization_id, hour_of(since), hour_of(until) + 1)):
        yield ExportRow(*row)
