"""The last few messages of each reader that had reads: a new release must read them as the one before does."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from edge.clock import SECOND
from edge.database.connection import execute, execute_many

KEPT = 3  # of each reader
KEPT_BYTES = 16_384  # larger messages are not kept
EVERY = 60 * SECOND


class ReaderMessage(NamedTuple):
    reader_id: int
    topic: str
    payload: bytes
    received_at: int


class Keeper:
    """Keeps at most one message of each reader a minute. For one thread, within its transactions."""

    def __init__(self) -> None:
        self._minutes: dict[int, int] = {}

    def keep(self, messages: Iterable[ReaderMessage]) -> None:
        due: dict[int, ReaderMessage] = {}
        for message in messages:
            minute = message.received_at // EVERY
            if self._minutes.get(message.reader_id) != minute and len(message.payload) <= KEPT_BYTES:
                self._minutes[message.reader_id] = minute
                due[message.reader_id] = message
        if due:
            execute_many(_KEEP, [(one[0], one.received_at // EVERY % KEPT, *one[1:]) for one in due.values()])


_KEEP = """
    INSERT INTO reader_message (reader_id, slot, topic, payload, received_at) VALUES (?, ?, ?, ?, ?)
    ON CONFLICT DO UPDATE SET topic = excluded.topic, payload = excluded.payload, received_at = excluded.received_at
"""


def all_messages() -> list[ReaderMessage]:
    """Messages of all readers that are set up, the oldest first. For the trial of a release only."""
    rows = execute(
        "SELECT m.reader_id, m.topic, m.payload, m.received_at FROM reader_message AS m "
        "JOIN reader ON reader.id = m.reader_id "
        "WHERE reader.deleted_at IS NULL AND reader.is_enabled ORDER BY m.received_at, m.reader_id"
    )
    return [ReaderMessage(*row) for row in rows]
