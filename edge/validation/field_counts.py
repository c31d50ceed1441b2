"""What the optional paths of a mapping led to, and what to correct in it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

CONDITION = "condition"
MOSTLY = 0.9  # of the reads: a path that leads to nothing so often is wrong, or the device does not send the field
SELDOM = 0.01


class FieldCount(NamedTuple):
    """How often a field was looked for, absent, and unreadable; `example` says why it was unreadable."""

    reads: int
    missing: int = 0
    unreadable: int = 0
    example: str = ""

    def plus(self, other: FieldCount) -> FieldCount:
        return FieldCount(
            self.reads + other.reads,
            self.missing + other.missing,
            self.unreadable + other.unreadable,
            other.example or self.example,
        )


def added(counts: dict[str, FieldCount], more: Mapping[str, FieldCount]) -> dict[str, FieldCount]:
    for field, count in more.items():
        counts[field] = counts[field].plus(count) if field in counts else count
    return counts


def remarks(counts: Mapping[str, FieldCount], enough: int = 1) -> Iterator[str]:
    """What to correct in a mapping, such as `antenna_path matched nothing in 30 of 30 reads`."""
    for field, count in counts.items():
        if count.reads < enough:
            continue
        if count.missing and count.missing >= MOSTLY * count.reads:
            yield f"{field} matched nothing in {count.missing} of {count.reads} reads"
        if count.unreadable > SELDOM * count.reads:
            problem = "compared text with a number" if field == CONDITION else "was unreadable"
            yield f"{field} {problem} in {count.unreadable} of {count.reads} reads: {count.example}"
