"""How far a reader's clock is trusted: a technician's setting, and what was found out about the clock."""

from __future__ import annotations

from typing import NamedTuple

from edge import clock
from edge.database.connection import execute
from edge.errors import Invalid

AUTO = "auto"  # trusted, corrected by how far it is found to be off
READER = "reader"  # trusted as it is
RECEIPT = "receipt"  # not trusted: the time of a read is that of its message's arrival
NOT_ZONES = (AUTO, READER, RECEIPT)


class Known(NamedTuple):
    """How far the clock was ahead (microseconds) when the reader was last heard, and when that was."""

    offset: int | None
    newest_read_at: int
    stands_at: int | None = None  # the time it shows, if it stands still


def check_clock(setting: str) -> None:
    """One of the above, or the time zone of a clock that sends none (treated as AUTO). Raises Invalid."""
    if setting not in NOT_ZONES and not clock.is_zone(setting):
        advice = "write auto, reader, receipt, or the time zone of a clock that sends none, such as Europe/Berlin"
        raise Invalid.one("clock_setting", "invalid_value", f"clock {setting[:60]} is not known; {advice}")


def known_clocks() -> dict[int, Known]:
    """Of the readers of all organizations; only ingest, which serves the whole box, may ask."""
    rows = execute(
        "SELECT reader_id, clock_offset, ifnull(last_read_at, 0), clock_stands_at FROM reader_state "
        "WHERE clock_offset IS NOT NULL OR clock_stands_at IS NOT NULL"
    )
    return {reader_id: Known(*known) for reader_id, *known in rows}


def is_off(setting: str, offset: int | None, stands_at: int | None = None) -> bool:
    """Whether somebody should check the clock."""
    is_wrong = stands_at is not None or (offset is not None and abs(offset) > clock.NOTICEABLE)
    return setting != RECEIPT and is_wrong


def in_words(setting: str, offset: int | None, stands_at: int | None = None) -> str:
    """The state of the clock, and what is done about it."""
    if setting == RECEIPT:
        return "not trusted, the time of receipt counts"
    if stands_at is not None:
        done = "trusted nevertheless" if setting == READER else "the time of receipt counts"
        return f"stands still at {clock.rfc3339(stands_at)}, {done}"
    if offset is None:
        return "not known yet"
    if not is_off(setting, offset):
        return f"right ({round(offset / clock.SECOND, 1) + 0.0:+.1f} s)"  # minus nothing is nothing
    done = "trusted nevertheless" if setting == READER else "corrected"
    return f"{clock.span(abs(offset))} {'ahead' if offset > 0 else 'behind'}, {done}"
