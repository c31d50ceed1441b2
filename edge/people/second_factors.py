"""The second factor of people: the sealed secret of an authenticator app, and hashes of recovery codes."""

from __future__ import annotations

from typing import NamedTuple

from edge import clock
from edge.audit.actors import Actor
from edge.audit.audit import Subject, acting
from edge.database.connection import execute, execute_many, writing
from edge.errors import Conflict, NotFound
from edge.people import people
from edge.people.people import PersonRow

TO_CONFIRM = 15 * 60 * clock.SECOND  # after that the setup begins again


class SecondFactor(NamedTuple):
    """`secret` is sealed, see `edge.people.secrets`."""

    secret: bytes
    confirmed_at: int | None
    recovery_codes: int  # unused ones


def find(organization_id: int, person_id: int) -> SecondFactor | None:
    """Return the active second factor of a person, None without one."""
    return _find(organization_id, person_id, "confirmed_at IS NOT NULL")


def find_unconfirmed(organization_id: int, person_id: int) -> SecondFactor | None:
    """Return the second factor that a person has begun to set up within the last minutes."""
    return _find(organization_id, person_id, "confirmed_at IS NULL AND begun_at > ?", clock.now() - TO_CONFIRM)


def holders(organization_id: int) -> set[int]:
    """Return the ids of the people who have an active second factor."""
    found = execute(
        "SELECT person_id FROM second_factor JOIN person ON person.id = person_id "
        "WHERE organization_id = ? AND confirmed_at IS NOT NULL",
        (organization_id,),
    )
    return {person_id for (person_id,) in found}


def begin(actor: Actor, secret: bytes) -> None:
    """Keep the sealed secret of an app that the actor sets up; it replaces one that was never confirmed.

    Raises Conflict while another one is active.
    """
    with acting(actor) as act:
        if find(actor.organization_id, actor.person_id or 0):
            raise Conflict("two-factor authentication is on; remove it before you set it up again")
        execute(
            "INSERT OR REPLACE INTO second_factor (person_id, secret, begun_at) VALUES (?, ?, ?)",
            (actor.person_id, secret, clock.now()),
        )
        act.note("person.second_factor_begun", _subject(actor))


def confirm(actor: Actor, step: int, code_hashes: list[bytes]) -> None:
    """Activate what the actor has begun, after a first code of this step. Raises Conflict if nothing is begun."""
    with acting(actor) as act:
        if find_unconfirmed(actor.organization_id, actor.person_id or 0) is None:
            raise Conflict("the setup was not begun, or took too long; begin again")
        execute(
            "UPDATE second_factor SET confirmed_at = ?, last_step = ? WHERE person_id = ?",
            (clock.now(), step, actor.person_id),
        )
        execute("DELETE FROM recovery_code WHERE person_id = ?", (actor.person_id,))
        execute_many("INSERT INTO recovery_code VALUES (?, ?)", ((actor.person_id, one) for one in code_hashes))
        act.note("person.second_factor_added", _subject(actor))


def accept_step(person: PersonRow, step: int) -> bool:
    """Note that a code of this step was used. False if it, or a later one, was used before.

    A clock that is set back keeps no right code out: what was accepted is the time of the phone, and a code of a phone
    that is right is refused anyway while the clock of the box is behind it.
    """
    with writing():
        used = "UPDATE second_factor SET last_step = ? WHERE person_id = ? AND last_step < ? RETURNING 1"
        return execute(used, (step, person.id, step)).fetchone() is not None


def spend_recovery_code(actor: Actor, code_hash: bytes) -> bool:
    """Use up a recovery code of the actor. False if it is not one, or not any more."""
    with acting(actor) as act:
        spent = "DELETE FROM recovery_code WHERE person_id = ? AND code_hash = ? RETURNING 1"
        if execute(spent, (actor.person_id, code_hash)).fetchone() is None:
            return False
        left = execute("SELECT count(*) FROM recovery_code WHERE person_id = ?", (actor.person_id,)).fetchone()[0]
        act.note("person.recovery_code_used", _subject(actor), {"left": left})
    return True


def remove(actor: Actor, person_id: int) -> None:
    """Remove the second factor of a person, with the recovery codes. Raises NotFound if there is none."""
    with acting(actor) as act:
        person = people.find_person(actor.organization_id, person_id)
        if person is None or find(actor.organization_id, person_id) is None:
            raise NotFound("two-factor authentication is not on for this person")
        execute("DELETE FROM recovery_code WHERE person_id = ?", (person_id,))
        execute("DELETE FROM second_factor WHERE person_id = ?", (person_id,))
        act.note("person.second_factor_removed", people.subject_of(person))


def _find(organization_id: int, person_id: int, condition: str, *values: int) -> SecondFactor | None:
    """`condition` is one of this module, with one value or none."""
    row = execute(
        "SELECT secret, confirmed_at, (SELECT count(*) FROM recovery_code WHERE person_id = factor.person_id) "
        "FROM second_factor factor JOIN person ON person.id = factor.person_id "
        f"WHERE organization_id = ? AND factor.person_id = ? AND {condition}",
        (organization_id, person_id, *values),
    ).fetchone()
    return SecondFactor(*row) if row else None


def _subject(person: Actor) -> Subject:
    return Subject("person", person.id, person.name)
