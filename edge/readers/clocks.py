"""Clock settings of readers, and the measured offsets of their clocks."""

from __future__ import annotations

from typing import NamedTuple

from edge import clock
from edge.database.connection import execute
from edge.errors import Invalid
from edge.texts import N_, fill

AUTO = "auto"  # use the reader's clock, corrected by its measured offset
READER = "reader"  # use the reader's clock without correction
RECEIPT = "receipt"  # use the time of receipt
NOT_ZONES = (AUTO, READER, RECEIPT)

UNKNOWN = N_("clock %(clock)s is not known; write auto, reader, receipt or a time zone such as Europe/Berlin")
STOPPED = N_("stopped at %(time)s, using the time of receipt")
STOPPED_BUT_TRUSTED = N_("stopped at %(time)s, trusted nevertheless")
AHEAD = N_("%(duration)s ahead, corrected")
AHEAD_BUT_TRUSTED = N_("%(duration)s ahead, trusted nevertheless")
BEHIND = N_("%(duration)s behind, corrected")
BEHIND_BUT_TRUSTED = N_("%(duration)s behind, trusted nevertheless")


class Known(NamedTuple):
    """Stored state of a clock. `offset`: microseconds (positive: ahead). `newest_read_at`: time of its newest read."""

    offset: int | None
    newest_read_at: int
    stands_at: int | None = None  # time of a stopped clock


def check_clock(setting: str) -> str:
    """Return the setting. Raises Invalid unless it is one of the above or a time zone.

    A time zone is for a clock that sends local time without a zone; it is treated like AUTO.
    """
    if setting not in NOT_ZONES and not clock.is_zone(setting):
        raise Invalid.one("clock_setting", "invalid_value", fill(UNKNOWN, clock=setting[:60]))
    return setting


def known_clocks() -> dict[int, Known]:
    """Return the clocks of all organizations by reader ID. For ingest only."""
    rows = execute(
        "SELECT reader_id, clock_offset, ifnull(last_read_at, 0), clock_stands_at FROM reader_state "
        "WHERE clock_offset IS NOT NULL OR clock_stands_at IS NOT NULL"
    )
    return {reader_id: Known(*known) for reader_id, *known in rows}


def is_off(setting: str, offset: int | None, stands_at: int | None = None) -> bool:
    """Return True if the clock needs attention."""
    is_wrong = stands_at is not None or (offset is not None and abs(offset) > clock.NOTICEABLE)
    return setting != RECEIPT and is_wrong


def describe_clock(setting: str, offset: int | None, stands_at: int | None = None) -> str:
    """Describe the state of the clock and how its times are used."""
    if setting == RECEIPT:
        return N_("not trusted, using the time of receipt")
    if stands_at is not None:
        stopped = STOPPED_BUT_TRUSTED if setting == READER else STOPPED
        return fill(stopped, time=clock.rfc3339(stands_at))
    if offset is None:
        return N_("not known yet")
    if not is_off(setting, offset):
        seconds = round(offset / clock.SECOND, 1) + 0.0  # + 0.0 turns -0.0 into 0.0
        return fill(N_("correct (%(seconds)s s)"), seconds=f"{seconds:+.1f}")
    if offset > 0:
        wrong = AHEAD_BUT_TRUSTED if setting == READER else AHEAD
    else:
        wrong = BEHIND_BUT_TRUSTED if setting == READER else BEHIND
    return fill(wrong, duration=clock.span(abs(offset)))
