"""Shared handhelds. Administrators enroll and revoke them."""

from __future__ import annotations

from typing import Any, NamedTuple

from edge import clock
from edge.audit import actors
from edge.audit.actors import Actor
from edge.audit.audit import Subject, acting
from edge.database.connection import execute, writing
from edge.database.ids import new_id
from edge.database.models import Device, WebSession, rows
from edge.errors import Invalid, NotFound
from edge.texts import N_, fill
from edge.validation.values import MAX_NAME

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
    revoked_at: int | None


_COLUMNS = (
    Device.id,
    Device.organization_id,
    Device.name,
    Device.token_hash.is_null(False),
    Device.enrolment_until,
    Device.created_at,
    Device.last_seen_at,
    Device.revoked_at,
)


def add_device(actor: Actor, name: str, enrolment_hash: bytes, until: int) -> DeviceRow:
    """Create a device that can be enrolled before `until` (microseconds). Raises Invalid for a bad name."""
    if not name.strip() or len(name) > MAX_NAME:
        raise Invalid.one(
            "name", "invalid_value", fill(N_("Enter a device name of 1 to %(most)s characters"), most=MAX_NAME)
        )
    with acting(actor) as act:
        row = DeviceRow(new_id(), actor.organization_id, name, False, until, clock.now(), None, None)
        Device.insert(
            id=row.id,
            organization_id=row.organization_id,
            name=name,
            enrolment_hash=enrolment_hash,
            enrolment_until=until,
            created_by=actor.person_id,
            created_at=row.created_at,
        ).execute()
        act.note("device.created", subject_of(row))
    return row


def list_devices(organization_id: int) -> list[DeviceRow]:
    """Return the devices of an organization by name, without revoked ones."""
    active = (Device.organization_id == organization_id) & Device.revoked_at.is_null()
    return [DeviceRow(*row) for row in rows(Device.select(*_COLUMNS).where(active).order_by(Device.name, Device.id))]


def find_device(organization_id: int, device_id: int) -> DeviceRow | None:
    """Return a device that is not revoked, or None."""
    return _one((Device.organization_id == organization_id) & (Device.id == device_id) & Device.revoked_at.is_null())


def renew_enrollment(actor: Actor, device_id: int, enrolment_hash: bytes, until: int) -> None:
    """Replace the enrollment code. The enrolled device stays valid until the code is used. Raises NotFound."""
    with acting(actor) as act:
        device = _existing(actor.organization_id, device_id)
        update = Device.update(enrolment_hash=enrolment_hash, enrolment_until=until)
        update.where(Device.id == device_id).execute()
        act.note("device.invited", subject_of(device))


def find_by_enrollment(enrolment_hash: bytes) -> DeviceRow | None:
    """Return the device with this enrollment code, or None if the code is unknown or expired."""
    is_valid = Device.enrolment_until > clock.now()
    return _one((Device.enrolment_hash == enrolment_hash) & is_valid & Device.revoked_at.is_null())


def enrol(enrolment_hash: bytes, token_hash: bytes) -> DeviceRow | None:
    """Use the enrollment code and store the device's token. Returns None if the code was already used.

    The device itself is the actor in the audit log.
    """
    with writing():
        device = find_by_enrollment(enrolment_hash)
        if device is None:
            return None
        _enrol(actors.device(device.organization_id, device.id, device.name), device, token_hash)
    return device


def _enrol(actor: Actor, device: DeviceRow, token_hash: bytes) -> None:
    with acting(actor) as act:
        update = Device.update(token_hash=token_hash, enrolment_hash=None, enrolment_until=None)
        update.where(Device.id == device.id).execute()
        WebSession.delete().where(WebSession.device_id == device.id).execute()
        act.note("device.enrolled", subject_of(device))


def find_by_token(token_hash: bytes) -> DeviceRow | None:
    """Return the device with this token, or None if it is unknown or revoked."""
    return _one((Device.token_hash == token_hash) & Device.revoked_at.is_null())


def record_seen(device_id: int) -> None:
    """Update `last_seen_at`, at most once per minute."""
    moment = clock.now()
    stale = "SELECT 1 FROM device WHERE id = ? AND (last_seen_at IS NULL OR last_seen_at < ?)"
    if execute(stale, (device_id, moment - _SEEN_EVERY)).fetchone():
        with writing():
            Device.update(last_seen_at=moment).where(Device.id == device_id).execute()


def revoke_device(actor: Actor, device_id: int) -> None:
    """Revoke the device and end its sessions. Raises NotFound."""
    with acting(actor) as act:
        device = _existing(actor.organization_id, device_id)
        update = Device.update(revoked_at=clock.now(), token_hash=None, enrolment_hash=None)
        update.where(Device.id == device_id).execute()
        WebSession.delete().where(WebSession.device_id == device_id).execute()
        act.note("device.revoked", subject_of(device))


def subject_of(row: DeviceRow) -> Subject:
    """Return the device as the subject of an audit entry."""
    return Subject("device", row.id, row.name)


def _existing(organization_id: int, device_id: int) -> DeviceRow:
    device = find_device(organization_id, device_id)
    if device is None:
        raise NotFound("no such device")
    return device


def _one(condition: Any) -> DeviceRow | None:
    row = next(rows(Device.select(*_COLUMNS).where(condition)), None)
    return DeviceRow(*row) if row else None
