"""Compare decided positions with the true positions of a trace."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple

from tests.simulation.warehouse import Trace

MOMENT = 0.001  # seconds; above rounding errors, below the interval of reads
Decided = tuple[float, int]  # (start, location)


class Score(NamedTuple):
    """Result: seconds in total and in agreement, false moves, and the delay of each real move (inf: not detected).

    `reads`: number of reads before each detected move.
    """

    seconds: float
    right: float
    moves: int
    false_moves: int
    delays: Sequence[float]
    reads: Sequence[float]

    @property
    def share_right(self) -> float:
        return self.right / self.seconds

    @property
    def false_per_hour(self) -> float:
        return self.false_moves / self.seconds * 3600

    def delay(self, share: float) -> float:
        return _quantile(self.delays, share)

    def reads_until(self, share: float) -> float:
        return _quantile(self.reads, share)


def score(trace: Trace, decided: Sequence[Decided], end: float, passing: float) -> Score:
    """Compare a trace with decisions. Zones crossed in less than `passing` seconds may be missed."""
    first = decided[0][0] if decided else end
    stays = _stays(trace.truth, end)
    right = sum(
        _overlap((since, until), (begin, finish))
        for since, until, zone in _stays(decided, end)
        for begin, finish, true_zone in stays
        if zone == true_zone
    )
    false = sum(1 for at, zone in decided[1:] if zone != _zone(trace.truth, at))
    delays: list[float] = []
    reads: list[float] = []
    moments = [read.at for read in trace.reads]
    for begin, finish, zone in stays[1:]:
        if finish - begin >= passing and begin > first:
            seen = [max(0.0, at - begin) for at, until, place in _stays(decided, end)
                    if place == zone and until > begin and at < finish]  # fmt: skip
            delays.append(min(seen, default=math.inf))
            if seen:
                reads.append(bisect_right(moments, begin + min(seen) + MOMENT) - bisect_right(moments, begin))
    return Score(end - first, right, len(decided) - 1, false, delays, reads)


def total(scores: Sequence[Score]) -> Score:
    return Score(
        sum(one.seconds for one in scores),
        sum(one.right for one in scores),
        sum(one.moves for one in scores),
        sum(one.false_moves for one in scores),
        [delay for one in scores for delay in one.delays],
        [count for one in scores for count in one.reads],
    )


def _quantile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, math.ceil(share * len(ordered)) - 1)] if ordered else 0.0


def _stays(changes: Sequence[Decided], end: float) -> list[tuple[float, float, int]]:
    ends = [at for at, _ in changes[1:]] + [end]
    return [(since, until, zone) for (since, zone), until in zip(changes, ends, strict=True)]


def _zone(truth: Sequence[Decided], at: float) -> int:
    return truth[max(0, bisect_right(truth, (at, math.inf)) - 1)][1]


def _overlap(one: tuple[float, float], other: tuple[float, float]) -> float:
    return max(0.0, min(one[1], other[1]) - max(one[0], other[0]))
