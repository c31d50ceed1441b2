"""Parse single fields of a message: lenient about notation, strict about values.

Readers send numbers as text and leave unknown fields blank. A missing or blank field is None. An invalid field raises
`Unreadable`, which affects only its own entry.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import lru_cache
from math import isfinite
from sys import float_info
from typing import Any

from edge.formats.reads import WallTime
from edge.validation.values import MAX_TEXT, trimmed

Fields = dict[str, Any]

# Units of time of readers, in microseconds.
MICROSECOND = 1
MILLISECOND = 1_000
SECOND = 1_000_000

_NUMBER = re.compile(r"[+-]?[0-9]{1,20}(\.[0-9]{1,20})?")
_HIGHEST_ANTENNA = 65_535
_LONGEST_RSSI = 16
_LARGEST_ID = 2**64 - 1
_WEAKEST, _STRONGEST = -200, 20  # dBm; the latter is the largest value of Bluetooth
_NOT_MEASURED = (0, 127)  # "not available" of many gateways, and of Bluetooth
_LONGEST_NAME = 100
_SUFFIXES = re.compile(r"(\[[^]]*\])+$")  # of RFC 9557, such as [Europe/Berlin]
_LEAP_SECOND = re.compile(r"(?<=:[0-9]{2}:)60")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_ONE_MICROSECOND = timedelta(microseconds=1)
_END_OF_TIME = (datetime.max.replace(tzinfo=UTC) - _EPOCH) // _ONE_MICROSECOND


class Unreadable(Exception):
    """A field has an invalid value. `str()` is the reason, shown to the technician."""


def first(entry: Fields, usual: str, *others: str) -> Any:
    """Return the first of these fields that is present and not blank, else None."""
    if value := entry.get(usual):
        return value
    for name in (usual, *others):
        value = entry.get(name)
        if value or (value is not None and value != ""):
            return value
    return None


def text(value: object, label: str) -> str | None:
    """Return text without surrounding blanks and line ends, but with the GS1 separator 0x1D. None if blank.

    Text with characters that could not be decoded is unreadable.

    A whole number becomes its digits, because some devices send IDs without letters unquoted. `label`: name of the
    field in errors. Raises Unreadable.
    """
    if value is None:
        return None
    if type(value) is int and abs(value) <= _LARGEST_ID:
        return str(value)
    if not isinstance(value, str):
        raise Unreadable(f"{label} is {describe(value)}, not text")
    if len(value) > MAX_TEXT:
        raise Unreadable(f"{label} is longer than {MAX_TEXT} characters")
    if "\N{REPLACEMENT CHARACTER}" in value:
        raise Unreadable(f"{label} is {describe(value)}, which is damaged")
    bare = value.strip(" \t\r\n")
    return (bare if bare.isascii() else trimmed(bare)) or None


def number(value: object, label: str) -> float | None:
    """Return a number, also from text. None if blank. `label`: name of the field in errors. Raises Unreadable."""
    if value is None:
        return None
    if isinstance(value, str):
        stripped = value.strip()
        if not stripped:
            return None
        if _NUMBER.fullmatch(stripped):
            return float(stripped)
    elif isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= float_info.max:
        return float(value)
    raise Unreadable(f"{label} is {describe(value)}, not a number")


def antenna(value: object) -> int | None:
    """Return a port from 1. None if blank or 0, which readers send for an unknown port. Raises Unreadable."""
    if type(value) is int:
        port = value
    else:
        counted = number(value, "antenna")
        if counted is None:
            return None
        if not counted.is_integer():
            raise Unreadable(f"antenna is {describe(value)}, not a whole number")
        port = int(counted)
    if not 0 <= port <= _HIGHEST_ANTENNA:
        raise Unreadable(f"antenna {describe(value)} is out of range")
    return port or None


def port_or_name(value: object, reader: str | None = None) -> tuple[int | None, str | None]:
    """Return the port and name of an antenna, at most one of them. The name is `antenna` or `reader/antenna`.

    Text with a whole number, such as `2` or `2.0`, is a port. Any other text is a name.
    `reader`: name of the reader if several share a topic. Raises Unreadable.
    """
    label = text(value, "antenna") if isinstance(value, str) else None
    is_name = label is not None and not (_NUMBER.fullmatch(label) and float(label).is_integer())
    port = None if is_name else antenna(value)
    shown = label if is_name else str(port) if port and reader else None
    name = "/".join(label for label in (reader, shown) if label)
    if len(name) > _LONGEST_NAME:
        raise Unreadable(f"the antenna's name is longer than {_LONGEST_NAME} characters")
    return (None, name) if name else (port, None)


def rssi(value: object, tag_type: str = "rfid") -> float | None:
    """Return a signal strength in dBm, None if it was not measured. Raises Unreadable.

    Text may have a unit (`-61 dBm`) and a decimal comma. An answer of a passive tag is never as strong as 0 dBm.
    """
    strength = _cached_rssi(value) if isinstance(value, str) and len(value) <= _LONGEST_RSSI else _rssi(value)
    return None if tag_type == "rfid" and strength is not None and strength > 0 else strength


def _rssi(value: object) -> float | None:
    if isinstance(value, str):
        value = _without_unit(value.strip()).replace("\N{MINUS SIGN}", "-").replace(",", ".", 1)
    strength = number(value, "rssi")
    if strength is None or strength in _NOT_MEASURED:
        return None
    if not _WEAKEST <= strength <= _STRONGEST:
        raise Unreadable(f"rssi {describe(value)} is out of range")
    return strength


def _without_unit(strength: str) -> str:
    """Remove the unit. A regular expression would need hours for 1 MiB of blanks."""
    for unit in ("dbm", "db"):
        if strength[-len(unit) :].lower() == unit:
            return strength[: -len(unit)]
    return strength


_cached_rssi = lru_cache(maxsize=1024)(_rssi)  # there are few different values


def instant(value: object, unit: int) -> int | WallTime | None:
    """Return a reader's time in microseconds since the epoch. Raises Unreadable.

    Numbers, also as text, count `unit` (in microseconds) since the epoch. Other text is ISO 8601, with or without a
    zone. Returns None if blank, and for times before 1970 or after 9999.
    """
    if value is None:
        return None
    if type(value) is int:
        return plausible(value * unit)
    if isinstance(value, float) and isfinite(value):
        return _counted(str(value), unit)
    if isinstance(value, str):
        stripped = value.strip()
        if not stripped:
            return None
        if _NUMBER.fullmatch(stripped):
            return _counted(stripped, unit)
        moment = iso(stripped)
        return of_clock(moment)
    raise Unreadable(f"time is {describe(value)}, not a time")


def iso(time: str) -> datetime:
    """Parse ISO 8601, including Zebra's `+0000` and Impinj's nanoseconds (truncated). Raises Unreadable.

    Lower-case letters, a leap second (the start of the next second) and the suffixes of RFC 9557 are accepted.
    """
    try:
        return datetime.fromisoformat(time)
    except ValueError:
        plain = _SUFFIXES.sub("", time[:MAX_TEXT]).upper()
    usual = _LEAP_SECOND.sub("59", plain)
    try:
        return datetime.fromisoformat(usual) + timedelta(seconds=usual != plain)
    except (ValueError, OverflowError):
        raise Unreadable(f"time is {describe(time)}, not a time") from None


def of_clock(moment: datetime) -> int | WallTime | None:
    """Return microseconds since the epoch, a WallTime if `moment` has no zone, None outside 1970 to 9999."""
    observed_at = plausible(micros(moment))
    return observed_at if moment.tzinfo or observed_at is None else WallTime(observed_at)


def micros(moment: datetime) -> int:
    """Return microseconds since the epoch; a time without zone counts as UTC."""
    return ((moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - _EPOCH) // _ONE_MICROSECOND


def plausible(observed_at: int) -> int | None:
    """Return a time (microseconds since the epoch) unless it is before 1970 or after 9999."""
    return observed_at if 0 <= observed_at <= _END_OF_TIME else None


def describe(value: object) -> str:
    """Return a short form of a value for error messages, with the names of JSON types."""
    if isinstance(value, bool):
        return f"the boolean {str(value).lower()}"
    if isinstance(value, str):
        return f'"{_shortened(value)}"'
    if isinstance(value, list):
        return "a list"
    if isinstance(value, dict):
        return "an object"
    return "null" if value is None else _shortened(str(value))


def _shortened(value: str) -> str:
    return value if len(value) <= 40 else f"{value[:40]}…"


def one_line(status: object) -> str | None:
    """Return the status text of a reader as one line of at most 200 characters, None if there is none."""
    return " ".join(status.split())[:200] or None if isinstance(status, str) else None


def _counted(digits: str, unit: int) -> int | None:
    """Convert with Decimal, because a float loses the last digit of current times in microseconds."""
    return plausible(int(Decimal(digits) * unit))
