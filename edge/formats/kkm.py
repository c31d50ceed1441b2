"""KKM gateways: the advertisements of a moment, raw (`data1`, and `data2` for the scan response) or decoded.

Their time has no zone (`2026-03-02 08:15:30`), so it says nothing about when a tag was heard.
"""

from __future__ import annotations

from edge.formats import ble
from edge.formats.fields import MILLISECOND, Fields, first, instant, one_line
from edge.formats.framing import IGNORED, STATUS, collect, each
from edge.formats.reads import Kind, Parsed, Read

_SCANS = "advData"


def parse(_topic: str, payload: bytes) -> Parsed:
    return each(payload, _message)


def is_typical(_topic: str, message: Fields) -> bool:
    """Whether only these gateways send this; to recognise them by, not to read them."""
    return {"msg", "gmac"} <= message.keys()


def _message(message: Fields) -> Parsed:
    scans = message.get("obj")
    if message.get("msg") == _SCANS and isinstance(scans, list):
        return collect(scans, _read)
    name = one_line(message.get("msg"))
    if name in (None, _SCANS) or "gmac" not in message:
        return IGNORED
    return STATUS if name == "alive" else Parsed(Kind.STATUS, note=name)


def _read(heard: Fields) -> Read:
    decoded = ble.ibeacon(
        heard.get("uuid"), first(heard, "majorID", "majorId", "major"), first(heard, "minorID", "minorId", "minor")
    ) + ble.eddystone(heard.get("nid"), heard.get("sid"))
    raw = ble.advertised(heard.get("data1"), heard.get("data2"))
    others = tuple(dict.fromkeys(decoded + raw))
    return ble.sighting(heard.get("dmac"), others, heard.get("rssi"), instant(heard.get("time"), MILLISECOND))
