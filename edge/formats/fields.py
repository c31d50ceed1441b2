"""Single fields of a reader's message: tolerant of spelling, strict about meaning.

Readers send numbers as text and leave blank what they do not know. A field that is absent or blank is None;
one that is there and cannot be meant raises `Unreadable`, and costs its own entry only.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import lru_cache
from math import isfinite
from typing import Any

from edge.formats.reads import WallTime
from edge.validation.values import MAX_TEXT

Fields = dict[str, Any]

# Microseconds in the unit a reader counts its time in.
MICROSECOND = 1
MILLISECOND = 1_000
SECOND = 1_000_000

_NUMBER = re.compile(r"[+-]?[0-9]{1,20}(\.[0-9]{1,20})?")
_HIGHEST_ANTENNA = 65_535
_LONGEST_RSSI = 16
_STRONGEST = 1_000  # some readers count in units of their own, but a number without bounds fits no column
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_ONE_MICROSECOND = timedelta(microseconds=1)
_END_OF_TIME = (datetime.max.replace(tzinfo=UTC) - _EPOCH) // _ONE_MICROSECOND


class Unreadable(Exception):
    """A field that cannot be what it should be. `str()` is the reason, for the technician."""


def first(entry: Fields, usual: str, *others: str) -> Any:
    """The first of these fields that is there and not blank: one meaning under several labels."""
    if value := entry.get(usual):
        return value
    for name in (usual, *others):
        value = entry.get(name)
        if value or (value is not None and value != ""):
            return value
    return None


def text(value: object, what: str) -> str | None:
    """Without the blanks and line ends around it. The separator 0x1D of GS1 data is not one of them.

    A whole number is taken as its digits: devices forget the quotes around an id that happens to have no letters.
    """
    if value is None:
        return None
    if type(value) is int:
        return str(value)
    if not isinstance(value, str):
        raise Unreadable(f"{what} is {describe(value)}, not text")
    if len(value) > MAX_TEXT:
        raise Unreadable(f"{what} is longer than {MAX_TEXT} characters")
    return value.strip(" \t\r\n") or None


def number(value: object, what: str) -> float | None:
    if value is None:
        return None
    if isinstance(value, str):
        stripped = value.strip()
        if not stripped:
            return None
        if _NUMBER.fullmatch(stripped):
            return float(stripped)
    elif isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value):
        return float(value)
    raise Unreadable(f"{what} is {describe(value)}, not a number")


def antenna(value: object) -> int | None:
    """A port, from 1. Zero is how readers say that they do not know."""
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


def rssi(value: object) -> float | None:
    """In dBm; the unit may stand behind the number, as in `-61 dBm`, and a comma in place of the point."""
    if isinstance(value, str):
        return _spelt_rssi(value) if len(value) <= _LONGEST_RSSI else _rssi(value)
    return _rssi(value)


def _rssi(value: object) -> float | None:
    if isinstance(value, str):
        value = _without_unit(value.strip()).replace("\N{MINUS SIGN}", "-").replace(",", ".", 1)
    strength = number(value, "rssi")
    if strength is not None and abs(strength) > _STRONGEST:
        raise Unreadable(f"rssi {describe(value)} is out of range")
    return strength


def _without_unit(spelt: str) -> str:
    """No regular expression: one that looks for blanks before the unit takes hours for a text of 1 MiB of blanks."""
    for unit in ("dbm", "db"):
        if spelt[-len(unit) :].lower() == unit:
            return spelt[: -len(unit)]
    return spelt


_spelt_rssi = lru_cache(maxsize=1024)(_rssi)  # there are few strengths, and each one recurs all the time


def instant(value: object, unit: int) -> int | WallTime | None:
    """A reader's time in microseconds since the epoch.

    Numbers, also as text, count `unit` since the epoch; other text is ISO 8601, with a zone or without. A time before
    1970 or after 9999 says nothing about when the tag was read: None, as if the reader had sent none.
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


def iso(spelt: str) -> datetime:
    """Zebra's `+0000` and Impinj's nine digits of a second (cut to six) included; without zone stays so."""
    try:
        return datetime.fromisoformat(spelt)
    except ValueError:
        raise Unreadable(f"time is {describe(spelt)}, not a time") from None


def of_clock(moment: datetime) -> int | WallTime | None:
    found = plausible(micros(moment))
    return found if moment.tzinfo or found is None else WallTime(found)


def micros(moment: datetime) -> int:
    """Microseconds since the epoch; a time without zone counts as UTC."""
    return ((moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - _EPOCH) // _ONE_MICROSECOND


def plausible(observed_at: int) -> int | None:
    return observed_at if 0 <= observed_at <= _END_OF_TIME else None


def describe(value: object) -> str:
    """A value as an error message shows it: short, and in the words of JSON."""
    if isinstance(value, bool):
        return f"the boolean {str(value).lower()}"
    if isinstance(value, str):
        return f'"{value}"' if len(value) <= 40 else f'"{value[:40]}…"'
    if isinstance(value, list):
        return "a list"
    if isinstance(value, dict):
        return "an object"
    return "null" if value is None else str(value)


def one_line(spoken: object) -> str | None:
    """The status text of a reader as one short line; None when there is none."""
    return " ".join(spoken.split())[:200] or None if isinstance(spoken, str) else None


def _counted(digits: str, unit: int) -> int | None:
    """Through Decimal, because a float of today's microseconds has no room for the last digit."""
    return plausible(int(Decimal(digits) * unit))
