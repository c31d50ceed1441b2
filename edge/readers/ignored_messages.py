"""Recent messages of each reader that its format does not recognize, usually because the wrong format is set."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from edge.database.connection import execute, execute_many
from edge.readers.readers import get_reader

KEPT = 5  # messages of each reader
KEPT_BYTES = 16_384  # bytes of each message


class IgnoredMessage(NamedTuple):
    reader_id: int
    topic: str
    payload: bytes  # truncated
    size: int  # bytes of the whole message
    note: str | None
    received_at: int


def record(messages: Iterable[IgnoredMessage]) -> None:
    """Store messages and delete all but the newest of each reader, in the caller's transaction."""
    new = list(messages)
    execute_many(
        "INSERT INTO ignored_message (reader_id, topic, payload, size, note, received_at) VALUES (?, ?, ?, ?, ?, ?)",
        new,
    )
    execute_many(_DROP_OLDER, [(reader_id, reader_id, KEPT) for reader_id in {message.reader_id for message in new}])


_DROP_OLDER = """
    DELETE FROM ignored_message WHERE reader_id = ? AND no <= (
        SELECT no FROM ignored_message WHERE reader_id = ? ORDER BY no DESC LIMIT 1 OFFSET ?)
"""
_COLUMNS = "reader_id, topic, payload, size, note, received_at"


def list_messages(organization_id: int, reader_id: int) -> list[IgnoredMessage]:
    """Return the ignored messages of a reader, newest first. Raises NotFound."""
    get_reader(organization_id, reader_id)
    sql = f"SELECT {_COLUMNS} FROM ignored_message WHERE reader_id = ? ORDER BY no DESC"
    return [IgnoredMessage(*row) for row in execute(sql, (reader_id,))]


class ReaderIgnored(NamedTuple):
    """A reader with ignored messages, and the newest of them."""

    reader_name: str
    newest: IgnoredMessage


def newest_of_each(received_since: int) -> list[ReaderIgnored]:
    """Return readers of all organizations with ignored messages since a time. For the operator only."""
    return [ReaderIgnored(name, IgnoredMessage(*row)) for name, *row in execute(_NEWEST, (received_since,))]


_NEWEST = f"""
    SELECT r.name, i.{_COLUMNS.replace(", ", ", i.")} FROM ignored_message i
    JOIN reader r ON r.id = i.reader_id AND r.deleted_at IS NULL AND r.is_enabled
    WHERE i.received_at >= ?
      AND i.no = (SELECT max(no) FROM ignored_message AS newer WHERE newer.reader_id = i.reader_id)
    ORDER BY r.name
"""
