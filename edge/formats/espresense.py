"""ESPresense: one device per message on `…/devices/<id>/<room>`. The room is the reader. Messages have no time."""

from __future__ import annotations

from edge.formats import ble
from edge.formats.fields import Fields, first, text
from edge.formats.framing import IGNORED, OFFLINE, STATUS, bare, each, single
from edge.formats.reads import Parsed, PartialRead, Read

_WILL = {b"online": STATUS, b"offline": OFFLINE}


def parse(topic: str, payload: bytes) -> Parsed:
    match topic.split("/")[-3:]:
        case ["devices", _, _]:
            return each(payload, _device)
        case ["rooms", _, "status"]:
            return _WILL.get(bare(payload).lower(), IGNORED)
        case ["rooms", _, "telemetry"]:
            return STATUS
    return IGNORED


def is_typical(topic: str, message: Fields) -> bool:
    """Return True if only these rooms send such messages. For recognizing the format only."""
    return topic.split("/")[-3:-2] == ["devices"] and not {"rssi@1m", "rxAdj", "rssiVar"}.isdisjoint(message)


def _device(device: Fields) -> Parsed:
    return single(device, _read) if "id" in device or "mac" in device else IGNORED


def _read(device: Fields) -> Read | PartialRead:
    """Parse a device. Its ID has a prefix (`iBeacon:`, `eddy:`, `known:`, `irk:`, ...) or is the MAC.

    Unlike the MAC of a phone or a watch, the ID is stable.
    """
    address = first(device, "mac")
    name = text(device.get("id"), "id")
    known = ble.identity(name) if name else None
    others = (known,) if known and known != ble.mac(address) else ()
    return ble.sighting(address, others, device.get("rssi"), None)
