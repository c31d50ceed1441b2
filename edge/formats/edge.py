"""Plain format of edge, for custom gateways and scripts.

    {"reads": [{"tag": "3074257BF7194E4000001A85", "type": "rfid", "antenna": 1, "rssi": -58.5,
                "time": "2026-03-02T08:15:30.412Z"}]}

`battery` (percent) or `volts`, `temperature` (°C) and `button` (true when pressed) are sensor values of the tag. Only
`tag` is required; an unreadable optional field is left out. `type` is `rfid` (the default), `ble` or `barcode`.
`antenna` is a whole number from 1, or a name. `rssi` is in dBm, and `time` is RFC 3339 with a zone, or whole
milliseconds since 1970. A single read or an array of reads may be sent without the enclosing object.
`{"status": "online"}` is a heartbeat, `{"status": "offline"}` a last will. Unknown fields are ignored.
"""

from __future__ import annotations

from msgspec.structs import replace

from edge.formats.fields import MILLISECOND, Fields, Unreadable, describe, first, instant
from edge.formats.framing import (
    IGNORED,
    OFFLINE,
    STATUS,
    LeftOut,
    collect,
    each,
    optional,
    port_or_name,
    read_of,
    rssi,
    single,
)
from edge.formats.reads import Malformed, Parsed, PartialRead, Read
from edge.formats.sensor_values import SensorValues, of_numbers
from edge.formats.tag_values import value
from edge.validation.values import TAG_TYPES

_READ_FIELDS = frozenset(("tag", "type", "antenna", "rssi", "time"))


def parse(_topic: str, payload: bytes) -> Parsed:
    return each(payload, _message)


def is_typical(_topic: str, message: Fields) -> bool:
    """Return True for a message in this format. For recognizing the format only."""
    reads = message.get("reads")
    return isinstance(reads, list) and all(isinstance(read, dict) and "tag" in read for read in reads)


def _message(message: Fields) -> Parsed:
    if "reads" in message:
        reads = message["reads"]
        if not isinstance(reads, list):
            raise Malformed(f"reads is {describe(reads)}: write a list of reads")
        return collect(reads, _read)
    if "status" in message:
        return _status(message["status"])
    return IGNORED if _READ_FIELDS.isdisjoint(message) else single(message, _read)


def _status(status: object) -> Parsed:
    if status == "online":
        return STATUS
    if status == "offline":
        return OFFLINE
    raise Malformed(f'status is {describe(status)}: write "online" or "offline"')


def _read(read: Fields) -> Read | PartialRead:
    tag_type = first(read, "type") or "rfid"
    tag_type = tag_type.strip().lower() if isinstance(tag_type, str) else tag_type
    if tag_type not in TAG_TYPES:
        raise Unreadable(f"type is {describe(tag_type)}: write one of {', '.join(TAG_TYPES)}")
    if "tag" not in read:
        raise Unreadable("tag is missing")
    antenna = port_or_name(read.get("antenna"))
    port, name = (antenna, None) if isinstance(antenna, LeftOut) else antenna
    strength, time = rssi(read.get("rssi"), tag_type), _time(read.get("time"))
    return read_of(tag_type, value(tag_type, read["tag"]), (), port, strength, time, name, _sensors(read))


def _sensors(read: Fields) -> SensorValues | None:
    values = of_numbers(read.get("battery"), read.get("volts"), read.get("temperature"))
    if read.get("button") is not True:
        return values
    return replace(values, is_pressed=True) if values else SensorValues(is_pressed=True)


@optional
def _time(sent: object) -> int | None:
    if isinstance(sent, float):
        raise Unreadable(f"time is {describe(sent)}: write whole milliseconds")
    observed_at = instant(sent, MILLISECOND)
    if isinstance(observed_at, int):
        return observed_at
    if sent in (None, ""):
        return None
    raise Unreadable(f"time is {describe(sent)}: write a time since 1970 that ends in Z or in an offset")
