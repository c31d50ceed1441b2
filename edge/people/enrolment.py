"""Shared handhelds: enrolled once by a link, recognised by a cookie from then on."""

from __future__ import annotations

from edge import clock
from edge.audit.actors import Actor
from edge.people import devices
from edge.people.devices import DeviceRow
from edge.people.secrets import hash_secret, new_token

ENROLMENT_HOURS = 24


def invite(actor: Actor, name: str) -> tuple[DeviceRow, str]:
    """A new device and the one-time code of its link, which is valid for a day. Raises Invalid."""
    code = new_token()
    until = clock.now() + ENROLMENT_HOURS * clock.HOUR
    return devices.add_device(actor, name, hash_secret(code), until), code


def invite_again(actor: Actor, device_id: int) -> str:
    """A new one-time code for a device that lost its cookie; the old cookie works until the code is used."""
    code = new_token()
    devices.renew_enrolment(actor, device_id, hash_secret(code), clock.now() + ENROLMENT_HOURS * clock.HOUR)
    return code


def awaiting(code: str) -> DeviceRow | None:
    """The device that a link is for, while the link is valid."""
    return devices.find_by_enrolment(hash_secret(code))


def enrol(code: str) -> tuple[DeviceRow, str] | None:
    """Use up the link; the token goes into the device's cookie. None if somebody else was first."""
    token = new_token()
    device = devices.enrol(hash_secret(code), hash_secret(token))
    return (device, token) if device else None


def find(token: str) -> DeviceRow | None:
    return devices.find_by_token(hash_secret(token))
