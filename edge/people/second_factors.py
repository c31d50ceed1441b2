"""Storage of second factors: sealed authenticator secrets and hashes of recovery codes."""

from __future__ import annotations

from typing import NamedTuple

from edge import clock
from edge.audit.actors import Actor
from edge.audit.audit import Subject, acting
from edge.database.connection import column, execute, execute_many, writing
from edge.errors import Conflict, NotFound
from edge.people import people
from edge.people.people import PersonRow

SETUP_LIFETIME = 15 * 60 * clock.SECOND


class SecondFactor(NamedTuple):
    """A second factor. `secret` is sealed, see `edge.people.secrets`."""

    secret: bytes
    confirmed_at: int | None
    recovery_codes: int  # number of unused codes


def find(organization_id: int, person_id: int) -> SecondFactor | None:
    """Return the active second factor of a person, or None."""
    return _find(organization_id, person_id, "confirmed_at IS NOT NULL")


def find_unconfirmed(organization_id: int, person_id: int) -> SecondFactor | None:
    """Return the second factor that a person is setting up, or None if there is none or its setup expired."""
    return _find(organization_id, person_id, "confirmed_at IS NULL AND begun_at > ?", clock.now() - SETUP_LIFETIME)


def holders(organization_id: int) -> set[int]:
    """Return the ids of the people who have an active second factor."""
    return set(
        column(
            "SELECT person_id FROM second_factor JOIN person ON person.id = person_id "
            "WHERE organization_id = ? AND confirmed_at IS NOT NULL",
            (organization_id,),
        )
    )


def begin(actor: Actor, secret: bytes) -> None:
    """Store the sealed secret of the actor's app, replacing an unconfirmed one. Raises Conflict if one is active."""
    with acting(actor) as act:
        if find(actor.organization_id, actor.person_id or 0):
            raise Conflict("two-factor authentication is on; remove it before you set it up again")
        execute(
            "INSERT OR REPLACE INTO second_factor (person_id, secret, begun_at) VALUES (?, ?, ?)",
            (actor.person_id, secret, clock.now()),
        )
        act.note("person.second_factor_begun", _subject(actor))


def confirm(actor: Actor, step: int, code_hashes: list[bytes], keep_session: bytes = b"") -> None:
    """Activate the actor's pending second factor. `step` is the time step of its first code.

    The person's sessions end, except one with the token hash `keep_session`.

    Raises Conflict if no setup is pending.
    """
    with acting(actor) as act:
        if find_unconfirmed(actor.organization_id, actor.person_id or 0) is None:
            raise Conflict("the setup was not started or timed out; start again")
        execute(
            "UPDATE second_factor SET confirmed_at = ?, last_step = ? WHERE person_id = ?",
            (clock.now(), step, actor.person_id),
        )
        execute("DELETE FROM recovery_code WHERE person_id = ?", (actor.person_id,))
        execute_many("INSERT INTO recovery_code VALUES (?, ?)", ((actor.person_id, one) for one in code_hashes))
        execute("DELETE FROM web_session WHERE person_id = ? AND token_hash <> ?", (actor.person_id, keep_session))
        act.note("person.second_factor_added", _subject(actor))


def accept_step(person: PersonRow, step: int) -> bool:
    """Mark the code of a time step as used. Returns False if it or a later one was already used.

    Steps follow the phone's clock, so setting back the clock of the box locks out no correct code: `matching_step`
    rejects such a code anyway while the two clocks differ.
    """
    with writing():
        used = "UPDATE second_factor SET last_step = ? WHERE person_id = ? AND last_step < ? RETURNING 1"
        return execute(used, (step, person.id, step)).fetchone() is not None


def spend_recovery_code(actor: Actor, code_hash: bytes) -> bool:
    """Mark a recovery code of the actor as used. Returns False if it is unknown or already used."""
    with acting(actor) as act:
        spent = "DELETE FROM recovery_code WHERE person_id = ? AND code_hash = ? RETURNING 1"
        if execute(spent, (actor.person_id, code_hash)).fetchone() is None:
            return False
        left = execute("SELECT count(*) FROM recovery_code WHERE person_id = ?", (actor.person_id,)).fetchone()[0]
        act.note("person.recovery_code_used", _subject(actor), {"left": left})
    return True


def remove(actor: Actor, person_id: int) -> None:
    """Remove a person's second factor and recovery codes. Raises NotFound if the person has none."""
    with acting(actor) as act:
        person = people.find_person(actor.organization_id, person_id)
        if person is None or find(actor.organization_id, person_id) is None:
            raise NotFound("two-factor authentication is not on for this person")
        execute("DELETE FROM recovery_code WHERE person_id = ?", (person_id,))
        execute("DELETE FROM second_factor WHERE person_id = ?", (person_id,))
        act.note("person.second_factor_removed", people.subject_of(person))


def _find(organization_id: int, person_id: int, condition: str, *values: int) -> SecondFactor | None:
    """Return the second factor if it meets `condition`, a constant SQL fragment with the placeholders for `values`."""
    row = execute(
        "SELECT secret, confirmed_at, (SELECT count(*) FROM recovery_code WHERE person_id = factor.person_id) "
        "FROM second_factor factor JOIN person ON person.id = factor.person_id "
        f"WHERE organization_id = ? AND factor.person_id = ? AND {condition}",
        (organization_id, person_id, *values),
    ).fetchone()
    return SecondFactor(*row) if row else None


def _subject(person: Actor) -> Subject:
    return Subject("person", person.id, person.name)
