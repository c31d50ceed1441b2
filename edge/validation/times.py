"""RFC 3339 timestamps in requests, as microseconds since the epoch (interface: Timestamps)."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone

from edge import clock

_RFC3339 = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[Tt](\d\d):(\d\d):(\d\d)(?:\.(\d+))?(?:[Zz]|([+-])(\d\d):(\d\d))", re.ASCII
)
_LOST_PLUS = re.compile(r":\d\d(\.\d+)? \d\d:\d\d$", re.ASCII)
LOST_PLUS = "in a query, write the + of its offset as %2B"
_LONGEST = 255  # characters; longer texts are rejected
_CYCLE_YEARS, _CYCLE = 400, timedelta(days=146_097)  # the calendar repeats after this time
FIRST = clock.to_micros(datetime.min.replace(tzinfo=UTC))
LAST = clock.to_micros(datetime.max.replace(tzinfo=UTC))
_SENTINELS = (FIRST // 1000, 0)  # 0001-01-01 and 1970-01-01, in milliseconds as the API shows them


def parse(text: str) -> int | None:
    """Return microseconds, or None if it is not a timestamp or is outside the years 0001 to 9999 in UTC.

    Digits beyond the microsecond are cut off. A leap second becomes the last microsecond before it.
    """
    match = _RFC3339.fullmatch(text) if len(text) <= _LONGEST else None
    if match is None:
        return None
    year, month, day, hour, minute, second = (int(part) for part in match.groups()[:6])
    fraction = int((match[7] or "")[:6].ljust(6, "0"))
    if second == 60:
        second, fraction = 59, 999_999
    shift = _CYCLE_YEARS if year < _CYCLE_YEARS else 0  # datetime lacks year 0, which local times may reach
    try:
        zone = _zone(match[8], int(match[9] or 0), int(match[10] or 0))
        moment = datetime(year + shift, month, day, hour, minute, second, fraction, zone)
    except ValueError:
        return None
    micros = clock.to_micros(moment) - (_CYCLE // timedelta(microseconds=1) if shift else 0)
    return micros if is_representable(micros) else None


def is_representable(micros: int) -> bool:
    """True for the years 0001 to 9999, the range of a response."""
    return FIRST <= micros <= LAST


def problem(text: str) -> str:
    """Return why a well-formed timestamp is invalid, or an empty string for text in another form."""
    if len(text) > _LONGEST or not _RFC3339.fullmatch(text):
        return ""
    return ": this day or time does not exist, or is outside the years 0001 to 9999 in UTC"


def has_lost_plus(text: str) -> bool:
    """Return True for a timestamp from a query with an unescaped +, which arrives as a space."""
    return bool(_LOST_PLUS.search(text)) and parse(text.replace(" ", "+")) is not None


def is_sentinel(micros: int) -> bool:
    """True for a zero time, which some programs send for "none"."""
    return micros // 1000 in _SENTINELS


def _zone(sign: str | None, hours: int, minutes: int) -> timezone:
    if hours > 23 or minutes > 59:
        raise ValueError("no such offset")
    offset = timedelta(hours=hours, minutes=minutes)
    return timezone(-offset if sign == "-" else offset)
