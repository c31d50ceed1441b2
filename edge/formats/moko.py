"""MOKO gateways of both generations, which use message 3004 differently.

Older (MK107): 3004 is a scan report with a list in `data`, 3003 a status. Newer (MKGW-mini 03, MKGW3, MKGW4): 3070 is a
scan report, 3004 a heartbeat with an object in `data`. The parser therefore checks both the number and `data`.
"""

from __future__ import annotations

import re

from edge.formats import ble
from edge.formats.fields import MILLISECOND, Fields, Unreadable, describe, first, instant, iso, micros, plausible
from edge.formats.framing import IGNORED, STATUS, collect, each, optional
from edge.formats.reads import Kind, Parsed, PartialRead, Read, WallTime

_SCANS = ("3004", "3070")
_STATUS = ("3003", "3004")
_BINARY_HEAD = b"\xef\x30"
_BINARY_NOTE = "binary message: in the gateway's settings (MKScannerPro) set the payload format to JSON"
_TIME = re.compile(r"([0-9]{4})-([0-9]{1,2})-([0-9]{1,2})&([0-9]{1,2}):([0-9]{1,2}):([0-9]{1,2})([+-][0-9]{1,2})")

# Newer gateways without a set clock send the uptime in seconds, which is before 1974 as milliseconds.
_LONGEST_UPTIME = 100_000_000_000


def parse(_topic: str, payload: bytes) -> Parsed:
    if payload.startswith(_BINARY_HEAD):
        return Parsed(Kind.IGNORED, note=_BINARY_NOTE)
    return each(payload, _message, if_binary=_BINARY_NOTE)


def is_typical(_topic: str, message: Fields) -> bool:
    """Return True if only these gateways send such messages. For recognizing the format only."""
    return {"msg_id", "device_info"} <= message.keys()


def _message(message: Fields) -> Parsed:
    number, data = str(message.get("msg_id")), message.get("data")
    if number in _SCANS and isinstance(data, list):
        return collect(data, _read)
    return STATUS if number in _STATUS and isinstance(data, dict) else IGNORED


def _read(entry: Fields) -> Read | PartialRead:
    scan = entry.get("value", entry)
    if not isinstance(scan, dict):
        raise Unreadable(f"value is {describe(scan)}, not an object")
    decoded = ble.ibeacon(scan.get("uuid"), scan.get("major"), scan.get("minor"))
    advertisement = first(scan, "raw data", "raw", "adv_data"), scan.get("rsp_data")
    raw = ble.advertised(*advertisement)
    others = tuple(dict.fromkeys(decoded + raw))
    return ble.sighting(
        scan.get("mac"), others, scan.get("rssi"), _time(scan.get("timestamp")), ble.sensors_in(*advertisement)
    )


@optional
def _time(stamp: object) -> int | WallTime | None:
    """Parse `2026-3-2&8:15:30+00` with the zone in hours (older), or milliseconds (newer)."""
    if isinstance(stamp, str) and "&" in stamp:
        match = _TIME.fullmatch(stamp.strip())
        if match is None:
            raise Unreadable(f"time is {describe(stamp)}, not a time")
        year, month, day, hour, minute, second, zone = match.groups()
        local = iso(f"{year}-{month:0>2}-{day:0>2}T{hour:0>2}:{minute:0>2}:{second:0>2}")
        return plausible(micros(local) - int(zone) * 3_600_000_000)
    observed_at = instant(stamp, MILLISECOND)
    is_uptime = isinstance(observed_at, int) and observed_at < _LONGEST_UPTIME * MILLISECOND
    return None if is_uptime else observed_at
