"""Time as the program keeps it: integer microseconds since the epoch, UTC."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

SECOND = 1_000_000
HOUR = 3600 * SECOND
DAY = 24 * HOUR

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def now() -> int:
    """The box's clock, in microseconds since the epoch."""
    return time.time_ns() // 1000


def to_micros(moment: datetime) -> int:
    """Exact, without a float in between, also before 1970."""
    return (moment - _EPOCH) // timedelta(microseconds=1)


def to_datetime(micros: int) -> datetime:
    return _EPOCH + timedelta(microseconds=micros)


def rfc3339(micros: int) -> str:
    """`2026-03-02T08:15:30.412Z`: always UTC, always three digits, truncated (spec: Timestamps 1)."""
    moment = to_datetime(micros)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03d}Z".rjust(24, "0")
