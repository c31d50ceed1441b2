"""April Brother AB gateway V4: MessagePack, with each advertisement as bytes.

The bytes are: kind (1), MAC (6), RSSI + 256 (1), raw advertisement. The gateway's time counts from its start and is
ignored.
"""

from __future__ import annotations

import re

from edge.formats import ble, payloads
from edge.formats.fields import Fields, Unreadable, describe
from edge.formats.framing import IGNORED, gather, together
from edge.formats.reads import Malformed, Parsed, PartialRead, Read

_HEAD_DIGITS = 16  # kind, MAC and RSSI, two hex digits for each byte
_HEAD = re.compile(f"[0-9A-Fa-f]{{{_HEAD_DIGITS}}}")


def parse(_topic: str, payload: bytes) -> Parsed:
    if not payload:
        raise Malformed("the message is empty")
    values = payloads.values(payload, "msgpack")
    return together([_message(value) for value in values if isinstance(value, dict)])


def is_typical(_topic: str, _message: Fields) -> bool:
    """Return False: these gateways never send JSON."""
    return False


def _message(message: Fields) -> Parsed:
    devices = message.get("devices")
    return gather(devices, _read) if isinstance(devices, list) else IGNORED


def _read(device: object) -> Read | PartialRead:
    if not isinstance(device, str) or not _HEAD.match(device):
        raise Unreadable(f"{describe(device)} is not an advertisement with MAC and strength")
    strength = int.from_bytes(bytes.fromhex(device[14:_HEAD_DIGITS]), signed=True)
    return ble.sighting(device[2:14], ble.advertised(device[_HEAD_DIGITS:]), strength, None)
