"""Zebra FX7500, FX9600, FXR60, FXR90 and ATR7000 with the IoT Connector.

Tag events of all operating modes, BLE advertisements and management events may share a topic and a message.
"""

from __future__ import annotations

import re

from edge.formats import ble
from edge.formats.fields import MILLISECOND, Fields, first, one_line
from edge.formats.framing import IGNORED, STATUS, antenna, each, instant, read_of, rssi, single
from edge.formats.reads import Kind, Parsed, PartialRead, Read
from edge.formats.tag_values import epc, tid

_TAG_EVENTS = frozenset(
    (
        "SIMPLE",
        "INVENTORY",
        "PORTAL",
        "CONVEYOR",
        "CUSTOM",
        "DIRECTIONALITY",
        "RAW_DIRECTIONALITY",
        "DIRECTIONALITY_RAW",
    )
)
_MANAGEMENT_EVENTS = frozenset(("heartbeat", "gpi", "gpo", "error", "warning", "firmwareUpdateProgress", "userapp"))
_PC_WORD = re.compile(r"[0-9A-Fa-f]{4}")
_USUAL_EPC_DIGITS = 24


def parse(_topic: str, payload: bytes) -> Parsed:
    return each(payload, _event)


def is_typical(_topic: str, event: Fields) -> bool:
    """Return True if only these readers send such messages. For recognizing the format only."""
    data, kind = event.get("data"), event.get("type")
    if "component" in event:
        return isinstance(kind, str) and kind in _MANAGEMENT_EVENTS
    return isinstance(data, dict) and ("idHex" in data or kind == "BLE_DATA")


def _event(event: Fields) -> Parsed:
    data = event.get("data")
    kind = event.get("type")
    if "component" in event:
        return Parsed(Kind.STATUS, note=_note(kind, data))
    if isinstance(data, dict):
        if kind == "BLE_DATA":
            return single(event, _advertisement)
        if "idHex" in data or (isinstance(kind, str) and kind in _TAG_EVENTS):
            return single(event, _tag)
    return STATUS if "response" in event else IGNORED


def _tag(event: Fields) -> Read | PartialRead:
    data = event["data"]
    value = epc(data.get("idHex"))
    others = tid(data.get("TID"))
    if data.get("format") == "fastID":
        value, others = _split(value, data.get("PC"))
    return read_of(
        "rfid",
        value,
        others,
        antenna(data.get("antenna")),
        rssi(first(data, "peakRssi", "rssi")),
        instant(event.get("timestamp"), MILLISECOND),
    )


def _split(joined: str, pc: object) -> tuple[str, tuple[str, ...]]:
    """Split a combined EPC and TID. The upper five bits of the PC are the EPC's length in 16-bit words."""
    digits = int(pc, 16) >> 11 << 2 if isinstance(pc, str) and _PC_WORD.fullmatch(pc) else 0
    if not 0 < digits < len(joined):
        if len(joined) != 2 * _USUAL_EPC_DIGITS:
            return joined, ()
        digits = _USUAL_EPC_DIGITS
    return joined[:digits], (joined, *tid(joined[digits:]))


def _advertisement(event: Fields) -> Read | PartialRead:
    data = event["data"]
    return ble.sighting(
        data.get("Address"), _beacon(data), data.get("RSSI"), instant(event.get("timestamp"), MILLISECOND)
    )


def _beacon(data: Fields) -> ble.Identities:
    for key, uuid in (("iBeacon", "uuid"), ("altBeacon", "beaconId")):
        beacon = data.get(key)
        if isinstance(beacon, dict):
            return ble.ibeacon(beacon.get(uuid), beacon.get("major"), beacon.get("minor"))
    frame = data.get("eddystone")
    return ble.eddystone(frame.get("namespace"), frame.get("instance")) if isinstance(frame, dict) else ()


def _note(kind: object, data: object) -> str | None:
    """Summarize a management event for the technician."""
    if not isinstance(data, dict):
        return None
    if kind == "heartbeat":
        return _radio_note(data.get("radio_control"))
    if kind in ("error", "warning"):
        message = one_line(data.get("message"))
        return f"{kind}: {message}" if message else str(kind)
    if kind in ("gpi", "gpo"):
        side = "input" if kind == "gpi" else "output"
        return one_line(f"{side} {data.get('pin')} {data.get('state')}")
    return "firmware update" if kind == "firmwareUpdateProgress" else None


def _radio_note(radio: object) -> str | None:
    if not isinstance(radio, dict):
        return None
    notes = []
    ports = radio.get("antennas")
    away = [port for port, state in ports.items() if state == "disconnected"] if isinstance(ports, dict) else []
    if away:
        notes.append(f"antenna{'s' if len(away) > 1 else ''} {', '.join(away)} disconnected")
    if radio.get("radioConnection") == "disconnected":
        notes.append("radio disconnected")
    if radio.get("radioActivity") == "inactive":
        notes.append("radio inactive")
    errors = radio.get("numErrors")
    if type(errors) is int and errors > 0:
        notes.append(f"errors: {errors}")
    return one_line(", ".join(notes))
