"""The ledger of each reader: every message, and every read in it, ends in exactly one bucket.

Written by ingest within the transaction of the scans, so that the ledger always agrees with the history.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import NamedTuple

from edge import clock
from edge.database.connection import execute, execute_many, stream, writing
from edge.readers.readers import get_reader

NO_READER = 0


class Bucket(StrEnum):
    """Where a message, and where each of its reads, ends: in exactly one of these."""

    __hash__ = str.__hash__  # of an Enum it is a Python function, and the ledger asks several times for each read

    RECORDED = "recorded"
    REPEAT = "repeat"  # delivered again, or within a stay that is already known
    UNMATCHED_TAG = "unmatched_tag"
    AMBIGUOUS_TAG = "ambiguous_tag"
    NO_LOCATION = "no_location"
    FILTERED = "filtered"  # below the antenna's signal threshold, or the antenna is disabled
    MALFORMED = "malformed"
    TOO_LARGE = "too_large"  # over 1 MiB, which is more than any reader sends at once
    UNKNOWN_TOPIC = "unknown_topic"
    STATUS = "status"  # a sign of life without reads
    IGNORED = "ignored"  # a shape that the reader's format does not know
    HELD = "held"  # for some seconds, until it is known how far the reader's clock is off
    DROPPED = "dropped"  # by the broker, so that it never came here; of no reader, since the broker says only how many
    RETAINED = "retained"  # an old message that the broker keeps for new subscribers


class Tally(NamedTuple):
    reader_id: int
    hour: int
    bucket: Bucket


class Hour(NamedTuple):
    """One hour of a reader's ledger: (messages, reads) in each bucket, and how many of them are only counted."""

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
    """`not_kept`: how many of them are only counted, because there was no room to keep more (`database.bounds`)."""
    execute_many(
        "INSERT INTO ledger (reader_id, hour, bucket, messages, reads, not_kept) VALUES (?, ?, ?, ?, ?, ?) "
        "ON CONFLICT DO UPDATE SET messages = messages + excluded.messages, reads = reads + excluded.reads, "
        "not_kept = not_kept + excluded.not_kept",
        [
            (*tally, messages.get(tally, 0), reads.get(tally, 0), not_kept.get(tally, 0))
            for tally in {**messages, **reads, **not_kept}
        ],
    )


def strike(messages: Mapping[Tally, int], reads: Mapping[Tally, int]) -> None:
    """Subtract, with negative numbers, what is counted elsewhere now; empty buckets are deleted."""
    add(messages, reads)
    execute_many(
        "DELETE FROM ledger WHERE reader_id = ? AND messages <= 0 AND reads <= 0",
        [(reader_id,) for reader_id in {tally.reader_id for tally in messages}],
    )


def note_dropped(total: int) -> int:
    """Count what the broker has dropped since it was asked last; `total` is since its start. Returns how many.

    What it had dropped when it was first asked is not counted: nobody knows when that was.
    """
    found = execute("SELECT counted FROM broker_drops").fetchone()
    if found == (total,):
        return 0
    more = 0 if found is None else total - found[0] if total >= found[0] else total  # it has started again
    with writing():
        execute("INSERT INTO broker_drops VALUES (1, ?) ON CONFLICT DO UPDATE SET counted = excluded.counted", (total,))
        if more:
            add({Tally(NO_READER, hour_of(clock.now()), Bucket.DROPPED): more}, {})
    return more


def dropped(hours_ago: int = 24) -> int:
    """Number of messages that the broker has dropped in the last hours, as far as it was asked."""
    count: int = execute(
        "SELECT ifnull(sum(messages), 0) FROM ledger WHERE reader_id = ? AND bucket = ? AND hour > ?",
        (NO_READER, Bucket.DROPPED, hour_of(clock.now()) - hours_ago),
    ).fetchone()[0]
    return count


def hour_of(received_at: int) -> int:
    return received_at // clock.HOUR


def hours(organization_id: int, reader_id: int, count: int = 24) -> list[Hour]:
    """The newest hour first; hours without a message are left out. Raises NotFound."""
    get_reader(organization_id, reader_id)
    found: dict[int, dict[str, tuple[int, int]]] = {}
    not_kept: Counter[int] = Counter()
    rows = execute(
        "SELECT hour, bucket, messages, reads, not_kept FROM ledger WHERE reader_id = ? AND hour > ? "
        "ORDER BY hour DESC, bucket",
        (reader_id, hour_of(clock.now()) - count),
    )
    for hour, bucket, messages, reads, beyond in rows:
        found.setdefault(hour, {})[bucket] = (messages, reads)
        not_kept[hour] += beyond
    return [Hour(hour * clock.HOUR, buckets, not_kept[hour]) for hour, buckets in found.items()]


def totals(reader_id: int, since_hour: int) -> list[tuple[str, int, int]]:
    """(bucket, messages, reads) of a reader since that hour, the fullest bucket first."""
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
