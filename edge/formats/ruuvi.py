"""Ruuvi Gateway: one advertisement per message; the tag's MAC stands only in the topic, as its last level."""

from __future__ import annotations

from edge.formats import ble
from edge.formats.fields import SECOND, Fields, instant
from edge.formats.framing import IGNORED, OFFLINE, STATUS, each, single
from edge.formats.reads import Parsed, Read


def parse(topic: str, payload: bytes) -> Parsed:
    last_level = topic.rpartition("/")[2]
    return each(payload, _status if last_level == "gw_status" else lambda heard: _message(last_level, heard))


def is_typical(_topic: str, message: Fields) -> bool:
    """Whether only these gateways send this; to recognise them by, not to read them."""
    return "gw_mac" in message and not {"gwts", "aoa", "coords"}.isdisjoint(message)


def _status(status: Fields) -> Parsed:
    return {"online": STATUS, "offline": OFFLINE}.get(str(status.get("state")), IGNORED)


def _message(address: str, heard: Fields) -> Parsed:
    if "gw_mac" not in heard:
        return IGNORED
    return single(heard, lambda heard: _read(address, heard))


def _read(address: str, heard: Fields) -> Read:
    """`ts` in seconds, number or text. A gateway whose clock is not set sends a counter, `cnt`, instead."""
    others = ble.advertised(heard.get("data"))
    return ble.sighting(address, others, heard.get("rssi"), instant(heard.get("ts"), SECOND))
