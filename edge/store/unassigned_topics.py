"""Topics that messages arrive on, and that no reader has been set up for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import orjson

from edge.store.bounds import DEFAULT, until_swept
from edge.store.database import execute, execute_many
from edge.validation.topics import matches

SAMPLE_BYTES = 65_536  # there may be a thousand
LONGEST_TOPIC = 1_000  # bytes; no reader that could be set up has a longer one
_ALL = -1


class Topic(NamedTuple):
    topic: str
    first_heard_at: int
    last_heard_at: int
    messages: int
    sample: bytes


class Unassigned(NamedTuple):
    topic: str
    received_at: int
    payload: bytes


def record(messages: Sequence[Unassigned], most: int = DEFAULT.unassigned_topics) -> list[Unassigned]:
    """Messages that no reader claims: the newest payload of each topic is kept as a sample, and of a huge one its
    beginning, as far as there is room for more topics. Returns the others."""
    topics = {message.topic for message in messages if len(message.topic.encode()) <= LONGEST_TOPIC}
    kept = _with_room(topics, until_swept(most)) if topics else topics
    execute_many(
        "INSERT INTO unassigned_topic (topic, first_heard_at, last_heard_at, messages, sample) "
        "VALUES (?1, ?2, ?2, 1, ?3) ON CONFLICT DO UPDATE "
        "SET last_heard_at = excluded.last_heard_at, messages = messages + 1, sample = excluded.sample",
        [
            (message.topic, message.received_at, message.payload[:SAMPLE_BYTES])
            for message in messages
            if message.topic in kept
        ],
    )
    return [message for message in messages if message.topic not in kept]


def _with_room(topics: set[str], most: int) -> set[str]:
    """Those of the topics that are kept already, and as many others as there is room for."""
    known = {
        topic
        for (topic,) in execute(
            "SELECT topic FROM json_each(?) wanted CROSS JOIN unassigned_topic ON topic = wanted.value",
            (orjson.dumps(list(topics)).decode(),),
        )
    }
    if known == topics:
        return known
    number = execute("SELECT count(*) FROM unassigned_topic").fetchone()[0]
    return known | set(sorted(topics - known)[: max(0, most - number)])


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
