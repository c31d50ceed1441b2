"""Minew G1, MG3 and MG4: an array whose first element describes the gateway; alone, it is a heartbeat."""

from __future__ import annotations

from edge.formats import ble
from edge.formats.fields import MILLISECOND, Fields, instant
from edge.formats.framing import IGNORED, bare, collect, documents
from edge.formats.payloads import is_text
from edge.formats.reads import Kind, Malformed, Parsed, Read

_BINARY_HEADS = (b"\xbb\x00", b"\xbb\x01", b"\xbb\x02")
_BINARY_NOTE = "binary message: on the gateway's page set the upload format to JSON-LONG or JSON-RAW"


def parse(_topic: str, payload: bytes) -> Parsed:
    if payload.startswith(_BINARY_HEADS):
        return Parsed(Kind.IGNORED, note=_BINARY_NOTE)
    if not is_text(bare(payload)):
        raise Malformed(_BINARY_NOTE)
    entries = documents(payload)
    if not any(isinstance(entry, dict) and ("mac" in entry or "gateway" in entry) for entry in entries):
        return IGNORED
    return collect(entries, _read)


def is_typical(_topic: str, entry: Fields) -> bool:
    """Whether only these gateways send this; to recognise them by, not to read them."""
    if "gateway" in entry:
        return "locator" in entry
    typical = ("gatewayFree", "gatewayLoad", "bleName", "ibeaconUuid")
    return "mac" in entry and not entry.keys().isdisjoint(typical)


def _read(heard: Fields) -> Read | None:
    if heard.get("type") == "Gateway" or "gateway" in heard:
        return None
    decoded = ble.ibeacon(heard.get("ibeaconUuid"), heard.get("ibeaconMajor"), heard.get("ibeaconMinor"))
    others = decoded or ble.advertised(heard.get("rawData"))
    return ble.sighting(heard.get("mac"), others, heard.get("rssi"), instant(heard.get("timestamp"), MILLISECOND))
