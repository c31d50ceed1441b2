"""Organizations. All other data belongs to one of them."""

from __future__ import annotations

from typing import NamedTuple

from edge import clock
from edge.audit.actors import Actor
from edge.audit.audit import Subject, acting, non_empty
from edge.database.connection import execute, insert, writing
from edge.database.ids import new_id
from edge.errors import Conflict, NotFound
from edge.people import topic_owners


class OrganizationRow(NamedTuple):
    """An organization. `topic_prefix` is None for the owner of all other topics."""

    id: int
    name: str
    created_at: int
    topic_prefix: str | None


_SELECT = f"SELECT {', '.join(OrganizationRow._fields)} FROM organization"


def add_organization(actor: Actor, name: str, topic_prefix: str | None = None) -> OrganizationRow:
    """Create an organization. The actor belongs to the whole box.

    Without a prefix, the first organization owns all topics and every other one gets a prefix derived from its name.
    Raises Conflict if the name is taken, and Invalid or Conflict if the prefix is not available.
    """
    with writing():
        if any(row.name == name for row in list_organizations()):
            raise Conflict(f"organization {name} already exists")
        row = OrganizationRow(new_id(), name, clock.now(), topic_prefix or topic_owners.propose(name))
        if row.topic_prefix is not None:
            topic_owners.check_free(row.id, row.topic_prefix)
        with acting(actor._replace(organization_id=row.id)) as act:
            insert("organization", row._asdict())
            topic_owners.reassign_topics()
            details = non_empty({"topic_prefix": row.topic_prefix})
            act.note("organization.created", Subject("organization", row.id, name), details)
    return row


def list_organizations() -> list[OrganizationRow]:
    """Return all organizations by name."""
    return [OrganizationRow(*row) for row in execute(f"{_SELECT} ORDER BY name")]


def find_organization(name: str | None) -> OrganizationRow:
    """Return the organization with this name, or the only one if `name` is None. Raises NotFound."""
    known = list_organizations()
    if name is None and len(known) == 1:
        return known[0]
    for row in known:
        if row.name == name:
            return row
    names = ", ".join(row.name for row in known) or "none"
    raise NotFound(f"no organization {name!r}; there are: {names}" if name else f"name one of: {names}")


def get_organization(organization_id: int) -> OrganizationRow:
    """Return the organization with this id. Raises NotFound."""
    for row in execute(f"{_SELECT} WHERE id = ?", (organization_id,)):
        return OrganizationRow(*row)
    raise NotFound("organization not found")
