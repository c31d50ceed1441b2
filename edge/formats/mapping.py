"""Parse messages with a mapping, for readers with a custom payload."""

from __future__ import annotations

import binascii
import re
from base64 import b64decode
from collections.abc import Iterable
from datetime import datetime
from functools import partial
from typing import Any

from msgspec.structs import replace

from edge.formats import ble, payloads, tag_values
from edge.formats.expressions import Evaluator
from edge.formats.fields import (
    MICROSECOND,
    MILLISECOND,
    SECOND,
    Unreadable,
    describe,
    instant,
    number,
    of_clock,
    plausible,
    port_or_name,
    rssi,
    text,
)
from edge.formats.framing import careful, gather, together, within_limit
from edge.formats.mapping_settings import Mapping
from edge.formats.optional_fields import OptionalFields
from edge.formats.paths import Path, Scope
from edge.formats.reads import UNREADABLE_ANTENNA, Kind, Malformed, Parsed, Parser, Read, WallTime
from edge.formats.sensor_values import SensorValues, of_numbers
from edge.validation import json_text
from edge.validation.values import TAG_TYPES

_MICROSECONDS = {"s": SECOND, "ms": MILLISECOND, "us": MICROSECOND, "ns": MICROSECOND / 1000}
_UNREADABLE_READER = ""
_WORD = 4  # hex digits of the PC word, and of the CRC
_UTC = re.compile(r"\b(?:UTC|GMT)\b|(?<=[0-9 ])Z\b")
_OURS = range(1_262_304_000 * SECOND, 4_102_444_800 * SECOND)  # 2010 to 2099: unambiguous among the units of time


def parser_for(mapping: Mapping) -> Parser:
    """Return a parser for a mapping."""

    def parse(topic: str, payload: bytes) -> Parsed:
        levels = topic.split("/")
        room = payloads.Room()  # for all its parts, so that a short message cannot take minutes
        values = payloads.values(payload, mapping.payload, mapping.delimiter, mapping.columns, room)
        evaluator = Evaluator(len(payload))
        scopes = [Scope(value, (), value, levels, evaluator) for value in values]
        results = list(within_limit(result for scope in scopes for result in _envelope(mapping, scope, room)))
        if not results:
            return Parsed(Kind.IGNORED)
        return results[0] if len(results) == 1 else together(results)

    return careful(parse)


def _envelope(mapping: Mapping, envelope: Scope, room: payloads.Room) -> Iterable[Parsed]:
    """Parse a message, or the messages in a field of it, for which it is the entry around them. Raises Malformed."""
    path = mapping.content_path
    if path is None:
        return [_message(mapping, envelope)]
    try:
        sent = path.find(envelope)
    except Unreadable as reason:
        raise Malformed(str(reason)) from None
    if sent is None:
        return [Parsed(Kind.IGNORED, note=f"nothing at {path.written}{_fields_of('message', envelope.entry)}")]
    contents = payloads.values(_bytes_of(sent), mapping.payload, mapping.delimiter, mapping.columns, room)
    around = (envelope.entry,)
    return (_message(mapping, envelope._replace(entry=value, message=value, around=around)) for value in contents)


def _bytes_of(sent: object) -> bytes:
    """Return the bytes of a message in a field: JSON as it is or as text, or anything in base64, perhaps gzip."""
    if not isinstance(sent, str):
        return json_text.encode(sent)
    text = sent.strip()
    if text[:1] in ("{", "["):
        return text.encode()
    try:
        return b64decode(
            text + "=" * (-len(text) % 4), altchars="-_" if set(text) & {"-", "_"} else None, validate=True
        )
    except (binascii.Error, ValueError):
        return text.encode()


def _message(mapping: Mapping, message: Scope) -> Parsed:
    try:
        if mapping.required_key and mapping.required_key.find(message) is None:
            return Parsed(Kind.IGNORED)
        entries = _entries(mapping.list_path, message)
    except Unreadable as reason:
        raise Malformed(str(reason)) from None
    if entries is None:
        written = ", ".join(path.written for path in mapping.list_path)
        return Parsed(Kind.IGNORED, note=f"list_path {written} is not a list{_fields_of('message', message.entry)}")
    if not mapping.list_path and not _has_identity(mapping, message):
        return Parsed(Kind.IGNORED, note=_nothing_there(mapping, "message", message.entry))
    fields = OptionalFields()
    return replace(gather(entries, lambda entry: _read(mapping, entry, fields)), fields=fields.counts)


def _entries(lists: tuple[Path, ...], message: Scope) -> list[Scope] | None:
    """Return the entries of the list, or of nested lists. None if there is no list."""
    scopes = [message]
    for path in lists:
        inner = []
        has_list = False
        for scope in scopes:
            entries = path.find(scope)
            if isinstance(entries, dict):
                entries = [entries]
            if isinstance(entries, list):
                has_list = True
                inner += [scope._replace(entry=entry, around=(scope.entry, *scope.around)) for entry in entries]
        if not has_list and scopes:
            return None
        scopes = inner
    return scopes


def _has_identity(mapping: Mapping, scope: Scope) -> bool:
    for path in (mapping.tag_path, mapping.uuid_path, mapping.advertisement_path):
        try:
            if path and path.find(scope) is not None:
                return True
        except Unreadable:
            return True  # reported when the entry is parsed
    return False


def _read(mapping: Mapping, scope: Scope, fields: OptionalFields) -> Read | None:
    def find(path: Path | None) -> Any:
        return path.find(scope) if path else None

    if mapping.condition and not fields.holds(mapping.condition, scope):
        return None
    tag_type = _tag_type(find(mapping.tag_type_path)) if mapping.tag_type_path else mapping.tag_type
    beacons = ble.ibeacon(find(mapping.uuid_path), find(mapping.major_path), find(mapping.minor_path))
    beacons += _advertised(mapping, find(mapping.advertisement_path))
    tag = find(mapping.tag_path)
    if tag is None and not beacons:
        if _has_identity(mapping, scope):
            raise Unreadable("no complete iBeacon or Eddystone UID at the mapped path, and no tag")
        raise Unreadable(_nothing_there(mapping, "entry", scope.entry))
    value, others = _identities(mapping, tag_type, tag, beacons)
    reader = fields.read("reader_path", mapping.reader_path, scope, _reader, _UNREADABLE_READER)
    unreadable = (UNREADABLE_ANTENNA, reader or None)
    named = partial(port_or_name, reader=reader)
    port, name = fields.read("antenna_path", mapping.antenna_path, scope, named, unreadable) or (None, reader)
    if reader == _UNREADABLE_READER:
        port, name = unreadable
    strength = fields.read("rssi_path", mapping.rssi_path, scope, partial(rssi, tag_type=tag_type))
    time = fields.read("time_path", mapping.time_path, scope, partial(_time, unit=mapping.time_unit))
    return Read(tag_type, value, others, port, strength, time, name, _sensors(mapping, scope, fields))


def _sensors(mapping: Mapping, scope: Scope, fields: OptionalFields) -> SensorValues | None:
    """Return the mapped sensor values, else those in the advertisement."""
    battery = fields.read("battery_path", mapping.battery_path, scope, partial(number, label="battery"))
    volts = fields.read("volts_path", mapping.volts_path, scope, partial(number, label="volts"))
    celsius = fields.read("temperature_path", mapping.temperature_path, scope, partial(number, label="temperature"))
    pressed = fields.read("button_path", mapping.button_path, scope, _is_pressed)
    values = of_numbers(battery, volts, celsius)
    if pressed:
        return replace(values, is_pressed=True) if values else SensorValues(is_pressed=True)
    if values is None and mapping.advertisement_path:
        return ble.sensors_in(mapping.advertisement_path.find(scope))
    return values


def _is_pressed(sent: object) -> bool:
    """Return True for true, a positive count and most words, as devices send them."""
    if isinstance(sent, str):
        return sent.strip().lower() not in ("", "0", "false", "no", "none", "off", "released")
    if isinstance(sent, bool | int | float):
        return sent > 0
    raise Unreadable(f"button is {describe(sent)}, not true or false")


def _identities(mapping: Mapping, tag_type: str, tag: object, beacons: ble.Identities) -> tuple[str, tuple[str, ...]]:
    """Return the value of the read (the tag, or else the first beacon) and its aliases."""
    if tag is None and beacons:
        return beacons[0], tuple(dict.fromkeys(beacons[1:]))
    value = tag_values.value(tag_type, _bare_tag(mapping, tag_type, tag))
    return value, tuple(other for other in dict.fromkeys(beacons) if other != value)


def _bare_tag(mapping: Mapping, tag_type: str, tag: object) -> object:
    """Decode the tag, and remove the configured prefix, PC word and CRC."""
    if mapping.tag_encoding == "base64" and isinstance(tag, str):
        try:
            tag = b64decode(tag.strip() + "=" * (-len(tag.strip()) % 4), altchars="-_").hex().upper()
        except (binascii.Error, ValueError):
            raise Unreadable(f"the tag is {describe(tag)}, not base64") from None
    if mapping.tag_prefix and isinstance(tag, str):
        tag = tag.strip().removeprefix(mapping.tag_prefix)
    return _stripped(tag_values.epc(tag), mapping.epc_strip) if mapping.epc_strip and tag_type == "rfid" else tag


def _stripped(digits: str, surplus: tuple[str, ...]) -> str:
    """Remove the leading PC word and trailing CRC. The upper five bits of the PC are the EPC's length in words."""
    if "crc" in surplus:
        digits = digits[:-_WORD]
    if "pc" in surplus:
        pc, digits = digits[:_WORD], digits[_WORD:]
        if len(pc) < _WORD or (int(pc, 16) >> 11) * _WORD != len(digits):
            raise Unreadable(f"the PC word {pc} does not match the length of the EPC {digits}")
    if not digits:
        raise Unreadable("the EPC is blank")
    return digits


def _advertised(mapping: Mapping, raw: object) -> ble.Identities:
    if raw is None:
        return ()
    identities = ble.advertised(raw) or ble.of_manufacturer_data(raw)
    if mapping.company_data:
        company, start, end = mapping.company_data
        data = ble.company_data(raw, company)[start:end]
        if data:
            identities += (ble.identity(data.hex()),)
    return identities


def _reader(sent: object) -> str | None:
    name = text(sent, "reader")
    port_or_name(None, name)  # checks its length
    return name


def _tag_type(sent: object) -> str:
    tag_type = sent.strip().lower() if isinstance(sent, str) else sent
    if isinstance(tag_type, str) and tag_type in TAG_TYPES:
        return tag_type
    raise Unreadable(f"the tag type is {describe(sent)}, not one of {', '.join(TAG_TYPES)}")


def _time(sent: object, unit: str) -> int | WallTime | None:
    """Parse a time. Raises Unreadable if a number is plausible (2010 to 2099) only in another unit."""
    if "%" in unit:
        return _formatted_time(sent, unit)
    count = _count_of(sent)
    if count is not None:
        fitting = [name for name, micros in _MICROSECONDS.items() if _OURS.start <= count * micros < _OURS.stop]
        if fitting and unit not in fitting:
            meant = "ISO 8601" if unit == "iso" else f"in {unit}"
            raise Unreadable(f"time is {describe(sent)}, not {meant}: set time_unit to {fitting[0]}")
        if unit == "iso":
            raise Unreadable(f"time is {describe(sent)}, not ISO 8601: set time_unit to s, ms, us or ns")
        if unit == "ns":
            return plausible(
                int(sent) // 1000 if isinstance(sent, int | str) and count.is_integer() else int(count) // 1000
            )
    return instant(sent, int(_MICROSECONDS.get(unit, MILLISECOND)) or MICROSECOND)


def _formatted_time(sent: object, written: str) -> int | WallTime | None:
    """Parse a time in a format of strptime. Without a zone it is local time. Names of zones are UTC, GMT and Z."""
    stamp = text(sent, "time")
    if stamp is None:
        return None
    if "%Z" in written:  # strptime reads names of zones, and forgets them
        stamp, written = _UTC.sub("+0000", stamp), written.replace("%Z", "%z")
    try:
        return of_clock(datetime.strptime(stamp, written))
    except ValueError:
        raise Unreadable(f"time is {describe(sent)}, not like {written}") from None


def _count_of(sent: object) -> float | None:
    """Return a number, also from text; None for anything else."""
    try:
        return number(sent, "time")
    except Unreadable:
        return None


def _nothing_there(mapping: Mapping, level: str, value: object) -> str:
    path = mapping.tag_path or mapping.uuid_path or mapping.advertisement_path
    return f"nothing at {path.written if path else ''}{_fields_of(level, value)}"


def _fields_of(level: str, value: object) -> str:
    """List the fields of a message or entry, to help correct a misspelled path."""
    if not isinstance(value, dict) or not value:
        return ""
    return f"; the {level} has {', '.join(str(key)[:40] for key in list(value)[:10])}"
