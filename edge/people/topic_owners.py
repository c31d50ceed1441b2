"""Ownership of MQTT topics by organizations.

Each organization has a prefix and owns the topics below it. One organization may have no prefix and owns the rest.
Organizations can neither see nor set up topics of others.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from edge.audit.actors import Actor
from edge.audit.audit import Subject, acting, changed
from edge.database.connection import execute, execute_many
from edge.errors import Conflict, NotFound
from edge.texts import N_, fill
from edge.validation.topics import below, check_prefix, is_below, matches, overlap

_PROPOSED_LENGTH = 40
RESERVED = "edge"  # prefix of the topics on which edge publishes, such as edge/doctor and edge/ping


class Owner(NamedTuple):
    """An organization and its topic prefix. None: it owns all topics outside other prefixes."""

    organization_id: int
    prefix: str | None


def owners() -> list[Owner]:
    """Return the prefixes of all organizations."""
    return [Owner(*row) for row in execute("SELECT id, topic_prefix FROM organization")]


def owner_finder() -> Callable[[str], int | None]:
    """Return a function that maps a topic to the id of its organization, or to None outside all prefixes."""
    known = owners()
    default = next((owner.organization_id for owner in known if owner.prefix is None), None)
    prefixed = [(owner.organization_id, below(owner.prefix)) for owner in known if owner.prefix is not None]
    return lambda topic: next((owner_id for owner_id, filter_ in prefixed if matches(filter_, topic)), default)


def check_owned(organization_id: int, topic_filter: str) -> None:
    """Raise Conflict if the filter matches topics of another organization."""
    known = owners()
    own = next(owner.prefix for owner in known if owner.organization_id == organization_id)
    if own is not None and not is_below(own, topic_filter):
        text = N_("topic %(topic)s is not below %(prefix)s/, the prefix of this organization")
        raise Conflict(fill(text, topic=topic_filter, prefix=own))
    others = (owner.prefix for owner in known if owner.prefix is not None and owner.organization_id != organization_id)
    if own is None and any(overlap(topic_filter, below(prefix)) for prefix in others):
        text = N_("topic %(topic)s matches topics of another organization; choose another topic")
        raise Conflict(fill(text, topic=topic_filter))


def propose(name: str) -> str | None:
    """Return a free prefix for a new organization of that name, or None for the first organization."""
    known = owners()
    if not known:
        return None
    taken = [RESERVED, *(owner.prefix for owner in known)]
    plain = re.sub(r"[^a-z0-9]+", "-", name.lower())[:_PROPOSED_LENGTH].strip("-") or "organization"
    proposed, number = plain, 1
    while any(prefix is not None and _is_overlapping(prefix, proposed) for prefix in taken):
        number += 1
        proposed = f"{plain}-{number}"
    return proposed


def check_free(organization_id: int, prefix: str) -> None:
    """Raise Invalid for a malformed prefix, Conflict if it overlaps topics of others or excludes an own reader."""
    check_prefix(prefix)
    if _is_overlapping(prefix, RESERVED):
        raise Conflict(f"the prefix {prefix} overlaps {RESERVED}/, the topics of edge itself; choose another one")
    for owner in owners():
        if (
            owner.organization_id != organization_id
            and owner.prefix is not None
            and _is_overlapping(owner.prefix, prefix)
        ):
            raise Conflict(f"the prefix {prefix} overlaps {owner.prefix}, which is another organization's")
    for owner_id, name, topic in execute(_TOPICS_OF_READERS):
        if owner_id != organization_id and overlap(topic, below(prefix)):
            raise Conflict(f"the reader {name} of another organization has {topic}, which matches below {prefix}/")
        if owner_id == organization_id and not is_below(prefix, topic):
            raise Conflict(f"the reader {name} has the topic {topic}; change it to one below {prefix}/ first")


_TOPICS_OF_READERS = """
SELECT organization_id, name, topic FROM reader WHERE deleted_at IS NULL
UNION ALL
SELECT organization_id, name, status_topic FROM reader WHERE deleted_at IS NULL AND status_topic IS NOT NULL
"""


def set_prefix(actor: Actor, prefix: str) -> None:
    """Change the prefix of the actor's organization. Raises NotFound, Invalid, Conflict (see `check_free`)."""
    with acting(actor) as act:
        sql = "SELECT name, topic_prefix FROM organization WHERE id = ?"
        row = execute(sql, (actor.organization_id,)).fetchone()
        if row is None:
            raise NotFound("organization not found")
        check_free(actor.organization_id, prefix)
        execute("UPDATE organization SET topic_prefix = ? WHERE id = ?", (prefix, actor.organization_id))
        reassign_topics()
        details = changed({"topic_prefix": row[1]}, {"topic_prefix": prefix})
        act.note("organization.changed", Subject("organization", actor.organization_id, row[0]), details)


def reassign_topics() -> None:
    """Recompute the owners of unassigned topics, inside the caller's transaction."""
    owner_of = owner_finder()
    topics = execute("SELECT topic, organization_id FROM unassigned_topic").fetchall()
    execute_many(
        "UPDATE unassigned_topic SET organization_id = ? WHERE topic = ?",
        [(owner_of(topic), topic) for topic, before in topics if owner_of(topic) != before],
    )


def _is_overlapping(one: str, other: str) -> bool:
    return overlap(below(one), below(other))
