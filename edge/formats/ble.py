"""Normalize BLE identities, and extract them from raw advertisements.

Canonical forms: MAC `C3:0A:11:4E:7F:21`; iBeacon `uuid:major:minor` with a lower-case dashed UUID and decimal numbers;
Eddystone UID `namespace:instance` in lower-case hex. Incomplete identities are ignored.
"""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Iterator

from edge.formats.fields import Unreadable, describe, number
from edge.formats.framing import LeftOut, read_of, rssi
from edge.formats.reads import PartialRead, Read, WallTime
from edge.formats.sensor_values import SensorValues, of_structures

Identities = tuple[str, ...]

_MAC = re.compile(r"(?:[0-9A-Fa-f]{2}[:_-]?){5}[0-9A-Fa-f]{2}|[0-9A-Fa-f]{4}\.[0-9A-Fa-f]{4}\.[0-9A-Fa-f]{4}")
_TWO_BYTES_HEX = re.compile(r"0x[0-9A-Fa-f]{1,4}")
_SERVICE = re.compile(r"(?:0x)?(?:0000)?([0-9A-Fa-f]{4})(?:-0000-1000-8000-00805[fF]9[bB]34[fF][bB])?")
_UUID = re.compile(r"[0-9a-f]{32}")
_NAMESPACE = re.compile(r"[0-9a-f]{20}")
_INSTANCE = re.compile(r"[0-9a-f]{12}")
_IBEACON_TEXT = re.compile(r"(?:ibeacon:)?([0-9a-f-]{32,36})[-:_/.,]([0-9]{1,5})[-:_/.,]([0-9]{1,5})", re.IGNORECASE)
_EDDYSTONE_TEXT = re.compile(r"(?:eddy:)?([0-9a-f]{20})[-:_/.,]([0-9a-f]{12})", re.IGNORECASE)

# Types of advertisement structures, and the prefixes of iBeacon (Apple, 0x004C) and Eddystone (0xFEAA) data.
_SERVICE_DATA = 0x16
_MANUFACTURER_DATA = 0xFF
_IBEACON_HEAD = bytes.fromhex("4C000215")
_EDDYSTONE_SERVICE = bytes.fromhex("AAFE")
_EDDYSTONE_UID_FRAME = 0x00


def sighting(
    address: object,
    others: Identities,
    strength: object,
    observed_at: int | WallTime | LeftOut | None,
    sensors: SensorValues | None = None,
) -> Read | PartialRead:
    """Return the read of one advertisement. Its value is the MAC, or without a MAC the first other identity.

    Raises Unreadable without any identity, or for a malformed MAC.
    """
    if address is None or address == "":
        if not others:
            raise Unreadable("neither a MAC nor a beacon identity")
        value, *rest = others
        return read_of("ble", value, tuple(rest), None, rssi(strength, "ble"), observed_at, None, sensors)
    known = mac(address)
    if known is None:
        raise Unreadable(f"{describe(address)} is not a MAC")
    return read_of("ble", known, others, None, rssi(strength, "ble"), observed_at, None, sensors)


def mac(sent: object) -> str | None:
    """Return a MAC in canonical form, None if it is not 12 hex digits."""
    if type(sent) is int:  # a MAC without letters that the device sent without quotes
        sent = str(sent)
    if not isinstance(sent, str) or not _MAC.fullmatch(sent.strip()):
        return None
    digits = re.sub("[^0-9A-F]", "", sent.upper())
    return ":".join(digits[at : at + 2] for at in range(0, 12, 2))


def ibeacon(uuid: object, major: object, minor: object) -> Identities:
    """Return the canonical form of an iBeacon, empty if it is incomplete."""
    digits = _plain_hex(uuid)
    numbers = _two_bytes(major), _two_bytes(minor)
    if not _UUID.fullmatch(digits) or None in numbers:
        return ()
    dashed = "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
    return (f"{dashed}:{numbers[0]}:{numbers[1]}",)


def eddystone(namespace: object, instance: object) -> Identities:
    """Return the canonical form of an Eddystone UID, empty if it is incomplete."""
    namespace_digits, instance_digits = _plain_hex(namespace), _plain_hex(instance)
    if not (_NAMESPACE.fullmatch(namespace_digits) and _INSTANCE.fullmatch(instance_digits)):
        return ()
    return (f"{namespace_digits}:{instance_digits}",)


def identity(text: str) -> str:
    """Return the canonical form of any BLE identity; an unknown kind in lower case."""
    if known := mac(text):
        return known
    if beacon := _IBEACON_TEXT.fullmatch(text):
        return next(iter(ibeacon(*beacon.groups())), text.lower())
    if frame := _EDDYSTONE_TEXT.fullmatch(text):
        return eddystone(*frame.groups())[0]
    return text.lower()


def advertised(*raw: object) -> Identities:
    """Return the identities in raw advertisements and scan responses (hex, base64 or a list of bytes)."""
    identities: dict[str, None] = {}
    for advertisement in raw:
        for kind, data in _structures(_bytes(advertisement)):
            if kind == _MANUFACTURER_DATA:
                identities |= dict.fromkeys(_of_manufacturer_data(data))
            elif kind == _SERVICE_DATA and data.startswith(_EDDYSTONE_SERVICE):
                identities |= dict.fromkeys(_of_eddystone_frame(data[2:]))
    return tuple(identities)


def sensors_in(*raw: object) -> SensorValues | None:
    """Return the sensor values in raw advertisements, None if there are none."""
    for advertisement in raw:
        if advertisement and (values := of_structures(_structures(_bytes(advertisement)))):
            return values
    return None


def sensors_of_service(service: object, data: object) -> SensorValues | None:
    """Return the sensor values in the data (hex) of a service such as `0xfcd2` or a longer UUID."""
    match = _SERVICE.fullmatch(service.strip()) if isinstance(service, str) else None
    if match is None:
        return None
    return of_structures(iter([(_SERVICE_DATA, bytes.fromhex(match[1])[::-1] + _bytes(data))]))


def company_data(advertisement: object, company: int) -> bytes:
    """Return the manufacturer data of a company (its Bluetooth company ID) in a raw advertisement, or b""."""
    head = company.to_bytes(2, "little")
    for kind, data in _structures(_bytes(advertisement)):
        if kind == _MANUFACTURER_DATA and data.startswith(head):
            return data[2:]
    return b""


def of_manufacturer_data(data: object) -> Identities:
    """Return the iBeacon in manufacturer data (hex, starting with the company ID)."""
    return _of_manufacturer_data(_bytes(data))


def of_service_data(service: object, data: object) -> Identities:
    """Return the Eddystone UID in the data (hex) of service `feaa` or `0xfeaa`."""
    if isinstance(service, str) and service.lower().endswith("feaa"):
        return _of_eddystone_frame(_bytes(data))
    return ()


def _structures(advertisement: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield (type, data) of a sequence of length, type, data. Stops at a length of 0 or past the end."""
    at = 0
    while at + 1 < len(advertisement):
        length = advertisement[at]
        end = at + 1 + length
        if length == 0 or end > len(advertisement):
            return
        yield advertisement[at + 1], advertisement[at + 2 : end]
        at = end


def _of_manufacturer_data(data: bytes) -> Identities:
    if not data.startswith(_IBEACON_HEAD) or len(data) < 24:
        return ()
    return ibeacon(data[4:20].hex(), int.from_bytes(data[20:22]), int.from_bytes(data[22:24]))


def _of_eddystone_frame(frame: bytes) -> Identities:
    """Parse a UID frame: type (1 byte), power (1), namespace (10), instance (6). Other types have no identity."""
    if len(frame) < 18 or frame[0] != _EDDYSTONE_UID_FRAME:
        return ()
    return eddystone(frame[2:12].hex(), frame[12:18].hex())


def _bytes(sent: object) -> bytes:
    """Decode hex, base64 or a list of bytes. Base64 that consists only of hex digits is practically impossible."""
    if isinstance(sent, list) and all(type(number) is int and 0 <= number <= 0xFF for number in sent):
        return bytes(sent)
    if not isinstance(sent, str):
        return b""
    try:
        return bytes.fromhex(sent.strip().removeprefix("0x").replace(":", ""))
    except ValueError:
        pass
    try:
        return b64decode(sent, validate=True)
    except ValueError:
        return b""


def _plain_hex(sent: object) -> str:
    return sent.strip().replace("-", "").lower() if isinstance(sent, str) else ""


def _two_bytes(sent: object) -> int | None:
    if isinstance(sent, str) and _TWO_BYTES_HEX.fullmatch(sent):
        return int(sent, 16)
    try:
        counted = number(sent, "number")
    except Unreadable:
        return None
    return int(counted) if counted is not None and counted.is_integer() and 0 <= counted <= 0xFFFF else None
