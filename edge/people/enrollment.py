"""Enrollment of shared handhelds: a one-time link sets a permanent cookie."""

from __future__ import annotations

from edge import clock
from edge.audit.actors import Actor
from edge.people import devices
from edge.people.devices import DeviceRow
from edge.people.secrets import hash_secret, new_token

ENROLLMENT_HOURS = 24


def invite(actor: Actor, name: str) -> tuple[DeviceRow, str]:
    """Create a device and return it with its one-time code, valid for 24 hours. Raises Invalid."""
    code = new_token()
    until = clock.now() + ENROLLMENT_HOURS * clock.HOUR
    return devices.add_device(actor, name, hash_secret(code), until), code


def renew_invitation(actor: Actor, device_id: int) -> str:
    """Return a new one-time code for a device that lost its cookie. The old cookie works until the code is used."""
    code = new_token()
    devices.renew_enrollment(actor, device_id, hash_secret(code), clock.now() + ENROLLMENT_HOURS * clock.HOUR)
    return code


def find_by_code(code: str) -> DeviceRow | None:
    """Return the device that a code enrolls, or None if the code is unknown, used or expired."""
    return devices.find_by_enrollment(hash_secret(code))


def enrol(code: str) -> tuple[DeviceRow, str] | None:
    """Use a code. Returns the device and the token for its cookie, or None if the code is no longer valid."""
    token = new_token()
    device = devices.enrol(hash_secret(code), hash_secret(token))
    return (device, token) if device else None


def find(token: str) -> DeviceRow | None:
    """Return the device with the cookie `token`, or None if it is unknown or revoked."""
    return devices.find_by_token(hash_secret(token))
