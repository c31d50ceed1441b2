"""Readers whose payload is shaped by their installer: messages read by a mapping."""

from __future__ import annotations

import binascii
from base64 import b64decode
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
    antenna,
    describe,
    instant,
    number,
    rssi,
    text,
)
from edge.formats.framing import careful, gather, together
from edge.formats.mapping_settings import Mapping
from edge.formats.optional_fields import OptionalFields
from edge.formats.paths import Path, Scope
from edge.formats.reads import Kind, Malformed, Parsed, Parser, Read, WallTime
from edge.validation.values import TAG_TYPES

_MICROSECONDS = {"s": SECOND, "ms": MILLISECOND, "us": MICROSECOND}
_WORD = 4  # hex digits of the PC word, and of the CRC
_LONGEST_NAME = 100
_OURS = range(1_262_304_000 * SECOND, 4_102_444_800 * SECOND)  # 2010 to 2099: in one unit of time only


def parser_for(mapping: Mapping) -> Parser:
    def parse(topic: str, payload: bytes) -> Parsed:
        levels = topic.split("/")
        values = payloads.values(payload, mapping.payload, mapping.delimiter, mapping.columns)
        evaluator = Evaluator(len(payload))
        parts = [_message(mapping, Scope(value, (), value, levels, evaluator)) for value in values]
        return parts[0] if len(parts) == 1 else together(parts)

    return careful(parse)


def _message(mapping: Mapping, message: Scope) -> Parsed:
    try:
        if mapping.required_key and mapping.required_key.find(message) is None:
            return Parsed(Kind.IGNORED)
        entries = _entries(mapping.list_path, message)
    except Unreadable as reason:
        raise Malformed(str(reason)) from None
    if entries is None:
        written = ", ".join(path.written for path in mapping.list_path)
        return Parsed(Kind.IGNORED, note=f"list_path {written} leads to no list{_fields_of('message', message.entry)}")
    if not mapping.list_path and not _has_identity(mapping, message):
        return Parsed(Kind.IGNORED, note=_nothing_there(mapping, "message", message.entry))
    fields = OptionalFields()
    return replace(gather(entries, lambda entry: _read(mapping, entry, fields)), fields=fields.counts)


def _entries(lists: tuple[Path, ...], message: Scope) -> list[Scope] | None:
    """The entries of the list, or of the lists within the entries of a list. None where there is no list at all."""
    scopes = [message]
    for path in lists:
        inner = []
        is_there = False
        for scope in scopes:
            entries = path.find(scope)
            if isinstance(entries, dict):
                entries = [entries]
            if isinstance(entries, list):
                is_there = True
                inner += [scope._replace(entry=entry, around=(scope.entry, *scope.around)) for entry in entries]
        if not is_there and scopes:
            return None
        scopes = inner
    return scopes


def _has_identity(mapping: Mapping, scope: Scope) -> bool:
    for path in (mapping.tag_path, mapping.uuid_path, mapping.advertisement_path):
        try:
            if path and path.find(scope) is not None:
                return True
        except Unreadable:
            return True  # and costs its entry when it is read
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
            raise Unreadable("no whole iBeacon or Eddystone UID where the mapping looks for one, and no tag")
        raise Unreadable(_nothing_there(mapping, "entry", scope.entry))
    value, others = _identities(mapping, tag_type, tag, beacons)
    reader = fields.read("reader_path", mapping.reader_path, scope, _reader)
    found = fields.read("antenna_path", mapping.antenna_path, scope, partial(_antenna, reader))
    port, name = found or (None, reader)
    strength = fields.read("rssi_path", mapping.rssi_path, scope, rssi)
    time = fields.read("time_path", mapping.time_path, scope, partial(_time, unit=mapping.time_unit))
    return Read(tag_type, value, others, port, strength, time, name)


def _identities(mapping: Mapping, tag_type: str, tag: object, beacons: ble.Identities) -> tuple[str, tuple[str, ...]]:
    """The tag where there is one, else the first beacon; the others are the same tag by other names."""
    if tag is None and beacons:
        return beacons[0], tuple(dict.fromkeys(beacons[1:]))
    value = tag_values.value(tag_type, _bare_tag(mapping, tag_type, tag))
    return value, tuple(other for other in dict.fromkeys(beacons) if other != value)


def _bare_tag(mapping: Mapping, tag_type: str, tag: object) -> object:
    """Without what the installer says stands around it."""
    if mapping.tag_encoding == "base64" and isinstance(tag, str):
        try:
            tag = b64decode(tag.strip() + "=" * (-len(tag.strip()) % 4), altchars="-_").hex().upper()
        except (binascii.Error, ValueError):
            raise Unreadable(f"the tag is {describe(tag)}, not base64") from None
    if mapping.tag_prefix and isinstance(tag, str):
        tag = tag.strip().removeprefix(mapping.tag_prefix)
    return _stripped(tag_values.epc(tag), mapping.epc_strip) if mapping.epc_strip and tag_type == "rfid" else tag


def _stripped(digits: str, words: tuple[str, ...]) -> str:
    """Without the PC word in front and the CRC behind. The upper five bits of the PC count the EPC's words."""
    if "crc" in words:
        digits = digits[:-_WORD]
    if "pc" in words:
        pc, digits = digits[:_WORD], digits[_WORD:]
        if len(pc) < _WORD or (int(pc, 16) >> 11) * _WORD != len(digits):
            raise Unreadable(f"the PC word {pc} does not tell the length of the EPC {digits}")
    if not digits:
        raise Unreadable("the EPC is blank")
    return digits


def _advertised(mapping: Mapping, raw: object) -> ble.Identities:
    if raw is None:
        return ()
    found = ble.advertised(raw) or ble.of_manufacturer_data(raw)
    if mapping.company_data:
        company, start, end = mapping.company_data
        data = ble.company_data(raw, company)[start:end]
        if data:
            found += (ble.identity(data.hex()),)
    return found


def _reader(sent: object) -> str | None:
    name = text(sent, "reader")
    return _short(name) if name else None


def _antenna(reader: str | None, sent: object) -> tuple[int | None, str | None]:
    """A port, or a name: of the antenna, of the reader where one topic has several, or `reader/antenna`."""
    label = text(sent, "antenna") if isinstance(sent, str) else None
    is_name = label is not None and not label.isdecimal()
    port = None if is_name else antenna(sent)
    shown = label if is_name else str(port) if port and reader else None
    name = "/".join(part for part in (reader, shown) if part)
    return (None, _short(name)) if name else (port, None)


def _short(name: str) -> str:
    if len(name) > _LONGEST_NAME:
        raise Unreadable(f"the antenna's name is longer than {_LONGEST_NAME} characters")
    return name


def _tag_type(sent: object) -> str:
    spelt = sent.strip().lower() if isinstance(sent, str) else sent
    if isinstance(spelt, str) and spelt in TAG_TYPES:
        return spelt
    raise Unreadable(f"the tag type is {describe(sent)}, not one of {', '.join(TAG_TYPES)}")


def _time(sent: object, unit: str) -> int | WallTime | None:
    """A count since 1970 that is of our time in another unit only is refused: the unit is wrong."""
    count = _count_of(sent)
    if count is not None:
        fitting = [name for name, micros in _MICROSECONDS.items() if _OURS.start <= count * micros < _OURS.stop]
        if fitting and unit not in fitting:
            meant = "ISO 8601" if unit == "iso" else f"in {unit}"
            raise Unreadable(f"time is {describe(sent)}, not {meant}: set time_unit to {fitting[0]}")
        if unit == "iso":
            raise Unreadable(f"time is {describe(sent)}, not ISO 8601: set time_unit to s, ms or us")
    return instant(sent, _MICROSECONDS.get(unit, MILLISECOND))


def _count_of(sent: object) -> float | None:
    """A number, also as text; None for anything else."""
    try:
        return number(sent, "time")
    except Unreadable:
        return None


def _nothing_there(mapping: Mapping, what: str, value: object) -> str:
    path = mapping.tag_path or mapping.uuid_path or mapping.advertisement_path
    return f"nothing at {path.written if path else ''}{_fields_of(what, value)}"


def _fields_of(what: str, value: object) -> str:
    """So that a misspelt path can be corrected without looking at the bytes."""
    if not isinstance(value, dict) or not value:
        return ""
    return f"; the {what} has {', '.join(str(key)[:40] for key in list(value)[:10])}"
