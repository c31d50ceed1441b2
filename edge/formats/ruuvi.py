"""Ruuvi Gateway: one advertisement per message. The last level of the topic is the tag's MAC."""

from __future__ import annotations

from edge.formats import ble
from edge.formats.fields import SECOND, Fields
from edge.formats.framing import IGNORED, OFFLINE, STATUS, each, instant, single
from edge.formats.reads import Parsed, PartialRead, Read


def parse(topic: str, payload: bytes) -> Parsed:
    last_level = topic.rpartition("/")[2]
    return each(payload, _status if last_level == "gw_status" else lambda scan: _message(last_level, scan))


def is_typical(_topic: str, message: Fields) -> bool:
    """Return True if only these gateways send such messages. For recognizing the format only."""
    return "gw_mac" in message and not {"gwts", "aoa", "coords"}.isdisjoint(message)


def _status(status: Fields) -> Parsed:
    return {"online": STATUS, "offline": OFFLINE}.get(str(status.get("state")), IGNORED)


def _message(address: str, scan: Fields) -> Parsed:
    if "gw_mac" not in scan:
        return IGNORED
    return single(scan, lambda scan: _read(address, scan))


def _read(address: str, scan: Fields) -> Read | PartialRead:
    """Parse an advertisement. `ts` is in seconds; a gateway without a set clock sends a counter `cnt` instead."""
    others = ble.advertised(scan.get("data"))
    return ble.sighting(
        address, others, scan.get("rssi"), instant(scan.get("ts"), SECOND), ble.sensors_in(scan.get("data"))
    )
