"""KKM gateways: a list of advertisements, raw (`data1`, and `data2` for the scan response) or decoded.

Times have no zone (`2026-03-02 08:15:30`), so they are used only with a configured time zone.
"""

from __future__ import annotations

from edge.formats import ble
from edge.formats.fields import MILLISECOND, Fields, first, one_line
from edge.formats.framing import IGNORED, STATUS, collect, each, instant
from edge.formats.reads import Kind, Parsed, PartialRead, Read

_SCANS = "advData"


def parse(_topic: str, payload: bytes) -> Parsed:
    return each(payload, _message)


def is_typical(_topic: str, message: Fields) -> bool:
    """Return True if only these gateways send such messages. For recognizing the format only."""
    return {"msg", "gmac"} <= message.keys()


def _message(message: Fields) -> Parsed:
    scans = message.get("obj")
    if message.get("msg") == _SCANS and isinstance(scans, list):
        return collect(scans, _read)
    name = one_line(message.get("msg"))
    if name in (None, _SCANS) or "gmac" not in message:
        return IGNORED
    return STATUS if name == "alive" else Parsed(Kind.STATUS, note=name)


def _read(scan: Fields) -> Read | PartialRead:
    decoded = ble.ibeacon(
        scan.get("uuid"), first(scan, "majorID", "majorId", "major"), first(scan, "minorID", "minorId", "minor")
    ) + ble.eddystone(scan.get("nid"), scan.get("sid"))
    raw = ble.advertised(scan.get("data1"), scan.get("data2"))
    others = tuple(dict.fromkeys(decoded + raw))
    return ble.sighting(
        scan.get("dmac"),
        others,
        scan.get("rssi"),
        instant(scan.get("time"), MILLISECOND),
        ble.sensors_in(scan.get("data1"), scan.get("data2")),
    )
