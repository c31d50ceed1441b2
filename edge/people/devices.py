"""Handhelds that people share, enrolled and revoked by administrators."""

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
from edge.validation.values import MAX_NAME

_SEEN_EVERY = 60 * clock.SECOND  # `last_seen_at` is not written more often than this


class DeviceRow(NamedTuple):
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
    """Raises Invalid for a name that is empty or too long."""
    if not name.strip() or len(name) > MAX_NAME:
        raise Invalid.one("name", "invalid_value", f"Give the device a name of 1 to {MAX_NAME} characters")
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
    """Without those that were revoked."""
    wanted = (Device.organization_id == organization_id) & Device.revoked_at.is_null()
    return [DeviceRow(*row) for row in rows(Device.select(*_COLUMNS).where(wanted).order_by(Device.name, Device.id))]


def find_device(organization_id: int, device_id: int) -> DeviceRow | None:
    return _one((Device.organization_id == organization_id) & (Device.id == device_id) & Device.revoked_at.is_null())


def renew_enrolment(actor: Actor, device_id: int, enrolment_hash: bytes, until: int) -> None:
    """Raises NotFound."""
    with acting(actor) as act:
        device = _existing(actor.organization_id, device_id)
        change = Device.update(enrolment_hash=enrolment_hash, enrolment_until=until)
        change.where(Device.id == device_id).execute()
        act.note("device.invited", subject_of(device))


def find_by_enrolment(enrolment_hash: bytes) -> DeviceRow | None:
    in_time = Device.enrolment_until > clock.now()
    return _one((Device.enrolment_hash == enrolment_hash) & in_time & Device.revoked_at.is_null())


def enrol(enrolment_hash: bytes, token_hash: bytes) -> DeviceRow | None:
    """The link works once: the second of two that use it gets None. The actor is the device itself."""
    with writing():
        device = find_by_enrolment(enrolment_hash)
        if device is None:
            return None
        _enrol(actors.device(device.organization_id, device.id, device.name), device, token_hash)
    return device


def _enrol(actor: Actor, device: DeviceRow, token_hash: bytes) -> None:
    with acting(actor) as act:
        change = Device.update(token_hash=token_hash, enrolment_hash=None, enrolment_until=None)
        change.where(Device.id == device.id).execute()
        WebSession.delete().where(WebSession.device_id == device.id).execute()
        act.note("device.enrolled", subject_of(device))


def find_by_token(token_hash: bytes) -> DeviceRow | None:
    return _one((Device.token_hash == token_hash) & Device.revoked_at.is_null())


def seen(device_id: int) -> None:
    """Note that the device sent a request just now."""
    moment = clock.now()
    stale = "SELECT 1 FROM device WHERE id = ? AND (last_seen_at IS NULL OR last_seen_at < ?)"
    if execute(stale, (device_id, moment - _SEEN_EVERY)).fetchone():
        with writing():
            Device.update(last_seen_at=moment).where(Device.id == device_id).execute()


def revoke_device(actor: Actor, device_id: int) -> None:
    """Ends the sessions on it. Raises NotFound."""
    with acting(actor) as act:
        device = _existing(actor.organization_id, device_id)
        change = Device.update(revoked_at=clock.now(), token_hash=None, enrolment_hash=None)
        change.where(Device.id == device_id).execute()
        WebSession.delete().where(WebSession.device_id == device_id).execute()
        act.note("device.revoked", subject_of(device))


def subject_of(row: DeviceRow) -> Subject:
    """As the audit names it."""
    return Subject("device", row.id, row.name)


def _existing(organization_id: int, device_id: int) -> DeviceRow:
    device = find_device(organization_id, device_id)
    if device is None:
        raise NotFound("no such device")
    return device


def _one(condition: Any) -> DeviceRow | None:
    row = next(rows(Device.select(*_COLUMNS).where(condition)), None)
    return DeviceRow(*row) if row else None
