"""CSL CS463 and CS203X readers.

The installer chooses the fields and their labels on the reader. Several usual labels are accepted for each field,
numbers may be text, and fields may be missing. Other labels need a `mapping`.
"""

from __future__ import annotations

import re

from edge.formats.fields import (
    MICROSECOND,
    Fields,
    antenna,
    first,
    iso,
    micros,
    of_clock,
    one_line,
    plausible,
)
from edge.formats.framing import IGNORED, LeftOut, bare, collect, each, instant, optional, read_of, rssi
from edge.formats.reads import Kind, Malformed, Parsed, PartialRead, Read, WallTime
from edge.formats.tag_values import epc, tid

# Fields of heartbeat, power-up and error messages. They may also stand in an entry of `tags`.
_STATUS_FIELDS = frozenset(
    (
        "heartBeatFlag",
        "timeOfHeartBeat",
        "timeStampOfHeartBeat",
        "powerUpFlag",
        "readerErrorFlag",
        "readerErrorCode",
        "readerErrorDescription",
    )
)
_TYPICAL_FIELDS = _STATUS_FIELDS | {
    "rfidReaderName",
    "rfidReaderInternalSerialNumber",
    "pcEthernetMACAddress",
    "timeStampOfRead",
    "timeOfRead",
    "capturePointName",
}
_ZONE = re.compile(r"(?:UTC|GMT)?([+-]?)([0-9]{1,2})(?::?([0-9]{2}))?", re.IGNORECASE)
_FIRST_PORT = 1


def parse(_topic: str, payload: bytes) -> Parsed:
    try:
        return each(payload, _message)
    except Malformed:
        _refuse_other_data_formats(payload)
        raise


def is_typical(_topic: str, message: Fields) -> bool:
    """Return True if only these readers send such messages. For recognizing the format only."""
    tags = message.get("tags")
    fields = set(message).union(*filter(_is_object, tags)) if isinstance(tags, list) else set(message)
    return not _TYPICAL_FIELDS.isdisjoint(fields) or {"epc", "antennaPort"} <= fields


def _message(message: Fields) -> Parsed:
    tags = message.get("tags")
    if isinstance(tags, list):
        zone = message.get("timeZone")
        return collect(tags, lambda tag: _read(tag, zone))
    return IGNORED if _STATUS_FIELDS.isdisjoint(message) else Parsed(Kind.STATUS, note=_note(message))


def _read(tag: Fields, zone: object) -> Read | PartialRead | None:
    value = first(tag, "epc", "EPC")
    if value is None and not _STATUS_FIELDS.isdisjoint(tag):
        return None
    return read_of(
        "rfid",
        epc(value),
        tid(tag.get("tidBank")),
        _port(first(tag, "antennaPort", "antennaPort_Number", "AntennaPort")),
        rssi(first(tag, "rssi", "rssi_Number", "RSSI")),
        _time(first(tag, "timeStampOfRead", "timeStamp", "timeOfRead", "time"), tag.get("timeZone") or zone),
    )


@optional
def _port(sent: object) -> int:
    return antenna(sent) or _FIRST_PORT


@optional
def _time(stamp: object, zone: object) -> int | WallTime | LeftOut | None:
    """Parse microseconds in UTC (the zone is ignored), or local time such as `2026/03/02 02:15:30.412`."""
    if not isinstance(stamp, str) or not ("/" in stamp or ":" in stamp):
        return instant(stamp, MICROSECOND)
    moment = iso(stamp.strip().replace("/", "-"))
    offset = _offset(zone)
    if moment.tzinfo or offset is None:
        return of_clock(moment)
    return plausible(micros(moment) - offset)


def _is_object(entry: object) -> bool:
    return isinstance(entry, dict)


def _offset(zone: object) -> int | None:
    """Return a zone such as `-6:00` in microseconds east of UTC, None if it is missing or invalid."""
    match = _ZONE.fullmatch(zone.strip()) if isinstance(zone, str) else None
    if match is None:
        return None
    sign, hours, minutes = match.groups()
    seconds = int(hours) * 3600 + int(minutes or 0) * 60
    return (-seconds if sign == "-" else seconds) * 1_000_000


def _note(message: Fields) -> str | None:
    error = one_line(first(message, "readerErrorDescription")) or first(message, "readerErrorCode")
    if error is not None:
        port = first(message, "readerErrorAntennaPort")
        return one_line(f"reader error: {error}" + (f" (antenna {port})" if port is not None else ""))
    return "the reader was switched on" if "powerUpFlag" in message else None


def _refuse_other_data_formats(payload: bytes) -> None:
    """Raise Malformed with instructions for XML and CSV."""
    begin = bare(payload)[:1]
    if begin == b"<":
        raise Malformed("this is XML: choose JSON as the data format on the reader")
    if begin not in (b"{", b"[") and (b"," in payload or b";" in payload):
        raise Malformed("this looks like CSV: choose JSON as the data format on the reader")
