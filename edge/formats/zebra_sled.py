"""Zebra RFD40 and RFD90 sleds: handhelds that publish like a fixed reader, without antennas.

A message has RFID reads, barcodes or both, with a common time.
"""

from __future__ import annotations

from edge.formats.fields import MILLISECOND, Fields, Unreadable, one_line, text
from edge.formats.framing import IGNORED, OFFLINE, STATUS, collect, each, instant, read_of, rssi, together
from edge.formats.reads import Kind, Parsed, PartialRead, Read
from edge.formats.tag_values import epc


def parse(_topic: str, payload: bytes) -> Parsed:
    return each(payload, _message)


def is_typical(_topic: str, message: Fields) -> bool:
    """Return True if only these sleds send such messages. For recognizing the format only."""
    data = message.get("data")
    return isinstance(data, dict) and not {"tagData", "barcodeData"}.isdisjoint(data)


def _message(message: Fields) -> Parsed:
    data = message.get("data")
    scans = data if isinstance(data, dict) else {}
    time = message.get("timestamp")
    lists = []
    if isinstance(tags := scans.get("tagData"), list):
        lists.append(collect(tags, lambda tag: _tag(tag, time)))
    if isinstance(codes := scans.get("barcodeData"), list):
        lists.append(collect(codes, lambda code: _barcode(code, time)))
    return together(lists) if lists else _event(message, scans)


def _tag(tag: Fields, time: object) -> Read | PartialRead:
    return read_of("rfid", epc(tag.get("EPCid")), (), None, rssi(tag.get("peakRssi")), instant(time, MILLISECOND))


def _barcode(code: Fields, time: object) -> Read | PartialRead:
    value = text(code.get("decodedBarcode"), "barcode")
    if value is None:
        raise Unreadable("the barcode is missing")
    return read_of("barcode", value, observed_at=instant(time, MILLISECOND))


def _event(message: Fields, data: Fields) -> Parsed:
    """Parse heartbeats, alerts and the connection state, which is also sent as last will."""
    state = message.get("connectionState") or data.get("connectionState")
    if state == "DISCONNECTED":
        return OFFLINE
    if state == "CONNECTED":
        return STATUS
    name = one_line(message.get("eventName"))
    if name is None:
        return IGNORED
    return STATUS if name == "heartbeat" else Parsed(Kind.STATUS, note=name)
