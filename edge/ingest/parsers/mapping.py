"""Readers whose payload is shaped by their installer: messages read by a mapping."""

from __future__ import annotations

import binascii
from base64 import b64decode
from typing import Any

from edge.ingest.parsers import ble, payloads, tags
from edge.ingest.parsers.fields import (
    MICROSECOND,
    MILLISECOND,
    SECOND,
    Unreadable,
    antenna,
    describe,
    instant,
    rssi,
    text,
)
from edge.ingest.parsers.framing import gather, together
from edge.ingest.parsers.mapping_settings import Mapping
from edge.ingest.parsers.paths import Path, Scope
from edge.ingest.reads import Kind, Malformed, Parsed, Parser, Read, WallTime
from edge.validation.values import TAG_TYPES

_MICROSECONDS = {"s": SECOND, "ms": MILLISECOND, "us": MICROSECOND}
_WORD = 4  # hex digits of the PC word, and of the CRC
_LONGEST_NAME = 100


def parser_for(mapping: Mapping) -> Parser:
    def parse(topic: str, payload: bytes) -> Parsed:
        levels = topic.split("/")
        values = payloads.values(payload, mapping.payload, mapping.delimiter, mapping.columns)
        parts = [_message(mapping, Scope(value, (), value, levels)) for value in values]
        return parts[0] if len(parts) == 1 else together(parts)

    return parse


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
    return gather(entries, lambda entry: _read(mapping, entry))


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
                inner += [Scope(entry, (scope.entry, *scope.around), scope.message, scope.levels) for entry in entries]
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


def _read(mapping: Mapping, scope: Scope) -> Read | None:
    def find(path: Path | None) -> Any:
        return path.find(scope) if path else None

    if mapping.condition and not find(mapping.condition):
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
    port, name = _antenna(find(mapping.reader_path), find(mapping.antenna_path))
    time = _time(find(mapping.time_path), mapping.time_unit)
    return Read(tag_type, value, others, port, rssi(find(mapping.rssi_path)), time, name)


def _identities(mapping: Mapping, tag_type: str, tag: object, beacons: ble.Identities) -> tuple[str, tuple[str, ...]]:
    """The tag where there is one, else the first beacon; the others are the same tag by other names."""
    if tag is None and beacons:
        return beacons[0], tuple(dict.fromkeys(beacons[1:]))
    value = tags.value(tag_type, _bare_tag(mapping, tag_type, tag))
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
    return _stripped(tags.epc(tag), mapping.epc_strip) if mapping.epc_strip and tag_type == "rfid" else tag


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


def _antenna(reader: object, sent: object) -> tuple[int | None, str | None]:
    """A port, or a name: of the antenna, of the reader where one topic has several, or `reader/antenna`."""
    label = text(sent, "antenna") if isinstance(sent, str) else None
    is_name = label is not None and not label.isdecimal()
    port = None if is_name else antenna(sent)
    whose = text(reader, "reader")
    names = [whose, label if is_name else str(port) if port else None] if whose else [label] if is_name else []
    name = "/".join(part for part in names if part)
    if len(name) > _LONGEST_NAME:
        raise Unreadable(f"the antenna's name is longer than {_LONGEST_NAME} characters")
    return (None, name) if name else (port, None)


def _tag_type(sent: object) -> str:
    spelt = sent.strip().lower() if isinstance(sent, str) else sent
    if isinstance(spelt, str) and spelt in TAG_TYPES:
        return spelt
    raise Unreadable(f"the tag type is {describe(sent)}, not one of {', '.join(TAG_TYPES)}")


def _time(sent: object, unit: str) -> int | WallTime | None:
    if unit == "iso" and isinstance(sent, int | float):
        raise Unreadable(f"time is {describe(sent)}, not ISO 8601: set time_unit to s, ms or us")
    return instant(sent, _MICROSECONDS.get(unit, MILLISECOND))


def _nothing_there(mapping: Mapping, what: str, value: object) -> str:
    path = mapping.tag_path or mapping.uuid_path or mapping.advertisement_path
    return f"nothing at {path.written if path else ''}{_fields_of(what, value)}"


def _fields_of(what: str, value: object) -> str:
    """So that a misspelt path can be corrected without looking at the bytes."""
    if not isinstance(value, dict) or not value:
        return ""
    return f"; the {what} has {', '.join(str(key)[:40] for key in list(value)[:10])}"
