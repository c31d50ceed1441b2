"""Topics that messages arrive on, and that no reader has been set up for."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from edge.store.database import execute, execute_many

SAMPLE_BYTES = 65_536  # there may be a thousand


class Topic(NamedTuple):
    topic: str
    first_heard_at: int
    last_heard_at: int
    messages: int
    sample: bytes


def record(messages: Iterable[tuple[str, int, bytes]]) -> None:
    """(topic, received_at, payload) of messages that no reader claims; the newest payload is kept as a sample, and
    of a huge one its beginning."""
    execute_many(
        "INSERT INTO unassigned_topic (topic, first_heard_at, last_heard_at, messages, sample) "
        "VALUES (?1, ?2, ?2, 1, ?3) ON CONFLICT DO UPDATE "
        "SET last_heard_at = excluded.last_heard_at, messages = messages + 1, sample = excluded.sample",
        [(topic, received_at, payload[:SAMPLE_BYTES]) for topic, received_at, payload in messages],
    )


def list_topics(limit: int = 200) -> list[Topic]:
    """Heard, but no reader claims them; they belong to nobody yet, so only administrators may look."""
    rows = execute(
        "SELECT topic, first_heard_at, last_heard_at, messages, sample FROM unassigned_topic "
        "ORDER BY last_heard_at DESC LIMIT ?",
        (limit,),
    )
    return [Topic(*row) for row in rows]


def find_topic(topic: str) -> Topic | None:
    columns = "topic, first_heard_at, last_heard_at, messages, sample"
    row = execute(f"SELECT {columns} FROM unassigned_topic WHERE topic = ?", (topic,)).fetchone()  # noqa: S608
    return Topic(*row) if row else None
