"""Shared handhelds of an organization: a one-time link enrolls one, which then has a permanent cookie.

Only hashes of links and cookies are stored.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from edge import clock
from edge.audit import actors
from edge.audit.actors import Actor
from edge.audit.audit import acting
from edge.audit.kinds import Kind
from edge.database.connection import execute, writing
from edge.database.ids import new_id
from edge.errors import Invalid
from edge.people.secrets import hash_secret, new_token
from edge.texts import N_, fill
from edge.validation.values import MAX_NAME

ENROLLMENT_HOURS = 24
_SEEN_EVERY = 60 * clock.SECOND  # minimum time between two updates of `last_seen_at`


class DeviceRow(NamedTuple):
    """A handheld. Times are microseconds since the epoch, UTC."""

    id: int
    organization_id: int
    name: str
    is_enrolled: bool
    enrolment_until: int | None
    created_at: int
    last_seen_at: int | None


def _row(row: Sequence[Any]) -> DeviceRow:
    device = DeviceRow._make(row)
    return device._replace(is_enrolled=bool(device.is_enrolled))


KIND = Kind(
    "device",
    "device",
    "SELECT id, organization_id, name, token_hash IS NOT NULL, enrolment_until, created_at, last_seen_at FROM device",
    _row,
    key="id",
    order="name, id",
    live="revoked_at IS NULL",
)
get, list_devices, subject_of = KIND.get, KIND.list_of, KIND.subject


def invite(actor: Actor, name: str) -> tuple[DeviceRow, str]:
    """Create a device and return it with its one-time code, valid for 24 hours. Raises Invalid for a bad name."""
    if not name.strip() or len(name) > MAX_NAME:
        raise Invalid.one(
            "name", "invalid_value", fill(N_("Enter a device name of 1 to %(most)s characters"), most=MAX_NAME)
        )
    code = new_token()
    columns = {"id": new_id(), "name": name, "created_by": actor.person_id, **_enrollment(code)}
    return KIND.add(actor, columns), code


def renew_invitation(actor: Actor, device_id: int) -> str:
    """Return a new one-time code for a device that lost its cookie. The old cookie works until the code is used.

    Raises NotFound.
    """
    code = new_token()
    KIND.mark(actor, device_id, "invited", _enrollment(code))
    return code


def _enrollment(code: str) -> dict[str, Any]:
    return {"enrolment_hash": hash_secret(code), "enrolment_until": clock.now() + ENROLLMENT_HOURS * clock.HOUR}


def find_by_code(code: str) -> DeviceRow | None:
    """Return the device that a code enrolls, or None if the code is unknown, used or expired."""
    valid = KIND.where("enrolment_hash = ? AND enrolment_until > ?", hash_secret(code), clock.now())
    return next(iter(valid), None)


def enrol(code: str) -> tuple[DeviceRow, str] | None:
    """Use a code. Returns the device and the token for its cookie, or None if the code is no longer valid.

    The device itself is the actor in the audit log.
    """
    token = new_token()
    with writing():
        device = find_by_code(code)
        if device is None:
            return None
        columns = {"token_hash": hash_secret(token), "enrolment_hash": None, "enrolment_until": None}
        _end_sessions_and(actors.device(device.organization_id, device.id, device.name), device.id, "enrolled", columns)
    return device, token


def find(token: str) -> DeviceRow | None:
    """Return the device with the cookie `token`, or None if it is unknown or revoked."""
    return next(iter(KIND.where("token_hash = ?", hash_secret(token))), None)


def record_seen(device_id: int) -> None:
    """Update `last_seen_at`, at most once per minute."""
    moment = clock.now()
    stale = "id = ? AND (last_seen_at IS NULL OR last_seen_at < ?)"
    if KIND.where(stale, device_id, moment - _SEEN_EVERY):
        with writing():
            execute("UPDATE device SET last_seen_at = ? WHERE id = ?", (moment, device_id))


def revoke_device(actor: Actor, device_id: int) -> None:
    """Revoke the device and end its sessions. Raises NotFound."""
    columns = {"revoked_at": clock.now(), "token_hash": None, "enrolment_hash": None}
    _end_sessions_and(actor, device_id, "revoked", columns)


def _end_sessions_and(actor: Actor, device_id: int, participle: str, columns: dict[str, Any]) -> None:
    with acting(actor):
        KIND.mark(actor, device_id, participle, columns)
        execute("DELETE FROM web_session WHERE device_id = ?", (device_id,))
