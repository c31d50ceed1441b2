"""People who sign in, and what their role lets them do."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, NamedTuple

from edge import clock
from edge.errors import Conflict, Invalid, NotFound
from edge.store.database import writing
from edge.store.ids import new_id
from edge.store.tables import Person, WebSession, rows


class Role(StrEnum):
    ADMINISTRATOR = "administrator"
    EDITOR = "editor"
    OPERATOR = "operator"
    VIEWER = "viewer"


MAX_NAME_LENGTH = 255


class PersonRow(NamedTuple):
    id: int
    organization_id: int
    email: str | None
    name: str
    role: str
    password_hash: str | None
    pin_hash: str | None
    badge_hash: bytes | None
    created_at: int
    updated_at: int
    disabled_at: int | None


def add_person(
    organization_id: int,
    name: str,
    role: Role,
    *,
    email: str | None = None,
    password_hash: str | None = None,
    pin_hash: str | None = None,
    badge_hash: bytes | None = None,
) -> PersonRow:
    """Raises Conflict when the email is taken, on the whole box, or the name or badge, within the organization."""
    moment = clock.now()
    with writing():
        row = PersonRow(
            new_id(), organization_id, email, name, role, password_hash, pin_hash, badge_hash, moment, moment, None
        )
        _check(row)
        Person.insert(row._asdict()).execute()
    return row


def update_person(organization_id: int, person_id: int, **changes: Any) -> PersonRow:
    """Change name, email, role or one of the hashes. Raises NotFound, Invalid, Conflict.

    A new role or a new password takes effect in sessions that are open: the role is read with each request, and
    whoever changes a password ends the others.
    """
    with writing():
        before = _existing(organization_id, person_id)
        after = before._replace(**changes, updated_at=clock.now())
        _check(after)
        if before.role == Role.ADMINISTRATOR and after.role != Role.ADMINISTRATOR:
            _keep_an_administrator(before)
        Person.update(after._asdict()).where(Person.id == person_id).execute()
    return after


def disable_person(organization_id: int, person_id: int) -> None:
    """Ends their sessions and frees their badge; the last administrator stays. Raises NotFound, Conflict."""
    with writing():
        person = _existing(organization_id, person_id)
        if person.disabled_at is not None:
            return
        if person.role == Role.ADMINISTRATOR:
            _keep_an_administrator(person)
        moment = clock.now()
        change = Person.update(disabled_at=moment, updated_at=moment, badge_hash=None)
        change.where(Person.id == person_id).execute()
        WebSession.delete().where(WebSession.person_id == person_id).execute()


def enable_person(organization_id: int, person_id: int) -> None:
    """Raises Conflict when somebody has taken the name meanwhile."""
    with writing():
        person = _existing(organization_id, person_id)._replace(disabled_at=None)
        _check(person)
        Person.update(disabled_at=None, updated_at=clock.now()).where(Person.id == person_id).execute()


def list_people(organization_id: int) -> list[PersonRow]:
    query = Person.select().where(Person.organization_id == organization_id).order_by(Person.name)
    return [PersonRow(*row) for row in rows(query)]


def find_person(organization_id: int, person_id: int) -> PersonRow | None:
    return _one((Person.organization_id == organization_id) & (Person.id == person_id))


def find_by_email(email: str) -> PersonRow | None:
    """Only people who may sign in."""
    return _one((Person.email == email) & Person.disabled_at.is_null())


def find_by_badge(organization_id: int, badge_hash: bytes) -> PersonRow | None:
    """Only people who may sign in."""
    of_organization = Person.organization_id == organization_id
    return _one(of_organization & (Person.badge_hash == badge_hash) & Person.disabled_at.is_null())


def _one(condition: Any) -> PersonRow | None:
    row = next(rows(Person.select().where(condition)), None)
    return PersonRow(*row) if row else None


def _existing(organization_id: int, person_id: int) -> PersonRow:
    person = find_person(organization_id, person_id)
    if person is None:
        raise NotFound("no such person")
    return person


def _check(row: PersonRow) -> None:
    others = Person.id != row.id
    if not row.name.strip() or len(row.name) > MAX_NAME_LENGTH:
        raise Invalid.one("name", "invalid_value", f"A name is 1 to {MAX_NAME_LENGTH} characters")
    if row.email is not None and not (3 <= len(row.email) <= MAX_NAME_LENGTH and "@" in row.email):
        raise Invalid.one("email", "invalid_value", "That is not an email address")
    if row.email is not None and _one(others & (Person.email == row.email)):
        raise Conflict(f"{row.email} already has an account")
    own = others & (Person.organization_id == row.organization_id)
    same_name = own & (Person.name.collate("NOCASE") == row.name) & Person.disabled_at.is_null()
    if row.disabled_at is None and _one(same_name):
        raise Conflict(f"a person called {row.name} already exists")
    if row.badge_hash is not None and _one(own & (Person.badge_hash == row.badge_hash)):
        raise Conflict("this badge belongs to somebody else")


def _keep_an_administrator(person: PersonRow) -> None:
    administrators = (
        (Person.organization_id == person.organization_id)
        & (Person.role == Role.ADMINISTRATOR)
        & Person.disabled_at.is_null()
        & (Person.id != person.id)
    )
    if _one(administrators) is None:
        raise Conflict("this is the last administrator; make somebody else one first")
