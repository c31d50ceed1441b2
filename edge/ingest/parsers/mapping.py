"""Readers whose payload is shaped by their installer: one description of where things stand.

A path is written with dots, a place in a list with its number in brackets: `data.tags`, `bdaddrs[0].bdaddr`.
Paths of a read start at its entry of the list; with `$.` in front they start at the message (`$.timestamp`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

from edge.ingest.parsers.fields import (
    MICROSECOND,
    MILLISECOND,
    SECOND,
    Fields,
    Unreadable,
    antenna,
    describe,
    instant,
    rssi,
)
from edge.ingest.parsers.framing import IGNORED, collect, each
from edge.ingest.parsers.tags import TAG_TYPES, value
from edge.ingest.reads import Parsed, Parser, Read

Path = tuple[str | int, ...]

TIME_UNITS: Final = ("s", "ms", "us", "iso")

_MICROSECONDS = {"s": SECOND, "ms": MILLISECOND, "us": MICROSECOND}
_STEP = re.compile(r"([^.\[\]]+)((?:\[[0-9]{1,4}\])*)")
_ROOT = "$"
_LONGEST_PATH = 200


@dataclass(frozen=True, slots=True)
class Mapping:
    """Where a message holds its reads. Without `list_path` the message is one read, or an array of them.

    `tag_type` holds for every read unless `tag_type_path` leads to the type of each. A message without
    `required_key` (a path from the message) is no scan: a heartbeat, an alarm.
    """

    tag_path: Path
    tag_type: str = "rfid"
    tag_type_path: Path = ()
    list_path: Path = ()
    antenna_path: Path = ()
    rssi_path: Path = ()
    time_path: Path = ()
    time_unit: str = "iso"
    required_key: Path = ()


_PATHS = ("list_path", "tag_path", "tag_type_path", "antenna_path", "rssi_path", "time_path", "required_key")
_KEYS = (*_PATHS, "tag_type", "time_unit")


def mapping_from(settings: dict[str, Any]) -> Mapping:
    """A mapping as written in a settings file. The `ValueError` names the key and says what to write."""
    for key in settings:
        if key not in _KEYS:
            raise ValueError(f"{key} is not a key of a mapping: write one of {', '.join(_KEYS)}")
    paths = {key: _path(key, settings.get(key)) for key in _PATHS}
    if not paths["tag_path"]:
        raise ValueError("tag_path is missing: write where the tag stands in a read, for example epc")
    time_unit = settings.get("time_unit")
    if paths["time_path"] and time_unit is None:
        raise ValueError(f"time_unit is missing: write one of {', '.join(TIME_UNITS)}")
    return Mapping(
        **paths,
        tag_type=_choice("tag_type", settings.get("tag_type"), TAG_TYPES, default="rfid"),
        time_unit=_choice("time_unit", time_unit, TIME_UNITS, default="iso"),
    )


def parser_for(mapping: Mapping) -> Parser:
    def parse(_topic: str, payload: bytes) -> Parsed:
        return each(payload, lambda message: _message(mapping, message))

    return parse


def _message(mapping: Mapping, message: Fields) -> Parsed:
    if _at(message, mapping.required_key) is None:
        return IGNORED
    entries = _at(message, mapping.list_path)
    if isinstance(entries, dict):
        entries = [entries]
    if not isinstance(entries, list):
        return IGNORED
    if not mapping.list_path and _field(message, message, mapping.tag_path) is None:
        return IGNORED
    return collect(entries, lambda entry: _read(mapping, entry, message))


def _read(mapping: Mapping, entry: Fields, message: Fields) -> Read:
    def field(path: Path) -> Any:
        return _field(entry, message, path)

    tag_type = _tag_type(field(mapping.tag_type_path)) if mapping.tag_type_path else mapping.tag_type
    return Read(
        tag_type,
        value(tag_type, field(mapping.tag_path)),
        (),
        antenna(field(mapping.antenna_path)),
        rssi(field(mapping.rssi_path)),
        _time(field(mapping.time_path), mapping.time_unit),
    )


def _field(entry: Fields, message: Fields, path: Path) -> Any:
    if not path:
        return None
    return _at(message, path[1:]) if path[0] == _ROOT else _at(entry, path)


def _tag_type(sent: object) -> str:
    spelt = sent.strip().lower() if isinstance(sent, str) else sent
    if isinstance(spelt, str) and spelt in TAG_TYPES:
        return spelt
    raise Unreadable(f"the tag type is {describe(sent)}, not one of {', '.join(TAG_TYPES)}")


def _time(sent: object, unit: str) -> int | None:
    if unit == "iso" and isinstance(sent, int | float):
        raise Unreadable(f"time is {describe(sent)}, not ISO 8601: set time_unit to s, ms or us")
    return instant(sent, _MICROSECONDS.get(unit, MILLISECOND))


def _at(document: Any, path: Path) -> Any:
    """What stands at the end of a path, None where it leads nowhere."""
    for step in path:
        if isinstance(step, str):
            document = document.get(step) if isinstance(document, dict) else None
        else:
            document = document[step] if isinstance(document, list) and step < len(document) else None
        if document is None:
            return None
    return document


def _path(key: str, written: object) -> Path:
    if written is None or written == "":
        return ()
    if not isinstance(written, str) or len(written) > _LONGEST_PATH:
        raise ValueError(f"{key} is {describe(written)}: write a path such as data.tags or items[0].id")
    steps: list[str | int] = []
    for part in written.strip().split("."):
        step = _STEP.fullmatch(part)
        if step is None:
            raise ValueError(f'{key} is "{written}": write a path such as data.tags or items[0].id')
        name, places = step.groups()
        steps += [name, *(int(place) for place in re.findall("[0-9]+", places))]
    from_message = key in ("list_path", "required_key")
    if from_message and steps[0] == _ROOT:
        return tuple(steps[1:])
    return tuple(steps)


def _choice(key: str, written: object, choices: tuple[str, ...], default: str) -> str:
    if written is None or written == "":
        return default
    if isinstance(written, str) and written in choices:
        return written
    raise ValueError(f"{key} is {describe(written)}: write one of {', '.join(choices)}")
