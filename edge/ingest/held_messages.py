"""Messages on hold for a few seconds, until the offset of their reader's clock is decided.

They are already acknowledged, so they are stored on disk. `edge.ingest.reader_clock` limits their number and size.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from edge.database.connection import execute, execute_many

AT_ONCE = 100


class NewHeld(NamedTuple):
    """A message to hold. `newest`: its newest read by the reader's clock, in microseconds since the epoch."""

    reader_id: int
    topic: str
    payload: bytes
    received_at: int
    newest: int


class Held(NamedTuple):
    no: int
    topic: str
    payload: bytes
    received_at: int


class Outline(NamedTuple):
    reader_id: int
    topic: str
    received_at: int
    newest: int


def keep(messages: Iterable[NewHeld]) -> None:
    """Store messages in the caller's transaction."""
    execute_many(
        "INSERT INTO held_message (reader_id, topic, payload, received_at, newest) VALUES (?, ?, ?, ?, ?)",
        list(messages),
    )


def outlines() -> list[Outline]:
    """Return all held messages without their payloads, in order of arrival."""
    return [
        Outline(*row) for row in execute("SELECT reader_id, topic, received_at, newest FROM held_message ORDER BY no")
    ]


def first_of(reader_id: int, topic: str = "") -> list[Held]:
    """Return the first `AT_ONCE` messages of a reader, on one topic or on all."""
    return [
        Held(*row)
        for row in execute(
            "SELECT no, topic, payload, received_at FROM held_message WHERE reader_id = ?1 AND (?2 = '' OR topic = ?2) "
            "ORDER BY no LIMIT ?3",
            (reader_id, topic, AT_ONCE),
        )
    ]


def discard(numbers: Sequence[int]) -> None:
    """Delete messages by number, in the caller's transaction."""
    execute_many("DELETE FROM held_message WHERE no = ?", [(no,) for no in numbers])
