"""SmartReader application on Impinj R700 readers, and older Speedway bridges with the same format.

The heartbeat is a pseudo tag with the EPC `*****`, alone or among real reads.
"""

from __future__ import annotations

from edge.formats.fields import MICROSECOND, Fields, one_line
from edge.formats.framing import IGNORED, OFFLINE, STATUS, antenna, collect, each, instant, read_of, rssi
from edge.formats.reads import Kind, Parsed, PartialRead, Read
from edge.formats.tag_values import epc, tid

_HEARTBEAT_EPC = "*****"


def parse(_topic: str, payload: bytes) -> Parsed:
    return each(payload, _message)


def is_typical(_topic: str, message: Fields) -> bool:
    """Return True if only these readers send such messages. For recognizing the format only."""
    return not {"tag_reads", "smartreader-mqtt-status", "smartreader-status"}.isdisjoint(message)


def _message(message: Fields) -> Parsed:
    tags = message.get("tag_reads")
    if isinstance(tags, list):
        return collect(tags, _read)
    connection = message.get("smartreader-mqtt-status")
    if connection is not None:
        return OFFLINE if connection == "disconnected" else STATUS
    if "smartreader-status" in message:
        return Parsed(Kind.STATUS, note=one_line(message["smartreader-status"]))
    return IGNORED if {"readerName", "reader_name"}.isdisjoint(message) else STATUS


def _read(tag: Fields) -> Read | PartialRead | None:
    value = tag.get("epc")
    if value == _HEARTBEAT_EPC or tag.get("isHeartBeat") is True or tag.get("isInventoryStatus") is True:
        return None
    return read_of(
        "rfid",
        epc(value),
        tid(tag.get("tid")),
        antenna(tag.get("antennaPort")),
        rssi(tag.get("peakRssi")),
        instant(tag.get("firstSeenTimestamp"), MICROSECOND),
    )
