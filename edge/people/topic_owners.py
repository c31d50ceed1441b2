"""Which organization an MQTT topic belongs to.

Each organization has a prefix and owns the topics below it; one may have none, and owns the rest. So nobody can see or
set up what the readers of another organization send.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from edge.audit.actors import Actor
from edge.audit.audit import Subject, acting, changed
from edge.database.connection import execute, execute_many
from edge.errors import Conflict, NotFound
from edge.validation.topics import below, check_prefix, is_below, matches, overlap

_PROPOSED_LENGTH = 40


class Owner(NamedTuple):
    organization_id: int
    prefix: str | None


def owners() -> list[Owner]:
    return [Owner(*row) for row in execute("SELECT id, topic_prefix FROM organization")]


def owner_finder() -> Callable[[str], int | None]:
    """A function that finds the owner of a topic, for many topics; None when the topic is outside of all prefixes."""
    known = owners()
    rest = next((owner.organization_id for owner in known if owner.prefix is None), None)
    prefixed = [(owner.organization_id, below(owner.prefix)) for owner in known if owner.prefix is not None]
    return lambda topic: next((whose for whose, filter_ in prefixed if matches(filter_, topic)), rest)


def check_owned(organization_id: int, topic_filter: str) -> None:
    """Raises Conflict if the filter matches topics that are not the organization's."""
    known = owners()
    own = next(owner.prefix for owner in known if owner.organization_id == organization_id)
    if own is not None and not is_below(own, topic_filter):
        raise Conflict(f"topic {topic_filter} is not below {own}/, where the topics of this organization are")
    others = (owner.prefix for owner in known if owner.prefix is not None and owner.organization_id != organization_id)
    if own is None and any(overlap(topic_filter, below(prefix)) for prefix in others):
        raise Conflict(f"topic {topic_filter} reaches topics of another organization; choose one of your own")


def propose(name: str) -> str | None:
    """A prefix for a new organization of that name; None for the first one."""
    taken = [owner.prefix for owner in owners()]
    if not taken:
        return None
    plain = re.sub(r"[^a-z0-9]+", "-", name.lower())[:_PROPOSED_LENGTH].strip("-") or "organization"
    proposed, number = plain, 1
    while any(prefix is not None and _meet(prefix, proposed) for prefix in taken):
        number += 1
        proposed = f"{plain}-{number}"
    return proposed


def check_free(organization_id: int, prefix: str) -> None:
    """Raises Invalid for a bad prefix, Conflict if it overlaps another's topics or leaves out a reader."""
    check_prefix(prefix)
    for owner in owners():
        if owner.organization_id != organization_id and owner.prefix is not None and _meet(owner.prefix, prefix):
            raise Conflict(f"the prefix {prefix} overlaps {owner.prefix}, which is another organization's")
    for whose, name, topic in execute(_TOPICS_OF_READERS):
        if whose != organization_id and overlap(topic, below(prefix)):
            raise Conflict(f"the reader {name} of another organization has {topic}, which matches below {prefix}/")
        if whose == organization_id and not is_below(prefix, topic):
            raise Conflict(f"the reader {name} has the topic {topic}; give it one below {prefix}/ first")


_TOPICS_OF_READERS = """
SELECT organization_id, name, topic FROM reader WHERE deleted_at IS NULL
UNION ALL
SELECT organization_id, name, status_topic FROM reader WHERE deleted_at IS NULL AND status_topic IS NOT NULL
"""


def set_prefix(actor: Actor, prefix: str) -> None:
    """Raises NotFound, and Invalid and Conflict as `check_free` does."""
    with acting(actor) as act:
        sql = "SELECT name, topic_prefix FROM organization WHERE id = ?"
        row = execute(sql, (actor.organization_id,)).fetchone()
        if row is None:
            raise NotFound("organization not found")
        check_free(actor.organization_id, prefix)
        execute("UPDATE organization SET topic_prefix = ? WHERE id = ?", (prefix, actor.organization_id))
        sort_anew()
        facts = changed({"topic_prefix": row[1]}, {"topic_prefix": prefix})
        act.note("organization.changed", Subject("organization", actor.organization_id, row[0]), facts)


def sort_anew() -> None:
    """Assign unassigned topics to their owners by the new prefixes. Within the caller's transaction."""
    owner_of = owner_finder()
    topics = execute("SELECT topic, organization_id FROM unassigned_topic").fetchall()
    execute_many(
        "UPDATE unassigned_topic SET organization_id = ? WHERE topic = ?",
        [(owner_of(topic), topic) for topic, before in topics if owner_of(topic) != before],
    )


def _meet(one: str, other: str) -> bool:
    return overlap(below(one), below(other))
