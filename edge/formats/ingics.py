"""INGICS iGS01 to iGS05: lines such as `$GPRP,C30A114E7F21,E1C8BC3DFF84,-58,0201061AFF4C00…,1772439330`.

A line has kind, tag, gateway, RSSI, raw advertisement, and optionally the time in seconds. The message format "JSON
string" wraps the lines: `{"data": ["$GPRP,…"]}`. "JSON string (decoded)" has objects instead: `{"data": [{"ts":
1772439330, "gw": "E1C8BC3DFF84", "tag": "C30A114E7F21", "rssi": -58, "type": "Unknown", "raw_data": "0201061AFF…"}]}`.
`$HBRP` is the heartbeat, `$GPSR` the position of the gateway itself.
"""

from __future__ import annotations

import re

from edge.formats import ble
from edge.formats.fields import SECOND, Fields, Unreadable, describe
from edge.formats.framing import as_text, bare, each, gather, instant
from edge.formats.reads import Kind, Parsed, PartialRead, Read

_REPORT = re.compile(
    r"\$[0-9A-Z]{4},([0-9A-Fa-f]{12}),[0-9A-Fa-f]{12},(-?[0-9]{1,3}),([0-9A-Fa-f]*)(?:,([0-9.]{1,20}))?"
)
_OWN_STATUS = ("$HBRP", "$GPSR")
_DECODED = frozenset(("gw", "tag", "rssi"))
_NO_LINES_NOTE = "no lines such as $GPRP,…: on the gateway's page choose the raw format, or use a mapping for its JSON"


def parse(_topic: str, payload: bytes) -> Parsed:
    if not bare(payload).startswith(b"$"):
        return each(payload, _wrapped)
    return gather(as_text(payload).splitlines(), _line)


def is_typical(_topic: str, message: Fields) -> bool:
    """Return True if only these gateways send such messages. For recognizing the format only."""
    entries = message.get("data")
    return isinstance(entries, list) and any(
        bool(_REPORT.match(entry)) if isinstance(entry, str) else _is_decoded(entry) for entry in entries
    )


def _wrapped(message: Fields) -> Parsed:
    entries = message.get("data")
    if isinstance(entries, list) and any(_is_decoded(one) or str(one).startswith("$") for one in entries):
        return gather(entries, _entry)
    is_other_json = "rssi" in message and any(map(ble.mac, message.values()))
    return Parsed(Kind.IGNORED, note=_NO_LINES_NOTE if is_other_json else None)


def _is_decoded(entry: object) -> bool:
    return isinstance(entry, dict) and entry.keys() >= _DECODED


def _entry(entry: object) -> Read | PartialRead | None:
    """Parse a line or a decoded report. A gateway reports itself as a tag for its own status."""
    if not isinstance(entry, dict):
        return _line(entry)
    if entry.get("tag") == entry.get("gw"):
        return None
    beacons = ble.advertised(entry.get("raw_data"))
    return ble.sighting(entry.get("tag"), beacons, entry.get("rssi"), instant(entry.get("ts"), SECOND))


def _line(line: object) -> Read | PartialRead | None:
    if not isinstance(line, str):
        raise Unreadable(f"{describe(line)} where a line should be")
    stripped = line.strip()
    if not stripped or stripped.startswith(_OWN_STATUS):
        return None
    report = _REPORT.fullmatch(stripped)
    if report is None:
        raise Unreadable(f"{describe(stripped)} is not a report of an INGICS gateway")
    address, strength, advertisement, time = report.groups()
    return ble.sighting(address, ble.advertised(advertisement), strength, instant(time, SECOND))
