"""Direction of the tags of one pallet, judged together: the decision rule only.

A reader shares its time among all tags in its field. Of a pallet with 300 tags it reads each about five times, too few
to tell the direction of one tag. But tags that pass a door in the same seconds move together:

* Only visitors are pooled: tags whose reads at the door, up to `ALONE` around the window, span at most `STAY`. A staged
  pallet takes no part.
* The evidence of a look is the lead of one side in the mean over all reads of visitors within `NEAR`, weak reads
  counting less. The best path of sides is found as in `passage_rule`. A turn is a change of side that collects
  `NEEDED_TOGETHER` on both sides, if a quarter of the tags there are stronger than `NEAR_TOGETHER` on each side.
* Each tag fits one turn, or two within `TURN` if the pallet turned back, better than the others. Tags that fit only one
  vote; the others follow the votes. So two pallets one after the other keep their own directions.
* A tag takes over the direction of at least `VOTES` others if both sides read it, and if most of its reads agree.

Reads without RSSI are not pooled: then this door and the next one look alike. The result depends on the times of
the reads only.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby, pairwise
from typing import NamedTuple

from edge.clock import SECOND
from edge.doors.passage_rule import (
    ALONE,
    AROUND,
    CHANGE,
    LINK,
    LONGEST,
    LOOK,
    MARGIN,
    MOST_EVIDENCE,
    STAY,
    TURN,
    UNIT,
    WEAKEST,
    Direction,
    DoorRead,
    Passage,
    Side,
    best_path,
)

WINDOW = LONGEST
NEAR = 2  # looks
PAUSE = 2 * SECOND  # between the tags of two pallets
NEEDED_TOGETHER = 6.0
NEAR_TOGETHER = -56.0  # dBm, of the strongest quarter of the tags
VOTES = 5  # tags
LEAST_AGREEING = 1  # read more than those that disagree
SHARED_CONFIDENCE = 0.9


class Turn(NamedTuple):
    """A change of side of many tags at `at`. `is_outward`: to the outer side."""

    at: int
    is_outward: bool


class Way(NamedTuple):
    """One turn, or two by which a pallet turned back, and the number of tags that fit only this way.

    The middle of the reads of each tag of this pallet is between `first` and `last`.
    """

    turns: tuple[Turn, ...]
    first: int
    last: int
    votes: int = 0

    @property
    def direction(self) -> Direction:
        if len(self.turns) > 1:
            return Direction.TURNED_BACK
        return Direction.OUT if self.turns[0].is_outward else Direction.IN

    def fit(self, reads: Sequence[DoorRead]) -> int:
        """Return how many more of the reads agree with this way than disagree."""
        sides = [turn.is_outward for turn in self.turns]
        times = [turn.at for turn in self.turns]
        agreeing = 0
        for read in self.reads_behind(reads):
            passed = bisect_right(times, read.at)
            side = sides[passed - 1] if passed else not sides[0]
            agreeing += 1 if read.side == side else -1
        return agreeing

    def reads_behind(self, reads: Sequence[DoorRead]) -> list[DoorRead]:
        return [read for read in reads if self.turns[0].at - AROUND <= read.at <= self.turns[-1].at + AROUND]


def windows_with(at: int) -> range:
    """Return the windows to which a read at this time may belong."""
    return range((at - MARGIN - ALONE) // WINDOW, (at + MARGIN + ALONE) // WINDOW + 1)


def span_of(window: int) -> tuple[int, int]:
    """Return the times between which the reads of a window show who is a visitor."""
    since, until = _pooled_span(window)
    return since - ALONE, until + ALONE


def ways_of(window: int, visitors: Mapping[int, Sequence[DoorRead]]) -> tuple[Way, ...]:
    """Return the ways that the tags went in a window. `visitors`: reads of each in the span, in order of time."""
    pooled = [own for reads in visitors.values() if (own := _pooled(reads, window))]
    return tuple(way for pallet in _pallets(pooled) for way in _ways_of(pallet, window))


def _pallets(tags: Sequence[Sequence[DoorRead]]) -> Iterator[list[Sequence[DoorRead]]]:
    """Yield the tags that passed together: the middles of their reads have no gap of `PAUSE`."""
    pallet: list[Sequence[DoorRead]] = []
    for reads in sorted(tags, key=_middle):
        if pallet and _middle(reads) - _middle(pallet[-1]) > PAUSE:
            yield pallet
            pallet = []
        pallet.append(reads)
    if pallet:
        yield pallet


def _ways_of(pallet: Sequence[Sequence[DoorRead]], window: int) -> Iterator[Way]:
    turns = [turn for turn in _turns(pallet) if turn.at // WINDOW == window]
    chosen: list[tuple[Turn, ...]] = [(turn,) for turn in turns]
    chosen += [(one, other) for one, other in pairwise(turns) if other.at - one.at <= TURN]
    ways = [Way(one, _middle(pallet[0]), _middle(pallet[-1])) for one in chosen]
    votes = Counter(best[0] for reads in pallet if len(best := _best(ways, reads)) == 1)
    yield from (way._replace(votes=votes[way]) for way in ways)


def with_shared(
    decided: Sequence[tuple[int, Passage]],
    doors: Mapping[int, Sequence[DoorRead]],
    ways: Mapping[tuple[int, int], Sequence[Way]],
) -> list[tuple[int, Passage]]:
    """Return the passages of one asset, with those that it takes over from others. `ways`: by door and window."""
    taken = [
        (door, one)
        for (door, window), its_ways in ways.items()
        if its_ways and (one := _shared(_visiting(doors.get(door, ()), window), its_ways))
    ]
    result = list(decided)
    for door, one in sorted(taken, key=lambda pair: (-pair[1].peak, pair[1].at, pair[0])):
        near = [pair for pair in result if abs(pair[1].at - one.at) <= LINK]
        if all(_gives_way(other, one, is_same=other_door == door) for other_door, other in near):
            result = [*(pair for pair in result if pair not in near), (door, one)]
    return sorted(result, key=lambda pair: (pair[1].at, pair[0]))


def _gives_way(before: Passage, shared: Passage, *, is_same: bool) -> bool:
    """Return True if a passage that the tag takes over replaces one of its own. `is_same`: at the same door."""
    return before.direction is Direction.UNKNOWN or (is_same and before.direction is not shared.direction)


def _visiting(reads: Sequence[DoorRead], window: int) -> list[DoorRead]:
    """Return the pooled reads of a visitor in a window, none of another tag."""
    since, until = span_of(window)
    near = [read for read in reads if since <= read.at < until]
    return _pooled(near, window) if near and near[-1].at - near[0].at <= STAY else []


def _pooled(reads: Sequence[DoorRead], window: int) -> list[DoorRead]:
    since, until = _pooled_span(window)
    return [read for read in reads if since <= read.at < until and read.rssi is not None]


def _pooled_span(window: int) -> tuple[int, int]:
    return window * WINDOW - MARGIN, (window + 1) * WINDOW + MARGIN


def _middle(reads: Sequence[DoorRead]) -> int:
    return sum(read.at for read in reads) // len(reads)


def _shared(reads: Sequence[DoorRead], ways: Sequence[Way]) -> Passage | None:
    """Return the passage of a tag with few reads, from the way of those that passed with it."""
    best = _best([way for way in ways if reads and way.first <= _middle(reads) <= way.last], reads)
    way = max(best, key=lambda one: one.votes, default=None)
    if way is None or way.votes - (len(best) == 1) < VOTES:
        return None
    behind = way.reads_behind(reads)
    counts = [sum(1 for read in behind if read.side == side) for side in Side]
    if not all(counts):
        return None
    peak = min(max(read.strength for read in behind if read.side == side) for side in Side)
    times = (behind[0].at, behind[-1].at)
    return Passage(way.turns[0].at, way.direction, SHARED_CONFIDENCE, counts[0], counts[1], *times, peak)


def _best(ways: Sequence[Way], reads: Sequence[DoorRead]) -> list[Way]:
    """Return the ways that most reads agree with."""
    fits = [way.fit(reads) for way in ways]
    most = max(fits, default=0)
    return [way for way, fit in zip(ways, fits, strict=True) if fit == most] if most >= LEAST_AGREEING else []


def _turns(pallet: Sequence[Sequence[DoorRead]]) -> Iterator[Turn]:
    reads = sorted(read for own in pallet for read in own)
    looks, evidence = _evidence(reads)
    path = best_path(evidence, CHANGE)
    stays: list[tuple[int, int, float]] = []  # first look, side, evidence for it
    for index, (side, value) in enumerate(zip(path, evidence, strict=True)):
        own = value if side == Side.OUTER else -value
        if stays and stays[-1][1] == side:
            stays[-1] = (stays[-1][0], side, stays[-1][2] + own)
        else:
            stays.append((index, side, own))
    ends = [begin for begin, _, _ in stays[1:]] + [len(looks)]
    for number, ((_, _, before), (begin, side, after)) in enumerate(pairwise(stays)):
        if min(before, after) < NEEDED_TOGETHER:
            continue
        since, until = looks[stays[number][0]] * LOOK, (looks[ends[number + 1] - 1] + 1) * LOOK
        if min(_upper_quarter(pallet, side, since, until) for side in Side) >= NEAR_TOGETHER:
            yield Turn(looks[begin] * LOOK, side == Side.OUTER)


def _evidence(reads: Sequence[DoorRead]) -> tuple[list[int], list[float]]:
    """Return the looks, and the lead of the outer side in each."""
    floor = min(WEAKEST, *(read.strength for read in reads))
    sums: dict[int, tuple[list[float], list[int]]] = {}
    for number, look in groupby(reads, key=lambda read: read.at // LOOK):
        strengths, counts = sums[number] = [0.0, 0.0], [0, 0]
        for read in look:
            strengths[read.side] += read.strength - floor
            counts[read.side] += 1
    evidence = []
    for number in sums:
        near = [sums[other] for other in range(number - NEAR, number + NEAR + 1) if other in sums]
        lead = sum(strengths[Side.OUTER] - strengths[Side.INNER] for strengths, _ in near)
        most = max(sum(counts[side] for _, counts in near) for side in Side)
        evidence.append(max(-MOST_EVIDENCE, min(MOST_EVIDENCE, lead / most / UNIT)))
    return list(sums), evidence


def _upper_quarter(pallet: Sequence[Sequence[DoorRead]], side: int, since: int, until: int) -> float:
    """Return the strength that a quarter of the tags reached on a side."""
    peaks = sorted(
        max(strengths)
        for reads in pallet
        if (strengths := [read.strength for read in reads if read.side == side and since <= read.at < until])
    )
    return peaks[len(peaks) * 3 // 4] if peaks else -math.inf
