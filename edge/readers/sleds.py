"""Sleds: readers that a person carries. Who has a sled, and the locations that this person chose.

A read of a sled is a scan of its operator at the location of the last choice at or before the read. The operator is the
person to whom the sled is assigned, or who uses the assigned handheld.
"""

from __future__ import annotations

from typing import NamedTuple

from edge import clock
from edge.audit import quotas
from edge.audit.actors import Actor
from edge.audit.audit import acting
from edge.database.connection import column, execute, execute_many, writing
from edge.errors import Invalid
from edge.people import people
from edge.people.people import Role
from edge.readers.readers import get_reader, subject_of
from edge.readers.sled_owners import Owner, owner_at, owners_of
from edge.texts import N_

HOLDS_FOR = 12 * clock.HOUR  # a choice ends after a shift, if nobody ended it before
MINUTE = 60 * clock.SECOND
MOST_ASSIGNMENTS = 100  # of a reader


class Choice(NamedTuple):
    """A choice of a location. `location_id`: None if it only ended the one before. `is_live`: it is not retired, the
    person is not disabled and the handheld not revoked.

    It applies to reads from `chosen_at` until before `until` (microseconds).
    """

    person_id: int
    device_id: int | None
    location_id: int | None
    is_live: bool
    chosen_at: int
    until: int


class SledState(NamedTuple):
    """The operator of a sled and the current choice, by name, for the page of the reader.

    `value`: the operator, such as `person-17` or `device-4`.
    """

    value: str
    is_device: bool
    name: str
    since: int
    location_name: str | None
    chosen_by: str | None
    chosen_at: int | None


def assign(actor: Actor, reader_id: int, *, person_id: int | None = None, device_id: int | None = None) -> None:
    """Give a sled to a person or a handheld from now on, or to nobody. Reads up to now keep their operator.

    Raises NotFound, and Invalid for both, or for an unknown person or handheld.
    """
    if person_id is not None and device_id is not None:
        raise Invalid.one("operator", "invalid_value", N_("Choose a person or a handheld, not both"))
    with acting(actor) as act:
        reader = get_reader(actor.organization_id, reader_id)
        name = _name_of(actor.organization_id, person_id, device_id)
        before = owner_at(owners_of(reader_id), clock.now())
        # Made while the clock was ahead; otherwise it would stay the newest assignment.
        ahead = execute("DELETE FROM sled_assignment WHERE reader_id = ? AND since > ?", (reader_id, clock.now()))
        is_same = (person_id, device_id) == ((before.person_id, before.device_id) if before else (None, None))
        if is_same and not ahead.rowcount:
            return
        was = _name_of(actor.organization_id, before.person_id, before.device_id, is_new=False) if before else None
        since = max(clock.now(), before.since + 1 if before else 0)
        execute(
            "INSERT INTO sled_assignment (reader_id, since, organization_id, person_id, device_id) "
            "VALUES (?, ?, ?, ?, ?)",
            (reader_id, since, actor.organization_id, person_id, device_id),
        )
        execute(_DROP_OLD_ASSIGNMENTS, (reader_id, MOST_ASSIGNMENTS))
        act.note("sled.assigned", subject_of(reader), {"old": was, "new": name})


_DROP_OLD_ASSIGNMENTS = """
DELETE FROM sled_assignment WHERE reader_id = ?1 AND since < (
    SELECT since FROM sled_assignment WHERE reader_id = ?1 ORDER BY since DESC LIMIT 1 OFFSET ?2 - 1)
"""


def state_of(organization_id: int, reader_id: int) -> SledState | None:
    """Return the operator of a sled and the location for its reads now; None if it is nobody's."""
    owner = owner_at(owners_of(reader_id), clock.now())
    if owner is None:
        return None
    name = _name_of(organization_id, owner.person_id, owner.device_id, is_new=False)
    choice = choice_at(owner, clock.now())
    location = by = None
    if choice and choice.is_live:
        (location,) = execute("SELECT name FROM location WHERE id = ?", (choice.location_id,)).fetchone()
        by = _name_of(organization_id, choice.person_id, None, is_new=False)
    return SledState(
        f"person-{owner.person_id}" if owner.device_id is None else f"device-{owner.device_id}",
        owner.device_id is not None,
        name or "",
        owner.since,
        location,
        by,
        choice.chosen_at if choice else None,
    )


def sleds_of(organization_id: int, person_id: int, device_id: int | None) -> list[int]:
    """Return the sleds that a person has, or the handheld in use: they follow the person's choices."""
    return column(
        "SELECT reader_id FROM sled WHERE organization_id = ? AND (person_id = ? OR device_id = ?)",
        (organization_id, person_id, device_id),
    )


def choose_location(actor: Actor, choice_id: str, location_id: int | None, at: int, received_at: int) -> None:
    """Store where a person is working from now on, if the person or the handheld has a sled. A repeat changes nothing.

    `at`: when it was chosen. A choice that named no location may get one later, when somebody says which was meant.
    """
    person_id = actor.person_id
    if person_id is None:
        return
    with writing():
        if not sleds_of(actor.organization_id, person_id, actor.device_id):
            return
        quotas.charge(actor, quotas.ROW_BYTES, is_scan=True)
        live = "SELECT id FROM location WHERE id = ? AND organization_id = ? AND deleted_at IS NULL"
        if location_id is not None and execute(live, (location_id, actor.organization_id)).fetchone() is None:
            location_id = None
        stored = execute(
            "INSERT INTO location_choice (id, organization_id, person_id, device_id, location_id, chosen_at, "
            "received_at) VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET location_id = excluded.location_id "
            "WHERE person_id = excluded.person_id AND location_id IS NULL AND excluded.location_id IS NOT NULL "
            "RETURNING chosen_at",
            (choice_id, actor.organization_id, person_id, actor.device_id, location_id, at, received_at),
        ).fetchone()
        if stored:
            _recount_from(person_id, actor.device_id, *stored)


def end_choice(actor: Actor) -> None:
    """Note that a person signed out: the reads of the sled have no location until the next choice."""
    now = clock.now()
    choose_location(actor, f"signed-out-{actor.person_id}-{now}", None, now, now)


def _recount_from(person_id: int, device_id: int | None, at: int) -> None:
    """Compare the reads since a choice with the choices again, if a sled sent some before the choice arrived."""
    of_both = "SELECT DISTINCT reader_id FROM sled_assignment WHERE person_id = ? OR device_id = ?"
    late = [
        (reader_id, at, at + HOLDS_FOR)
        for (reader_id,) in execute(of_both, (person_id, device_id)).fetchall()
        if execute(
            "SELECT 1 FROM sled_read WHERE reader_id = ? AND observed_at >= ? LIMIT 1", (reader_id, at)
        ).fetchone()
    ]
    execute_many(
        "INSERT INTO sled_recount (reader_id, since, until) VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET "
        "since = min(since, excluded.since), after_asset = iif(excluded.since <= since, 0, after_asset), "
        "until = max(until, excluded.until)",
        late,
    )


def choice_at(owner: Owner, at: int) -> Choice | None:
    """Return the last choice of an owner at or before a time; None if there is none, or it is too old."""
    column, owner_id = _KEYS[owner.device_id is not None], owner.device_id or owner.person_id
    row = execute(_LAST.format(column=column), (owner_id, at)).fetchone()
    if row is None:
        return None
    person_id, device_id, location_id, chosen_at, is_live = row
    until = chosen_at + HOLDS_FOR
    following = execute(_NEXT.format(column=column), (owner_id, at)).fetchone()[0]
    if following is not None:
        until = min(until, following)
    return Choice(person_id, device_id, location_id, bool(is_live), chosen_at, until) if at < until else None


_KEYS = {False: "person_id", True: "device_id"}
# In one instant the greater id is the later one, in whatever order they arrive.
_LAST = """
SELECT c.person_id, c.device_id, c.location_id, c.chosen_at,
       l.id IS NOT NULL AND ifnull(p.disabled_at, ?2 + 1) > ?2 AND ifnull(d.revoked_at, ?2 + 1) > ?2
FROM location_choice c JOIN person p ON p.id = c.person_id LEFT JOIN device d ON d.id = c.device_id
LEFT JOIN location l ON l.id = c.location_id AND l.deleted_at IS NULL
WHERE c.{column} = ?1 AND c.chosen_at <= ?2 ORDER BY c.chosen_at DESC, c.id DESC LIMIT 1
"""
_NEXT = "SELECT min(chosen_at) FROM location_choice WHERE {column} = ? AND chosen_at > ?"


def _name_of(organization_id: int, person_id: int | None, device_id: int | None, *, is_new: bool = True) -> str | None:
    """Return the name of a person or handheld, None for nobody. Raises Invalid if a new one cannot have a sled."""
    if person_id is not None:
        person = people.find_person(organization_id, person_id)
        may_scan = person is not None and person.disabled_at is None and person.role != Role.VIEWER
        if person and (may_scan or not is_new):
            return person.name
    elif device_id is not None:
        sql = "SELECT name, revoked_at IS NULL FROM device WHERE id = ? AND organization_id = ?"
        row = execute(sql, (device_id, organization_id)).fetchone()
        if row and (row[1] or not is_new):
            return str(row[0])
    else:
        return None
    raise Invalid.one("operator", "fk_not_found", N_("Choose a person who may scan, or an enrolled handheld"))
