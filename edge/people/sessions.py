"""Web sessions. Only the hash of a session's token is stored."""

from __future__ import annotations

import secrets
from contextlib import suppress
from typing import NamedTuple

from edge import clock
from edge.audit import actors
from edge.audit.actors import Actor
from edge.audit.audit import Subject, acting
from edge.database.connection import execute, insert, writing
from edge.errors import EdgeError
from edge.people import devices, people, pin_lockout
from edge.people.devices import DeviceRow
from edge.people.people import PEOPLE_RULE, ROLES_IN_ORDER, PersonRow

CLOCK_ERROR = 5 * 60 * clock.SECOND  # accepted error of a handheld's clock
AFTER_EXPIRY = 12 * clock.HOUR  # one shift without a connection
NOTE_EVERY = 5 * 60 * clock.SECOND  # of the time of the last use; each commit wears the disk
MOST_OF_PERSON = 100  # the oldest ends
_idle: list[int] = []  # time without use after which a session ends, see `use_idle_minutes`


class SessionRow(NamedTuple):
    """A valid session with the person's current name and role. Times are microseconds.

    `hides_people`: the role may not see positions of people; `api_hides_people`: nobody may, through the API.
    """

    person_id: int
    organization_id: int
    organization_name: str
    name: str
    role: str
    language: str | None
    device_id: int | None
    device_name: str
    created_at: int
    expires_at: int
    ref: str  # identifies the session in scans that a device sends later
    browser: str
    used_at: int
    hides_people: bool
    api_hides_people: bool


def use_idle_minutes(minutes: int) -> None:
    """End sessions without use for so long; 0: never. Not on enrolled devices, which work without a connection."""
    _idle[:] = [minutes * 60 * clock.SECOND] if minutes else []


def add_session(person: Actor, token_hash: bytes, expires_at: int, browser: str = "") -> str:
    """Sign a person in and return the reference of the session. Expired sessions are deleted."""
    moment, ref = clock.now(), secrets.token_hex(16)
    with acting(person) as act:
        execute("DELETE FROM web_session WHERE expires_at <= ?", (moment,))
        who = {"token_hash": token_hash, "person_id": person.person_id, "device_id": person.device_id, "ref": ref}
        when = {"created_at": moment, "expires_at": expires_at, "used_at": moment}
        insert("web_session", {**who, **when, "browser": browser})
        execute(_DROP_OLDEST, (person.person_id, person.person_id, MOST_OF_PERSON))
        act.note("person.signed_in", _subject(person))
    return ref


_DROP_OLDEST = """
DELETE FROM web_session WHERE person_id = ? AND token_hash NOT IN (
    SELECT token_hash FROM web_session WHERE person_id = ? ORDER BY created_at DESC LIMIT ?)
"""
_SELECT = f"""
SELECT session.person_id, person.organization_id, organization.name, person.name, person.role, person.language,
       session.device_id, ifnull(device.name, ''), session.created_at, session.expires_at,
       session.ref, session.browser, session.used_at,
       ifnull(instr({ROLES_IN_ORDER}, person.role) < instr({ROLES_IN_ORDER}, rule.seen_by), 0),
       ifnull(NOT rule.is_in_api, 0)
FROM web_session session
JOIN person ON person.id = session.person_id
JOIN organization ON organization.id = person.organization_id
LEFT JOIN device ON device.id = session.device_id
LEFT JOIN {PEOPLE_RULE} rule ON rule.organization_id = person.organization_id
WHERE session.expires_at > :now AND session.created_at <= :latest
  AND (session.device_id IS NOT NULL OR session.used_at > :idle_since)
  AND person.disabled_at IS NULL AND device.revoked_at IS NULL
"""


def find_session(token_hash: bytes) -> SessionRow | None:
    """Return the session, or None if it has expired, its person is disabled or its device is revoked.

    Sessions created in the future, while the clock was ahead, are not valid: they would last too long.
    """
    row = execute(f"{_SELECT} AND session.token_hash = :token_hash", {**_times(), "token_hash": token_hash}).fetchone()
    return SessionRow(*row) if row else None


def list_sessions(organization_id: int, person_id: int) -> list[SessionRow]:
    """Return the valid sessions of a person, the last used first."""
    of_person = "session.person_id = :person_id AND person.organization_id = :organization_id"
    values = {**_times(), "person_id": person_id, "organization_id": organization_id}
    return [SessionRow(*row) for row in execute(f"{_SELECT} AND {of_person} ORDER BY session.used_at DESC", values)]


def _times() -> dict[str, int]:
    now = clock.now()
    idle_since = now - _idle[0] - NOTE_EVERY if _idle else -1
    return {"now": now, "latest": now + clock.SET_BACK, "idle_since": idle_since}


def note_use(session: SessionRow, token_hash: bytes) -> None:
    """Note that a person has used a session, every few minutes. A failing database does not end the request."""
    now = clock.now()
    if not 0 <= now - session.used_at < NOTE_EVERY:
        with suppress(EdgeError), writing():
            execute("UPDATE web_session SET used_at = ? WHERE token_hash = ?", (now, token_hash))


def person_at(device_id: int, ref: str, at: int) -> int | None:
    """Return the person who was signed in on a shared device at the time `at`, or None if the session does not match.

    An offline device keeps working after its session expired, so the session is accepted up to `AFTER_EXPIRY` later
    unless another one began or the person signed out.
    """
    session = execute(_WITH_REF, {"device_id": device_id, "ref": ref}).fetchone()
    if session is None:
        return None
    person_id, began_at, ended_at, expires_at = session
    if began_at - CLOCK_ERROR <= at <= ended_at + CLOCK_ERROR:
        return int(person_id)
    if ended_at < expires_at or not ended_at < at <= ended_at + AFTER_EXPIRY:
        return None
    period = {"device_id": device_id, "since": began_at, "until": at - CLOCK_ERROR}
    return None if execute(_NEXT_ON_DEVICE, period).fetchone() else int(person_id)


_WITH_REF = """
SELECT person_id, created_at, expires_at, expires_at FROM web_session WHERE device_id = :device_id AND ref = :ref
UNION ALL
SELECT person_id, began_at, ended_at, expires_at FROM device_use
WHERE device_id = :device_id AND ref = :ref AND ref <> ''
"""
_NEXT_ON_DEVICE = """
SELECT 1 FROM web_session WHERE device_id = :device_id AND created_at > :since AND created_at < :until
UNION ALL
SELECT 1 FROM device_use WHERE device_id = :device_id AND began_at > :since AND began_at < :until
"""


def refuse(person: PersonRow | None, device: DeviceRow | None, address: str, *, is_wrong_pin: bool = False) -> None:
    """Record a wrong password, PIN or badge in the audit log, without the input, which may be a real password.

    A wrong PIN also counts towards the lockout; see `pin_lockout`.
    """
    actor = actors.service(person.organization_id if person else actors.THE_BOX)
    subject = Subject("box", 0, "unknown person")
    if device is not None:
        actor = actors.device(device.organization_id, device.id, device.name)
        subject = devices.subject_of(device)
    if person is not None:
        subject = people.subject_of(person)
    with acting(actor) as act:
        act.count("person.sign_in_refused", subject, {"address": address})
        if person is not None and is_wrong_pin:
            pin_lockout.count_wrong_pin(act, person)


def end_session(person: Actor, token_hash: bytes) -> None:
    """Sign a person out. Does nothing if the session has ended."""
    with acting(person) as act:
        if execute("DELETE FROM web_session WHERE token_hash = ?", (token_hash,)).rowcount:
            act.note("person.signed_out", _subject(person))


def end_sessions(person: Actor, keep: bytes, ref: str = "") -> None:
    """End another session of a person, or without its reference all but the one with the token hash `keep`."""
    with acting(person) as act:
        own = "DELETE FROM web_session WHERE person_id = ? AND token_hash <> ? AND ? IN (ref, '')"
        if ended := execute(own, (person.person_id, keep, ref)).rowcount:
            act.note("person.signed_out", _subject(person), {"others": ended})


def actor_of(row: SessionRow) -> Actor:
    """Return the actor for changes made in the session."""
    return actors.person(row.organization_id, row.person_id, row.name, row.device_id, row.device_name)


def _subject(person: Actor) -> Subject:
    return Subject("person", person.id, person.name)
