"""Counts of mapped fields that matched nothing or were unreadable, and advice on the mapping."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

CONDITION = "condition"
MOSTLY = 0.9  # share of reads from which a path that matches nothing is reported
SELDOM = 0.01


class FieldCount(NamedTuple):
    """Counts of one optional field: reads, missing and unreadable values, with an example of the latter."""

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


def add_counts(counts: dict[str, FieldCount], more: Mapping[str, FieldCount]) -> dict[str, FieldCount]:
    for field, count in more.items():
        counts[field] = counts[field].plus(count) if field in counts else count
    return counts


def remarks(counts: Mapping[str, FieldCount], enough: int = 1) -> Iterator[str]:
    """Yield advice such as `antenna_path matched nothing in 30 of 30 reads`, from `enough` reads on."""
    for field, count in counts.items():
        if count.reads < enough:
            continue
        if count.missing and count.missing >= MOSTLY * count.reads:
            yield f"{field} matched nothing in {count.missing} of {count.reads} reads"
        if count.unreadable > SELDOM * count.reads:
            problem = "compared text with a number" if field == CONDITION else "was unreadable"
            yield f"{field} {problem} in {count.unreadable} of {count.reads} reads: {count.example}"
