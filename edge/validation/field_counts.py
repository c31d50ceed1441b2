"""Counts of mapped fields that matched nothing or were unreadable, and advice on the mapping."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from edge.texts import N_, fill

CONDITION = "condition"
MOSTLY = 0.9  # share of reads from which a path that matches nothing is reported
SELDOM = 0.01
MISSING = N_("%(field)s matched nothing in %(number)s of %(reads)s reads")
NOT_COMPARABLE = N_("%(field)s compared text with a number in %(number)s of %(reads)s reads: %(example)s")
UNREADABLE = N_("%(field)s was unreadable in %(number)s of %(reads)s reads: %(example)s")


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
            yield fill(MISSING, field=field, number=count.missing, reads=count.reads)
        if count.unreadable > SELDOM * count.reads:
            text = NOT_COMPARABLE if field == CONDITION else UNREADABLE
            yield fill(text, field=field, number=count.unreadable, reads=count.reads, example=count.example)
