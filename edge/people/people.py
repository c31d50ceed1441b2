"""People with an account, and their roles."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Any, NamedTuple

from edge import clock
from edge.audit.actors import Actor
from edge.audit.audit import acting, changed, non_empty
from edge.audit.kinds import Kind
from edge.database.connection import column, execute, insert, update
from edge.database.ids import new_id
from edge.errors import Conflict, Invalid
from edge.texts import N_, fill
from edge.validation.values import MAX_NAME


class Role(StrEnum):
    ADMINISTRATOR = "administrator"
    EDITOR = "editor"
    OPERATOR = "operator"
    VIEWER = "viewer"


RANK = {Role.VIEWER: 0, Role.OPERATOR: 1, Role.EDITOR: 2, Role.ADMINISTRATOR: 3}
ROLES_IN_ORDER = f"'{' '.join(RANK)}'"  # in SQL; `instr` returns more for higher roles
# In SQL: settings of the organizations that have said which assets are people, see `edge.tracking.tracked_people`.
PEOPLE_RULE = "(SELECT * FROM people_setting WHERE key_prefix <> '' OR metadata_name <> '')"


class PersonRow(NamedTuple):
    """A person. Times are microseconds since the epoch, UTC."""

    id: int
    organization_id: int
    email: str | None
    name: str
    role: str
    password_hash: str | None
    pin_hash: str | None
    wrong_pins: int
    badge_hash: bytes | None
    badge_mark: int | None  # see `passwords.badge_mark`
    language: str | None  # None: the browser's language
    created_at: int
    updated_at: int
    disabled_at: int | None


KIND = Kind(
    "person",
    "person",
    f"SELECT {', '.join(PersonRow._fields)} FROM person",
    PersonRow._make,
    key="id",
    order="name",
    detail=lambda row: {"name": row.name, "email": row.email, "role": str(row.role), "language": row.language},
)
list_people, subject_of, _audit_fields = KIND.list_of, KIND.subject, KIND.detail  # without hashes, with disabled people
CREDENTIALS = {"password_hash": "password", "pin_hash": "pin", "badge_hash": "badge"}  # column: name in the audit log


def add_person(
    actor: Actor,
    name: str,
    role: Role,
    *,
    email: str | None = None,
    password_hash: str | None = None,
    pin_hash: str | None = None,
    badge_hash: bytes | None = None,
    badge_mark: int | None = None,
) -> PersonRow:
    """Create a person. Raises Invalid, and Conflict if the organization already has the email, name or badge."""
    moment = clock.now()
    with acting(actor) as act:
        row = PersonRow(
            *(new_id(), actor.organization_id, email, name, role, password_hash, pin_hash, 0, badge_hash, badge_mark),
            *(None, moment, moment, None),
        )
        _check(row)
        insert("person", row._asdict())
        act.note("person.created", subject_of(row), non_empty(_audit_fields(row)))
    return row


def update_person(
    actor: Actor,
    person_id: int,
    *,
    keep_session: bytes = b"",
    check: Callable[[PersonRow], None] | None = None,
    **changes: Any,
) -> PersonRow:
    """Change name, email, role, language or one of the hashes. Raises NotFound, Invalid, Conflict.

    `check` gets the current row inside the transaction and raises to refuse the change. A lower role takes effect in
    open sessions with their next request. A higher role or a new password, PIN or badge ends all sessions except the
    one with the token hash `keep_session`. A higher role also removes the PIN, which may be too short for it.
    """
    with acting(actor) as act:
        before = KIND.get(actor.organization_id, person_id)
        if check:
            check(before)
        after = before._replace(**changes, updated_at=clock.now())
        is_promoted = RANK[Role(after.role)] > RANK[Role(before.role)]
        if is_promoted and "pin_hash" not in changes:
            after = after._replace(pin_hash=None)
        if after.pin_hash != before.pin_hash:
            after = after._replace(wrong_pins=0)  # see `pin_lockout`
        _check(after)
        if before.role == Role.ADMINISTRATOR and after.role != Role.ADMINISTRATOR:
            _keep_an_administrator(before)
        update("person", person_id, after._asdict())
        replaced = {name: "changed" for column, name in CREDENTIALS.items() if column in changes}
        if replaced or is_promoted:
            execute(_END_SESSIONS, (person_id, keep_session))
        differences = {**changed(_audit_fields(before), _audit_fields(after)), **replaced}
        is_toggle = changes.keys() == {"language"}
        act.note_changes("person.changed", subject_of(after), differences, is_toggle=is_toggle)
    return after


def disable_person(actor: Actor, person_id: int) -> None:
    """Disable a person, end their sessions and release their badge.

    Raises NotFound, and Conflict for the last administrator.
    """
    with acting(actor):
        person = KIND.get(actor.organization_id, person_id)
        if person.disabled_at is None:
            if person.role == Role.ADMINISTRATOR:
                _keep_an_administrator(person)
            moment = clock.now()
            columns = {"disabled_at": moment, "updated_at": moment, "badge_hash": None, "badge_mark": None}
            KIND.mark(actor, person_id, "disabled", columns)
            execute(_END_SESSIONS, (person_id, b""))


def enable_person(actor: Actor, person_id: int) -> None:
    """Enable a disabled person. Raises NotFound, and Conflict if the name is now taken."""
    with acting(actor):
        person = KIND.get(actor.organization_id, person_id)
        if person.disabled_at is not None:
            _check(person._replace(disabled_at=None))
            KIND.mark(actor, person_id, "enabled", {"disabled_at": None, "updated_at": clock.now()})


def find_person(organization_id: int, person_id: int) -> PersonRow | None:
    """Return a person, also a disabled one, or None."""
    return _one("organization_id = ? AND id = ?", organization_id, person_id)


def find_by_email(email: str) -> list[PersonRow]:
    """Return the enabled people with this email, at most one per organization, oldest account first."""
    return KIND.where("email = ? AND disabled_at IS NULL", email, order="created_at, id")


def find_by_badge(organization_id: int, badge_hash: bytes) -> PersonRow | None:
    """Return the enabled person with this badge, or None."""
    enabled = "organization_id = ? AND badge_hash = ? AND disabled_at IS NULL"
    return _one(enabled, organization_id, badge_hash)


def badge_marks(organization_id: int) -> list[int]:
    """Return the marks of all badges (see `passwords.badge_mark`), sorted and without duplicates."""
    marks = "SELECT badge_mark FROM person WHERE organization_id = ? AND badge_mark IS NOT NULL"
    return sorted(set(column(marks, (organization_id,))))


def set_badge_mark(person: PersonRow, mark: int) -> None:
    """Store the mark of a badge that was registered by a version without marks, or with shorter ones."""
    if person.badge_mark != mark:
        update("person", person.id, {"badge_mark": mark})


def _one(condition: str, *bound: object) -> PersonRow | None:
    return next(iter(KIND.where(condition, *bound)), None)


_COLLEAGUE = "organization_id = ? AND id <> ?"
_END_SESSIONS = "DELETE FROM web_session WHERE person_id = ? AND token_hash <> ?"


def _check(row: PersonRow) -> None:
    if not row.name.strip() or len(row.name) > MAX_NAME:
        raise Invalid.one("name", "invalid_value", fill(N_("A name must have 1 to %(most)s characters"), most=MAX_NAME))
    if row.email is not None and not (3 <= len(row.email) <= MAX_NAME and "@" in row.email):
        raise Invalid.one("email", "invalid_value", N_("Enter a valid email address"))
    colleague = (row.organization_id, row.id)
    if row.email is not None and _one(f"{_COLLEAGUE} AND email = ?", *colleague, row.email):
        raise Conflict(fill(N_("%(email)s already has an account"), email=row.email))
    same_name = f"{_COLLEAGUE} AND name = ? COLLATE NOCASE AND disabled_at IS NULL"
    if row.disabled_at is None and _one(same_name, *colleague, row.name):
        raise Conflict(fill(N_("a person called %(name)s already exists"), name=row.name))
    if row.badge_hash is not None and _one(f"{_COLLEAGUE} AND badge_hash = ?", *colleague, row.badge_hash):
        raise Conflict(N_("this badge belongs to someone else"))


def _keep_an_administrator(person: PersonRow) -> None:
    administrators = f"{_COLLEAGUE} AND role = ? AND disabled_at IS NULL"
    if _one(administrators, person.organization_id, person.id, Role.ADMINISTRATOR) is None:
        raise Conflict(N_("this is the last administrator; give another person this role first"))
