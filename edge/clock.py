"""Times are integers: microseconds since the epoch, UTC."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from pathlib import Path
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

SECOND = 1_000_000
HOUR = 3600 * SECOND
DAY = 24 * HOUR
NOTICEABLE = 2 * SECOND  # tolerated offset of another clock
EARLIEST = 1_577_836_800 * SECOND  # 2020; earlier times come from a clock that was never set
SET_BACK = HOUR  # a clock may be set back this far without interrupting work in progress

# Created by systemd-timesyncd after the first answer of a time server.
SYNCHRONISED = Path("/run/systemd/timesync/synchronized")

# Written by `edge trust-clock`: when it confirmed the clock, and until when a clock that was ahead has recorded scans.
CONFIRMED, WAS_AHEAD = "clock-confirmed", "clock-was-ahead"

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def now() -> int:
    """Return the system time."""
    return time.time_ns() // 1000


def elapsed() -> int:
    """Return microseconds since boot. Steps of the system clock do not change them."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1000


def is_vouched(data_dir: Path, later_scan: int = 0) -> bool:
    """True if NTP or `edge trust-clock` has confirmed the system clock.

    `later_scan`: time of a scan that the clock is behind, 0 if there is none. Only `edge trust-clock` decides that the
    scan was recorded by a clock that was ahead.
    """
    if later_scan:
        return later_scan <= _number_in(data_dir / WAS_AHEAD)
    confirmed = confirmed_at(data_dir)
    return SYNCHRONISED.exists() or (confirmed > 0 and 0 <= now() - confirmed <= 400 * DAY)


def confirmed_at(data_dir: Path) -> int:
    """Return when `edge trust-clock` last confirmed the system clock, by that clock; 0 if never."""
    return _number_in(data_dir / CONFIRMED)


def _number_in(file: Path) -> int:
    try:
        return int(file.read_text("ascii"))
    except (OSError, ValueError):
        return 0


def to_micros(moment: datetime) -> int:
    """Convert exactly, without floats, also before 1970."""
    return (moment - _EPOCH) // timedelta(microseconds=1)


def to_datetime(micros: int) -> datetime:
    return _EPOCH + timedelta(microseconds=micros)


@lru_cache(maxsize=8_192)
def rfc3339(micros: int) -> str:
    """Return UTC with three digits, truncated, such as `2026-03-02T08:15:30.412Z` (interface: Timestamps 1).

    Cached, because lists show the same times repeatedly.
    """
    return f"{_to_the_second(micros // SECOND)}.{micros % SECOND // 1000:03d}Z"


@lru_cache(maxsize=4096)
def _to_the_second(seconds: int) -> str:
    return f"{to_datetime(seconds * SECOND):%Y-%m-%dT%H:%M:%S}".rjust(19, "0")


def is_zone(name: str) -> bool:
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):  # unknown zone, invalid name, or a folder of zones
        return False
    return True


@lru_cache
def zones() -> list[str]:
    """Return UTC and the names of all zones of places, such as Europe/Berlin."""
    names = available_timezones()
    return ["UTC", *sorted(name for name in names if "/" in name and not name.startswith(("Etc/", "SystemV/")))]


def zone(name: str) -> ZoneInfo:
    """Return the named zone. An empty name means the zone of the box, or UTC if it is unknown."""
    return ZoneInfo(name or _zone_of_the_box())


def of_wall(micros: int, zone: str) -> int:
    """Return the earliest moment at which a wall clock in the zone shows the UTC time of `micros`."""
    return to_micros(to_datetime(micros).replace(tzinfo=ZoneInfo(zone)))


def midnight(zone: tzinfo) -> int:
    """Return the start of the current day in the zone."""
    return to_micros(datetime.now(zone).replace(hour=0, minute=0, second=0, microsecond=0, fold=0))


def span(micros: int) -> str:
    """Format a duration, such as `3.2 s`, `1 h 0 min` or `12 d 4 h`."""
    seconds = micros // SECOND
    if seconds < 60:
        return f"{micros / SECOND:.1f} s"
    units = ((86_400, "d", 3_600, "h"), (3_600, "h", 60, "min"), (60, "min", 1, "s"))
    size, unit, smaller, small_unit = next(units for units in units if seconds >= units[0])
    return f"{seconds // size} {unit} {seconds % size // smaller} {small_unit}"


def _zone_of_the_box() -> str:
    _, _, name = str(Path("/etc/localtime").resolve()).partition("/zoneinfo/")
    return name if name and is_zone(name) else "UTC"
