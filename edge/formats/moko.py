"""MOKO gateways, both generations, which use message 3004 for different things.

Older (MK107): 3004 is a scan report, its `data` a list; 3003 a status. Newer (MKGW-mini 03, MKGW3, MKGW4):
3070 is a scan report, 3004 a heartbeat, its `data` an object. So number and kind of `data` decide together.
"""

from __future__ import annotations

import re

from edge.formats import ble
from edge.formats.fields import MILLISECOND, Fields, Unreadable, describe, first, instant, iso, micros, plausible
from edge.formats.framing import IGNORED, STATUS, bare, collect, each
from edge.formats.payloads import is_text
from edge.formats.reads import Kind, Malformed, Parsed, Read, WallTime

_SCANS = ("3004", "3070")
_STATUS = ("3003", "3004")
_BINARY_HEAD = b"\xef\x30"
_BINARY_NOTE = "binary message: in the gateway's settings (MKScannerPro) set the payload format to JSON"
_TIME = re.compile(r"([0-9]{4})-([0-9]{1,2})-([0-9]{1,2})&([0-9]{1,2}):([0-9]{1,2}):([0-9]{1,2})([+-][0-9]{1,2})")

# A newer gateway whose clock is not set sends the seconds since its start. As milliseconds, this is in 1973.
_LONGEST_UPTIME = 100_000_000_000


def parse(_topic: str, payload: bytes) -> Parsed:
    if payload.startswith(_BINARY_HEAD):
        return Parsed(Kind.IGNORED, note=_BINARY_NOTE)
    if not is_text(bare(payload)):
        raise Malformed(_BINARY_NOTE)
    return each(payload, _message)


def is_typical(_topic: str, message: Fields) -> bool:
    """Whether only these gateways send this; to recognise them by, not to read them."""
    return {"msg_id", "device_info"} <= message.keys()


def _message(message: Fields) -> Parsed:
    number, data = str(message.get("msg_id")), message.get("data")
    if number in _SCANS and isinstance(data, list):
        return collect(data, _read)
    return STATUS if number in _STATUS and isinstance(data, dict) else IGNORED


def _read(entry: Fields) -> Read:
    heard = entry.get("value", entry)
    if not isinstance(heard, dict):
        raise Unreadable(f"value is {describe(heard)}, not an object")
    decoded = ble.ibeacon(heard.get("uuid"), heard.get("major"), heard.get("minor"))
    raw = ble.advertised(first(heard, "raw data", "raw", "adv_data"), heard.get("rsp_data"))
    others = tuple(dict.fromkeys(decoded + raw))
    return ble.sighting(heard.get("mac"), others, heard.get("rssi"), _time(heard.get("timestamp")))


def _time(stamp: object) -> int | WallTime | None:
    """`2026-3-2&8:15:30+00` with the zone in hours (older), or milliseconds (newer)."""
    if isinstance(stamp, str) and "&" in stamp:
        spelt = _TIME.fullmatch(stamp.strip())
        if spelt is None:
            raise Unreadable(f"time is {describe(stamp)}, not a time")
        year, month, day, hour, minute, second, zone = spelt.groups()
        local = iso(f"{year}-{month:0>2}-{day:0>2}T{hour:0>2}:{minute:0>2}:{second:0>2}")
        return plausible(micros(local) - int(zone) * 3_600_000_000)
    observed_at = instant(stamp, MILLISECOND)
    is_uptime = isinstance(observed_at, int) and observed_at < _LONGEST_UPTIME * MILLISECOND
    return None if is_uptime else observed_at
