"""Messages on hold for a few seconds, until the offset of their reader's clock is decided.

They are already acknowledged, so they are stored on disk. `edge.ingest.reader_clock` limits their number and size.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from edge.database.connection import execute, execute_many
from edge.ingest.messages import HeldAs, Message, Opened
from edge.ingest.timing import newest_of, times_of
from edge.readers.ledger import Bucket

AT_ONCE = 100


class Outline(NamedTuple):
    reader_id: int
    topic: str
    received_at: int
    newest: int


def keep(opened: Sequence[Opened]) -> None:
    """Store those of the messages that are on hold, in the caller's transaction."""
    rows = []
    for item in opened:
        if item.bucket is Bucket.HELD and item.line and item.parsed:
            route, message = item.line.route, item.message
            newest = newest_of(times_of(item.parsed.reads, route.clock_setting))  # by the reader's clock
            rows.append((route.reader_id, message.topic, message.payload, item.received_at, newest))
    execute_many(
        "INSERT INTO held_message (reader_id, topic, payload, received_at, newest) VALUES (?, ?, ?, ?, ?)", rows
    )


def outlines() -> list[Outline]:
    """Return all held messages without their payloads, in order of arrival."""
    return [
        Outline(*row) for row in execute("SELECT reader_id, topic, received_at, newest FROM held_message ORDER BY no")
    ]


def first_of(reader_id: int, on_topic: str = "") -> list[Message]:
    """Return the first `AT_ONCE` messages of a reader, on one topic or on all."""
    rows = execute(
        "SELECT no, topic, payload, received_at FROM held_message WHERE reader_id = ?1 AND (?2 = '' OR topic = ?2) "
        "ORDER BY no LIMIT ?3",
        (reader_id, on_topic, AT_ONCE),
    )
    return [
        Message(topic, payload, received_at, held_as=HeldAs(no, reader_id)) for no, topic, payload, received_at in rows
    ]


def discard(numbers: Sequence[int]) -> None:
    """Delete messages by number, in the caller's transaction."""
    execute_many("DELETE FROM held_message WHERE no = ?", [(no,) for no in numbers])
