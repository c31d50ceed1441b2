"""Minew G1, MG3 and MG4: an array with the gateway as first element. The gateway alone is a heartbeat."""

from __future__ import annotations

from edge.formats import ble
from edge.formats.fields import MILLISECOND, Fields
from edge.formats.framing import IGNORED, collect, documents, instant
from edge.formats.reads import Kind, Parsed, PartialRead, Read
from edge.formats.sensor_values import SensorValues, of_numbers

_BINARY_HEADS = (b"\xbb\x00", b"\xbb\x01", b"\xbb\x02")
_BINARY_NOTE = "binary message: on the gateway's page set the upload format to JSON-LONG or JSON-RAW"


def parse(_topic: str, payload: bytes) -> Parsed:
    if payload.startswith(_BINARY_HEADS):
        return Parsed(Kind.IGNORED, note=_BINARY_NOTE)
    entries = documents(payload, if_binary=_BINARY_NOTE)
    if not any(isinstance(entry, dict) and ("mac" in entry or "gateway" in entry) for entry in entries):
        return IGNORED
    return collect(entries, _read)


def is_typical(_topic: str, entry: Fields) -> bool:
    """Return True if only these gateways send such messages. For recognizing the format only."""
    if "gateway" in entry:
        return "locator" in entry
    typical = ("gatewayFree", "gatewayLoad", "bleName", "ibeaconUuid")
    return "mac" in entry and not entry.keys().isdisjoint(typical)


def _read(scan: Fields) -> Read | PartialRead | None:
    if scan.get("type") == "Gateway" or "gateway" in scan:
        return None
    decoded = ble.ibeacon(scan.get("ibeaconUuid"), scan.get("ibeaconMajor"), scan.get("ibeaconMinor"))
    others = decoded or ble.advertised(scan.get("rawData"))
    observed_at = instant(scan.get("timestamp"), MILLISECOND)
    return ble.sighting(scan.get("mac"), others, scan.get("rssi"), observed_at, _sensors(scan))


def _sensors(scan: Fields) -> SensorValues | None:
    """Return the sensor values. A battery of 0 means that the tag does not send it."""
    return of_numbers(scan.get("battery") or None, None, scan.get("temperature")) or ble.sensors_in(scan.get("rawData"))
