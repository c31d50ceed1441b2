"""Recent messages with reads of each reader. An upgrade checks that the new release parses them like the old one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from edge.clock import SECOND
from edge.database.connection import execute, execute_many

KEPT = 3  # messages of each reader
KEPT_BYTES = 16_384  # larger messages are not kept
EVERY = 300 * SECOND


class ReaderMessage(NamedTuple):
    reader_id: int
    topic: str
    payload: bytes
    received_at: int


class Keeper:
    """Store at most one message of each reader every five minutes. Not thread-safe; use in a transaction."""

    def __init__(self) -> None:
        self._periods: dict[int, int] = {}

    def keep(self, messages: Iterable[ReaderMessage]) -> None:
        due: dict[int, ReaderMessage] = {}
        for message in messages:
            period = message.received_at // EVERY
            if self._periods.get(message.reader_id) != period and len(message.payload) <= KEPT_BYTES:
                self._periods[message.reader_id] = period
                due[message.reader_id] = message
        if due:
            rows = [(message[0], message.received_at // EVERY % KEPT, *message[1:]) for message in due.values()]
            execute_many(_KEEP, rows)


_KEEP = """
    INSERT INTO reader_message (reader_id, slot, topic, payload, received_at) VALUES (?, ?, ?, ?, ?)
    ON CONFLICT DO UPDATE SET topic = excluded.topic, payload = excluded.payload, received_at = excluded.received_at
"""


def all_messages() -> list[ReaderMessage]:
    """Return the messages of all enabled readers, oldest first. For the trial of a release only."""
    rows = execute(
        "SELECT m.reader_id, m.topic, m.payload, m.received_at FROM reader_message AS m "
        "JOIN reader ON reader.id = m.reader_id "
        "WHERE reader.deleted_at IS NULL AND reader.is_enabled ORDER BY m.received_at, m.reader_id"
    )
    return [ReaderMessage(*row) for row in rows]
