"""Messages that wait to be sent, by channel.

A message is written in the transaction that decides on the alert and deleted after it was sent, so neither a crash nor
an outage of the mail server loses it. A crash in between sends it again under the same number.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

from edge.database.connection import column, execute, execute_many, insert, scalar, writing
from edge.events.family import Destination
from edge.events.progress import DUE

MOST_WAITING = 2_000  # per channel
MOST_FILES = 20  # per channel
MAX_SUBJECT = 250
MAX_TEXT = 2_000


class Message(NamedTuple):
    """A message about one alert. `is_late`: the rule decided long after `occurred_at` (µs), for example by late reads.

    `is_over` marks the second message, which says that the condition has ended. Subject and text may contain anything
    that users and readers entered; channels clean and escape them.
    """

    subject: str
    text: str
    rule_no: int
    alert_no: int | None
    asset_id: int | None
    occurred_at: int
    is_over: bool
    is_late: bool


class Attachment(NamedTuple):
    """A file that a message brings. Channels for email send it."""

    name: str
    content: bytes


class Waiting(NamedTuple):
    """A message in the outbox. `number` stays the same in all attempts."""

    number: int
    enqueued_at: int
    attempts: int
    message: Message
    has_file: bool = False


def enqueue(
    organization_id: int, channel_no: int, message: Message, now: int, attachment: Attachment | None = None
) -> None:
    """Add a message to the outbox, in the caller's transaction.

    Does nothing if the channel was removed or disabled, or does not send second messages. Beyond the limit, the oldest
    message is dropped and counted as lost.
    """
    with writing():
        channel = execute(
            "SELECT id FROM destination WHERE family = 'channel' AND no = ? AND organization_id = ? "
            "AND disabled_at IS NULL AND (settings ->> 'is_sent_when_over' OR NOT ?)",
            (channel_no, organization_id, message.is_over),
        ).fetchone()
        if not channel:
            return
        limited = message._replace(subject=message.subject[:MAX_SUBJECT], text=message.text[:MAX_TEXT])
        columns = {"destination_id": channel[0], "enqueued_at": now, **limited._asdict()}
        (number,) = insert("message", columns, "RETURNING no").fetchone()
        if attachment:
            insert("message_file", {"message_no": number, **attachment._asdict()})
            _drop(channel[0], "no IN (SELECT message_no FROM message_file)", MOST_FILES)
        _drop(channel[0], "TRUE", MOST_WAITING)


def _drop(key: int, condition: str, most: int) -> None:
    """Drop the oldest messages beyond `most` of those that meet a condition, and count them as lost."""
    newest = f"SELECT no FROM message WHERE destination_id = ? AND {condition} ORDER BY no DESC LIMIT -1 OFFSET ?"
    beyond = column(newest, (key, most))
    if beyond:
        lose(key, beyond)


def lose(key: int, numbers: Collection[int]) -> None:
    """Remove messages that are given up, and count them as lost."""
    with writing():
        remove(key, numbers)
        execute("UPDATE destination SET lost = lost + ? WHERE id = ?", (len(numbers), key))


def file_of(number: int) -> Attachment | None:
    """Return the file of a message."""
    row = execute("SELECT name, content FROM message_file WHERE message_no = ?", (number,)).fetchone()
    return Attachment(*row) if row else None


def count_waiting(row: Destination) -> int:
    return scalar("SELECT count(*) FROM message WHERE destination_id = ?", (row.id,))


def due(key: int, now: int, limit: int) -> list[Waiting]:
    """Return waiting messages, oldest first, without those that wait for their own retry."""
    rows = execute(
        "SELECT m.no, enqueued_at, ifnull(attempts, 0), EXISTS (SELECT 1 FROM message_file WHERE message_no = m.no), "
        f"{', '.join(Message._fields)} FROM message m "
        "LEFT JOIN destination_retry r ON r.destination_id = m.destination_id AND r.seq = m.no "
        f"WHERE m.destination_id = :key AND (r.seq IS NULL OR {DUE}) ORDER BY m.no LIMIT :limit",
        {"key": key, "now": now, "limit": limit},
    )
    return [_waiting(row) for row in rows]


def remove(key: int, numbers: Collection[int]) -> None:
    """Remove messages that were sent or given up."""
    with writing():
        execute_many("DELETE FROM message WHERE no = ?", [(number,) for number in numbers])
        retries = [(key, number) for number in numbers]
        execute_many("DELETE FROM destination_retry WHERE destination_id = ? AND seq = ?", retries)


def postpone(key: int, rows: Sequence[Waiting], next_try_at: int) -> None:
    """Set messages aside that the receiver refused, so that others do not wait for them."""
    with writing():
        execute_many(
            "INSERT INTO destination_retry VALUES (?, ?, ?, ?, 1, ?) "
            "ON CONFLICT DO UPDATE SET attempts = attempts + 1, next_try_at = excluded.next_try_at",
            [(key, row.number, row.number, row.enqueued_at, next_try_at) for row in rows],
        )


def _waiting(row: Sequence[Any]) -> Waiting:
    number, enqueued_at, attempts, has_file, *fields = row
    message = Message(*fields)
    message = message._replace(is_over=bool(message.is_over), is_late=bool(message.is_late))
    return Waiting(number, enqueued_at, attempts, message, bool(has_file))
