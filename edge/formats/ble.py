"""BLE identities in one spelling each, and the identities inside a raw advertisement.

The MAC is `C3:0A:11:4E:7F:21`, an iBeacon `uuid:major:minor` with the UUID in lower case and dashes and the
numbers decimal, an Eddystone UID `namespace:instance` in lower-case hex. An identity that is not whole is no
identity: the advertisement still has its MAC.
"""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Iterator

from edge.formats.fields import Unreadable, describe, number, rssi
from edge.formats.reads import Read, WallTime

Identities = tuple[str, ...]

_MAC = re.compile(r"(?:[0-9A-Fa-f]{2}[:_-]?){5}[0-9A-Fa-f]{2}|[0-9A-Fa-f]{4}\.[0-9A-Fa-f]{4}\.[0-9A-Fa-f]{4}")
_TWO_BYTES_HEX = re.compile(r"0x[0-9A-Fa-f]{1,4}")
_UUID = re.compile(r"[0-9a-f]{32}")
_NAMESPACE = re.compile(r"[0-9a-f]{20}")
_INSTANCE = re.compile(r"[0-9a-f]{12}")
_IBEACON_TEXT = re.compile(r"(?:ibeacon:)?([0-9a-f-]{32,36})[-:_/.,]([0-9]{1,5})[-:_/.,]([0-9]{1,5})", re.IGNORECASE)
_EDDYSTONE_TEXT = re.compile(r"(?:eddy:)?([0-9a-f]{20})[-:_/.,]([0-9a-f]{12})", re.IGNORECASE)

# Advertisement structure types, and what begins an iBeacon (Apple, 0x004C) and an Eddystone frame (0xFEAA).
_SERVICE_DATA = 0x16
_MANUFACTURER_DATA = 0xFF
_IBEACON_HEAD = bytes.fromhex("4C000215")
_EDDYSTONE_SERVICE = bytes.fromhex("AAFE")
_EDDYSTONE_UID_FRAME = 0x00


def sighting(address: object, others: Identities, strength: object, observed_at: int | WallTime | None) -> Read:
    """One advertisement as one read: the MAC where it is known, else the first of the other identities."""
    if address is None or address == "":
        if not others:
            raise Unreadable("neither a MAC nor a beacon identity")
        value, *rest = others
        return Read("ble", value, tuple(rest), None, rssi(strength), observed_at)
    known = mac(address)
    if known is None:
        raise Unreadable(f"{describe(address)} is not a MAC")
    return Read("ble", known, others, None, rssi(strength), observed_at)


def mac(sent: object) -> str | None:
    """None for anything that is not twelve hex digits in pairs."""
    if type(sent) is int:  # it has no letters by chance, and the device left the quotes out
        sent = str(sent)
    if not isinstance(sent, str) or not _MAC.fullmatch(sent.strip()):
        return None
    digits = re.sub("[^0-9A-F]", "", sent.upper())
    return ":".join(digits[at : at + 2] for at in range(0, 12, 2))


def ibeacon(uuid: object, major: object, minor: object) -> Identities:
    digits = _plain_hex(uuid)
    numbers = _two_bytes(major), _two_bytes(minor)
    if not _UUID.fullmatch(digits) or None in numbers:
        return ()
    dashed = "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
    return (f"{dashed}:{numbers[0]}:{numbers[1]}",)


def eddystone(namespace: object, instance: object) -> Identities:
    space, one = _plain_hex(namespace), _plain_hex(instance)
    return (f"{space}:{one}",) if _NAMESPACE.fullmatch(space) and _INSTANCE.fullmatch(one) else ()


def identity(spelt: str) -> str:
    """Any BLE identity in its one spelling; one of no known kind in lower case."""
    if known := mac(spelt):
        return known
    if beacon := _IBEACON_TEXT.fullmatch(spelt):
        return next(iter(ibeacon(*beacon.groups())), spelt.lower())
    if frame := _EDDYSTONE_TEXT.fullmatch(spelt):
        return eddystone(*frame.groups())[0]
    return spelt.lower()


def advertised(*raw: object) -> Identities:
    """The identities in raw advertisements (hex): the one heard and the scan response, where there is one."""
    found: dict[str, None] = {}
    for advertisement in raw:
        for kind, data in _structures(_bytes(advertisement)):
            if kind == _MANUFACTURER_DATA:
                found |= dict.fromkeys(_of_manufacturer_data(data))
            elif kind == _SERVICE_DATA and data.startswith(_EDDYSTONE_SERVICE):
                found |= dict.fromkeys(_of_eddystone_frame(data[2:]))
    return tuple(found)


def company_data(advertisement: object, company: int) -> bytes:
    """What stands behind a company's number in a raw advertisement; empty where that company has none in it."""
    head = company.to_bytes(2, "little")
    for kind, data in _structures(_bytes(advertisement)):
        if kind == _MANUFACTURER_DATA and data.startswith(head):
            return data[2:]
    return b""


def of_manufacturer_data(data: object) -> Identities:
    """The iBeacon in manufacturer data (hex, company number first)."""
    return _of_manufacturer_data(_bytes(data))


def of_service_data(service: object, data: object) -> Identities:
    """The Eddystone UID in the data (hex) of service `feaa`, also spelt `0xfeaa`."""
    if isinstance(service, str) and service.lower().endswith("feaa"):
        return _of_eddystone_frame(_bytes(data))
    return ()


def _structures(advertisement: bytes) -> Iterator[tuple[int, bytes]]:
    """A run of length, type, data; the length counts the type. Zero or a length past the end ends it."""
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
    """Frame type, power at 0 m, namespace of 10 bytes, instance of 6. Other frame types carry no identity."""
    if len(frame) < 18 or frame[0] != _EDDYSTONE_UID_FRAME:
        return ()
    return eddystone(frame[2:12].hex(), frame[12:18].hex())


def _bytes(sent: object) -> bytes:
    """From hexadecimal, from base64, which practically never has hexadecimal digits only, or from numbers."""
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
