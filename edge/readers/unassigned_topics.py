"""Unassigned topics: topics with messages but without a reader. Each organization sees the topics it owns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from edge.database.bounds import DEFAULT, hard_limit
from edge.database.connection import column, execute, execute_many
from edge.people.topic_owners import owner_finder
from edge.readers import dismissals
from edge.validation import json_text
from edge.validation.topics import matches

SAMPLE_BYTES = 65_536  # for each of up to 1,000 topics
LONGEST_TOPIC = 1_000  # bytes; readers cannot have longer topics
_ALL = -1


class Topic(NamedTuple):
    topic: str
    first_received_at: int
    last_received_at: int
    messages: int
    sample: bytes
    size: int  # bytes of the whole message; the sample may be truncated


class Unassigned(NamedTuple):
    """Message on an unassigned topic. `size`: bytes of the whole payload if it is truncated, otherwise 0."""

    topic: str
    received_at: int
    payload: bytes
    size: int = 0


def record(messages: Sequence[Unassigned], most: int = DEFAULT.unassigned_topics) -> list[Unassigned]:
    """Store the newest payload of each topic as a sample, truncated to `SAMPLE_BYTES`.

    Returns the messages on topics that exceed the limit of their owner.
    """
    if not messages:
        return []
    owner_of = owner_finder()
    by_owner: dict[int | None, set[str]] = {}
    is_dismissed = dismissals.topic_checker()
    messages = [message for message in messages if not is_dismissed(owner_of(message.topic), message.topic)]
    for message in messages:
        if len(message.topic.encode()) <= LONGEST_TOPIC:
            by_owner.setdefault(owner_of(message.topic), set()).add(message.topic)
    owners = {
        topic: owner for owner, topics in by_owner.items() for topic in _with_room(owner, topics, hard_limit(most))
    }
    execute_many(
        "INSERT INTO unassigned_topic (topic, first_heard_at, last_heard_at, messages, sample, organization_id, size) "
        "VALUES (?1, ?2, ?2, 1, ?3, ?4, ?5) ON CONFLICT DO UPDATE SET last_heard_at = excluded.last_heard_at, "
        "messages = messages + 1, sample = excluded.sample, size = excluded.size",
        [
            (
                message.topic,
                message.received_at,
                message.payload[:SAMPLE_BYTES],
                owners[message.topic],
                message.size or len(message.payload),
            )
            for message in messages
            if message.topic in owners
        ],
    )
    return [message for message in messages if message.topic not in owners]


def _with_room(owner: int | None, topics: set[str], most: int) -> set[str]:
    """Return the topics already stored, and as many others as fit in the limit of their owner."""
    known = set(
        column(
            "SELECT topic FROM json_each(?) new CROSS JOIN unassigned_topic ON topic = new.value",
            (json_text.text(list(topics)),),
        )
    )
    if known == topics:
        return known
    number = execute("SELECT count(*) FROM unassigned_topic WHERE organization_id IS ?", (owner,)).fetchone()[0]
    return known | set(sorted(topics - known)[: max(0, most - number)])


def list_topics(organization_id: int, limit: int = 1000) -> list[Topic]:
    """Return the unassigned topics of an organization, newest message first."""
    rows = execute(
        "SELECT topic, first_heard_at, last_heard_at, messages, sample, max(size, length(sample)) "
        "FROM unassigned_topic WHERE organization_id = ? ORDER BY last_heard_at DESC LIMIT ?",
        (organization_id, limit),
    )
    return [Topic(*row) for row in rows]


def find_topic(organization_id: int, topic_filter: str) -> Topic | None:
    """Return the matching topic with the newest message, or None."""
    return next((topic for topic in list_topics(organization_id, _ALL) if matches(topic_filter, topic.topic)), None)


def forget(topic_filter: str) -> None:
    """Delete topics for which a reader was set up, in the caller's transaction."""
    execute("DELETE FROM dismissal WHERE kind = 'topic' AND subject = ?", (topic_filter,))
    topics = [topic for (topic,) in execute("SELECT topic FROM unassigned_topic") if matches(topic_filter, topic)]
    execute_many("DELETE FROM unassigned_topic WHERE topic = ?", [(topic,) for topic in topics])
