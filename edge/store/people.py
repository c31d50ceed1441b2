"""People who sign in, and what their role lets them do."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from edge import clock
from edge.errors import Conflict
from edge.store.database import writing
from edge.store.ids import new_id
from edge.store.tables import Person, rows


class Role(StrEnum):
    ADMINISTRATOR = "administrator"
    EDITOR = "editor"
    OPERATOR = "operator"
    VIEWER = "viewer"


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
    organization_id: int, name: str, role: Role, *, email: str | None = None, password_hash: str | None = None
) -> PersonRow:
    """Raises Conflict when the email is taken, on the whole box, or the name, within the organization."""
    with writing():
        if email is not None and Person.get_or_none(Person.email == email):
            raise Conflict(f"{email} already has an account")
        same_name = (Person.organization_id == organization_id) & (Person.name == name) & Person.disabled_at.is_null()
        if Person.get_or_none(same_name):
            raise Conflict(f"a person called {name} already exists")
        moment = clock.now()
        row = PersonRow(new_id(), organization_id, email, name, role, password_hash, None, None, moment, moment, None)
        Person.insert(row._asdict()).execute()
    return row


def list_people(organization_id: int) -> list[PersonRow]:
    query = Person.select().where(Person.organization_id == organization_id).order_by(Person.name)
    return [PersonRow(*row) for row in rows(query)]
