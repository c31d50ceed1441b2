"""Permanently dismissed unknown tags and unassigned topics: still counted, but no longer shown."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from edge import clock
from edge.audit.actors import Actor
from edge.audit.audit import Subject, acting
from edge.database.connection import execute, execute_many
from edge.errors import Conflict, NotFound
from edge.texts import N_, fill
from edge.validation import json_text
from edge.validation.topics import matches

MOST = 5_000  # of each kind in an organization; every batch of messages is checked against them


class Dismissal(NamedTuple):
    kind: str  # tag or topic
    subject: str
    name: str
    dismissed_at: int


def dismiss_tag(actor: Actor, tag_type: str, match_key: str) -> None:
    """Hide an unknown tag for all readers. It can still be attached to an asset."""
    with acting(actor) as act:
        dropped = execute(
            "DELETE FROM unknown_tag WHERE organization_id = ? AND tag_type = ? AND match_key = ? RETURNING value",
            (actor.organization_id, tag_type, match_key),
        ).fetchall()
        if not dropped:
            return
        name = f"{tag_type}:{dropped[0][0]}"
        _add(actor.organization_id, "tag", f"{tag_type}:{match_key}", name)
        act.note("unknown_tag.dismissed", Subject("unknown_tag", match_key, name))


def dismiss_topic(actor: Actor, topic_filter: str) -> None:
    """Hide unassigned topics that match a filter. A reader can still be set up for them."""
    with acting(actor) as act:
        rows = execute("SELECT topic FROM unassigned_topic WHERE organization_id = ?", (actor.organization_id,))
        topics = [topic for (topic,) in rows.fetchall() if matches(topic_filter, topic)]
        if not topics:
            return
        execute_many("DELETE FROM unassigned_topic WHERE topic = ?", [(topic,) for topic in topics])
        _add(actor.organization_id, "topic", topic_filter, topic_filter)
        act.note("topic.dismissed", Subject("topic", topic_filter, topic_filter))


def restore(actor: Actor, kind: str, subject: str) -> None:
    """Undo a dismissal: the tag or topic is shown again after its next message. Raises NotFound."""
    with acting(actor) as act:
        dismissed = execute(
            "DELETE FROM dismissal WHERE organization_id = ? AND kind = ? AND subject = ? RETURNING name",
            (actor.organization_id, kind, subject),
        ).fetchone()
        if dismissed is None:
            raise NotFound("this entry is not dismissed")
        action = "unknown_tag.brought_back" if kind == "tag" else "topic.brought_back"
        act.note(action, Subject("unknown_tag" if kind == "tag" else "topic", subject, dismissed[0]))


def list_dismissed(organization_id: int, kind: str) -> list[Dismissal]:
    """Return the dismissals of one kind, newest first."""
    rows = execute(
        "SELECT kind, subject, name, dismissed_at FROM dismissal WHERE organization_id = ? AND kind = ? "
        "ORDER BY dismissed_at DESC",
        (organization_id, kind),
    )
    return [Dismissal(*row) for row in rows]


def dismissed_tags(keys: Iterable[tuple[int, str, str]]) -> set[tuple[int, str, str]]:
    """Return the dismissed ones of (organization, type, match key)."""
    if not (keys := list(keys)):
        return set()
    tags = json_text.encode([(organization_id, f"{kind}:{key}", kind, key) for organization_id, kind, key in keys])
    rows = execute(
        "SELECT d.organization_id, tag.value ->> 2, tag.value ->> 3 FROM json_each(?) tag "
        "CROSS JOIN dismissal d ON d.organization_id = tag.value ->> 0 AND d.kind = 'tag' "
        "AND d.subject = tag.value ->> 1",
        (tags.decode(),),
    )
    return set(rows)


def topic_checker() -> Callable[[int | None, str], bool]:
    """Return a function of (owner, topic) that returns True if the owner dismissed the topic.

    Reads the dismissals once, for checking many topics.
    """
    filters: dict[int, list[str]] = {}
    for organization_id, subject in execute("SELECT organization_id, subject FROM dismissal WHERE kind = 'topic'"):
        filters.setdefault(organization_id, []).append(subject)
    return lambda owner, topic: any(matches(topic_filter, topic) for topic_filter in filters.get(owner or 0, ()))


def forget_tags(organization_id: int, keys: Iterable[tuple[str, str]]) -> None:
    """Delete the dismissals of attached tags, in the caller's transaction. `keys`: (type, match key)."""
    execute_many(
        "DELETE FROM dismissal WHERE organization_id = ? AND kind = 'tag' AND subject = ?",
        [(organization_id, f"{tag_type}:{key}") for tag_type, key in keys],
    )


def _add(organization_id: int, kind: str, subject: str, name: str) -> None:
    number = execute(
        "SELECT count(*) FROM dismissal WHERE organization_id = ? AND kind = ?", (organization_id, kind)
    ).fetchone()[0]
    if number >= MOST:
        raise Conflict(fill(N_("%(number)s entries are already dismissed. Show some of them again first"), number=MOST))
    execute(
        "INSERT INTO dismissal (organization_id, kind, subject, name, dismissed_at) VALUES (?, ?, ?, ?, ?) "
        "ON CONFLICT DO NOTHING",
        (organization_id, kind, subject, name, clock.now()),
    )
