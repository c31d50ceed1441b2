"""Topics that messages arrive on, and that no reader has been set up for."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from edge.store.database import execute, execute_many
from edge.validation.topics import matches

SAMPLE_BYTES = 65_536  # there may be a thousand
_ALL = -1


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


def list_topics(limit: int = 1000) -> list[Topic]:
    """Heard, but no reader claims them; they belong to nobody yet, so only administrators may look."""
    rows = execute(
        "SELECT topic, first_heard_at, last_heard_at, messages, sample FROM unassigned_topic "
        "ORDER BY last_heard_at DESC LIMIT ?",
        (limit,),
    )
    return [Topic(*row) for row in rows]


def find_topic(topic_filter: str) -> Topic | None:
    """The one heard last of those that the filter matches."""
    return next((topic for topic in list_topics(_ALL) if matches(topic_filter, topic.topic)), None)


def forget(topic_filter: str) -> None:
    """A reader has been set up for them. Within the caller's transaction."""
    topics = [topic for (topic,) in execute("SELECT topic FROM unassigned_topic") if matches(topic_filter, topic)]
    execute_many("DELETE FROM unassigned_topic WHERE topic = ?", [(topic,) for topic in topics])
