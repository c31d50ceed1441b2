"""Messages that wait to be sent, by channel.

A message is written in the transaction that decides on the alert and deleted after it was sent, so neither a crash nor
an outage of the mail server loses it. A crash in between sends it again under the same number.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

from edge.database.connection import execute, execute_many, scalar, writing
from edge.events.progress import DUE

MOST_WAITING = 2_000  # per channel
MOST_FILES = 20  # per channel
MAX_SUBJECT = 250
MAX_TEXT = 2_000
_FIELDS = "subject, text, rule_no, alert_no, asset_id, occurred_at, is_over, is_late"


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
        added = execute(
            f"INSERT INTO channel_message (channel_no, enqueued_at, {_FIELDS}) "
            "SELECT no, ?, ?, ?, ?, ?, ?, ?, ?, ? FROM channel "
            "WHERE no = ? AND organization_id = ? AND disabled_at IS NULL AND (is_sent_when_over OR NOT ?) "
            "RETURNING no",
            (
                *(now, message.subject[:MAX_SUBJECT], message.text[:MAX_TEXT], message.rule_no, message.alert_no),
                *(message.asset_id, message.occurred_at, message.is_over, message.is_late),
                *(channel_no, organization_id, message.is_over),
            ),
        ).fetchone()
        if added:
            if attachment:
                execute("INSERT INTO channel_file (message_no, name, content) VALUES (?, ?, ?)", (*added, *attachment))
                _drop_oldest_files(channel_no)
            _drop_oldest(channel_no)


def _drop_oldest(channel_no: int) -> None:
    excess = execute("SELECT count(*) FROM channel_message WHERE channel_no = ?", (channel_no,)).fetchone()[0]
    if excess <= MOST_WAITING:
        return
    dropped = execute(
        "DELETE FROM channel_message WHERE no IN "
        "(SELECT no FROM channel_message WHERE channel_no = ? ORDER BY no LIMIT ?)",
        (channel_no, excess - MOST_WAITING),
    ).rowcount
    execute("UPDATE channel SET lost = lost + ? WHERE no = ?", (dropped, channel_no))


def _drop_oldest_files(channel_no: int) -> None:
    dropped = execute(
        "DELETE FROM channel_message WHERE no IN (SELECT m.no FROM channel_message m JOIN channel_file f "
        "ON f.message_no = m.no WHERE m.channel_no = ? ORDER BY m.no DESC LIMIT -1 OFFSET ?)",
        (channel_no, MOST_FILES),
    ).rowcount
    if dropped:
        execute("UPDATE channel SET lost = lost + ? WHERE no = ?", (dropped, channel_no))


def file_of(number: int) -> Attachment | None:
    """Return the file of a message."""
    row = execute("SELECT name, content FROM channel_file WHERE message_no = ?", (number,)).fetchone()
    return Attachment(*row) if row else None


def count_waiting(channel_no: int) -> int:
    return scalar("SELECT count(*) FROM channel_message WHERE channel_no = ?", (channel_no,))


def due(channel_no: int, now: int, limit: int) -> list[Waiting]:
    """Return waiting messages, oldest first, without those that wait for their own retry."""
    rows = execute(
        "SELECT no, enqueued_at, attempts, EXISTS (SELECT 1 FROM channel_file WHERE message_no = no), "
        f"{_FIELDS} FROM channel_message "
        f"WHERE channel_no = :channel_no AND {DUE} ORDER BY no LIMIT :limit",
        {"channel_no": channel_no, "now": now, "limit": limit},
    )
    return [_waiting(row) for row in rows]


def remove(numbers: Collection[int]) -> None:
    """Remove messages that were sent or given up, in the caller's transaction."""
    with writing():
        execute_many("DELETE FROM channel_message WHERE no = ?", [(number,) for number in numbers])


def postpone(rows: Sequence[Waiting], next_try_at: int) -> None:
    """Set messages aside that the receiver refused, so that others do not wait for them."""
    with writing():
        execute_many(
            "UPDATE channel_message SET attempts = attempts + 1, next_try_at = ? WHERE no = ?",
            [(next_try_at, row.number) for row in rows],
        )


def _waiting(row: Sequence[Any]) -> Waiting:
    number, enqueued_at, attempts, has_file, *fields = row
    message = Message(*fields)
    message = message._replace(is_over=bool(message.is_over), is_late=bool(message.is_late))
    return Waiting(number, enqueued_at, attempts, message, bool(has_file))
