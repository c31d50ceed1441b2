"""April Brother AB gateways of version 4: MessagePack, with each advertisement as bytes.

Of such bytes the first is the kind, six are the MAC, one is the strength, and the rest is the raw advertisement. The
gateway's own time counts from its start.
"""

from __future__ import annotations

import re

from edge.formats import ble, payloads
from edge.formats.fields import Fields, Unreadable, describe
from edge.formats.framing import IGNORED, gather, together
from edge.formats.reads import Malformed, Parsed, Read

_HEAD_DIGITS = 16  # kind, MAC and strength, two digits for each byte
_HEAD = re.compile(f"[0-9A-Fa-f]{{{_HEAD_DIGITS}}}")  # bytes come as digits, but a gateway may send any text


def parse(_topic: str, payload: bytes) -> Parsed:
    if not payload:
        raise Malformed("the message is empty")
    values = payloads.values(payload, "msgpack")
    return together([_message(value) for value in values if isinstance(value, dict)])


def is_typical(_topic: str, _message: Fields) -> bool:
    """Never by its JSON: it sends none."""
    return False


def _message(message: Fields) -> Parsed:
    devices = message.get("devices")
    return gather(devices, _read) if isinstance(devices, list) else IGNORED


def _read(device: object) -> Read:
    if not isinstance(device, str) or not _HEAD.match(device):
        raise Unreadable(f"{describe(device)} is no advertisement with its MAC and strength")
    strength = int(device[14:_HEAD_DIGITS], 16) - 256
    return ble.sighting(device[2:14], ble.advertised(device[_HEAD_DIGITS:]), strength, None)
