"""RFC 3339 timestamps in requests, as microseconds since the epoch (spec: Timestamps)."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone

from edge import clock

_RFC3339 = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[Tt](\d\d):(\d\d):(\d\d)(?:\.(\d+))?(?:[Zz]|([+-])(\d\d):(\d\d))", re.ASCII
)
_LONGEST = 255  # characters that are looked at: no clock measures as finely
_CYCLE_YEARS, _CYCLE = 400, timedelta(days=146_097)  # after which the calendar repeats itself
FIRST = clock.to_micros(datetime.min.replace(tzinfo=UTC))
LAST = clock.to_micros(datetime.max.replace(tzinfo=UTC))
_SENTINELS = (FIRST // 1000, 0)  # 0001-01-01 and 1970-01-01, in milliseconds, as the wire would show them


def parse(text: str) -> int | None:
    """None if it is not a timestamp, or outside the years 0001 to 9999 in UTC.

    Digits beyond the microsecond are cut off. A leap second is clamped to the last microsecond before it.
    """
    match = _RFC3339.fullmatch(text) if len(text) <= _LONGEST else None
    if match is None:
        return None
    year, month, day, hour, minute, second = (int(part) for part in match.groups()[:6])
    fraction = int((match[7] or "")[:6].ljust(6, "0"))
    if second == 60:
        second, fraction = 59, 999_999
    shift = _CYCLE_YEARS if year < _CYCLE_YEARS else 0  # datetime has no year 0, but a local time may be in it
    try:
        zone = _zone(match[8], int(match[9] or 0), int(match[10] or 0))
        moment = datetime(year + shift, month, day, hour, minute, second, fraction, zone)
    except ValueError:
        return None
    micros = clock.to_micros(moment) - (_CYCLE // timedelta(microseconds=1) if shift else 0)
    return micros if is_representable(micros) else None


def is_representable(micros: int) -> bool:
    """True for the years 0001 to 9999, which a calendar, and so every response, can show."""
    return FIRST <= micros <= LAST


def problem(text: str) -> str:
    """Why a text in the form of a timestamp is not one; empty for text in another form."""
    if len(text) > _LONGEST or not _RFC3339.fullmatch(text):
        return ""
    return ": this day or time does not exist, or is outside the years 0001 to 9999 in UTC"


def is_sentinel(micros: int) -> bool:
    """Whether it is a zero time, by which some program meant "none"."""
    return micros // 1000 in _SENTINELS


def _zone(sign: str | None, hours: int, minutes: int) -> timezone:
    if hours > 23 or minutes > 59:
        raise ValueError("no such offset")
    offset = timedelta(hours=hours, minutes=minutes)
    return timezone(-offset if sign == "-" else offset)
