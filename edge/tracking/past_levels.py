"""Levels of stays that have ended, by their length, and the cells of time that a level has.

Cells of a level are as long as its longest stays. So a stay that lasts at a moment began in the cell of that moment or
in the one before. The last level has stays of any length.
"""

from __future__ import annotations

PAST_LEVELS = 16


def past_width(level: int) -> int:
    """Return the length of the cells of a level in µs: 64 s, and four times more for each level."""
    return 64_000_000 << 2 * level


def past_level(begin: str, end: str) -> str:
    """Return SQL for the level of a stay."""
    levels = range(PAST_LEVELS - 1)
    cases = "".join(f"WHEN {end} - {begin} <= {past_width(level)} THEN {level} " for level in levels)
    return f"CASE {cases}ELSE {PAST_LEVELS - 1} END"


def past_cell(begin: str, end: str) -> str:
    """Return SQL for the cell of a stay."""
    cases = "".join(
        f"WHEN {end} - {begin} <= {past_width(level)} THEN {begin} / {past_width(level)} * {PAST_LEVELS} + {level} "
        for level in range(PAST_LEVELS - 1)
    )
    last = PAST_LEVELS - 1
    return f"CASE {cases}ELSE {begin} / {past_width(last)} * {PAST_LEVELS} + {last} END"


def cells_at(at: int) -> list[tuple[int, int]]:
    """Return the cells of stays that last at a moment, and the longest stay of each in µs."""
    widths = [past_width(level) for level in range(PAST_LEVELS)]
    return [
        (number * PAST_LEVELS + level, width)
        for level, width in enumerate(widths)
        for number in (at // width - 1, at // width)
    ]
