"""Detecting passages through a door: the decision rule only.

A door has an inner and an outer side, each with antennas. A pallet that passes is read on one side, then on both, then
on the other. But antennas also read behind them, goods hide the tag from one side, and pallets stand near the door for
hours. So no single read and no single crossing of strengths is a passage:

* A *look* is a quarter of a second with any read of the asset at the door. Its evidence is the lead of one side over
  the other, in units of `UNIT`: the strongest reads of each side within `NEAR`. A silent side counts as the weakest
  signal that a reader receives. Readers without RSSI count with equal strengths, so only silence speaks. A single look
  counts for at most `MOST_EVIDENCE`, because obstacles stay for longer than a look.
* The asset is on one side or the other. The path of sides that explains all looks best is the one with the greatest sum
  of evidence, where each change of side costs `CHANGE`. This is the Viterbi algorithm with two states. For an asset
  that is read for more than `STAY`, a change costs `CHANGE_OF_STAYING`: it has hours for reads that look like one.
* A change of side is a passage if each side collects `NEEDED` evidence before or after it. Each dB by which the
  strongest reads of the sides differ by more than `EQUAL`, or by which the weaker side stays below `NEAR_DOOR`, needs
  `DOUBT` more: at an obstacle the strong side gets weak, but the weak one never gets strong.
* Two changes within `TURN` lead back to the first side: the asset turned back.
* With fewer than `FEW` reads on a side, the direction is unknown. A short visit with at most
  `MOST_FEW` reads of both sides is a passage of unknown direction, if both sides reach `NEAR_DOOR`. A stray read of a
  staged pallet is none.
* If another door reads the asset better within `RIVAL`, the passage is there.

Only reads within `LINK` of a read on the opposite side are compared. Such a stretch is decided as a whole. One of more
than `LONGEST` (a pallet in the doorway) is decided in parts that begin at fixed times, each with a `MARGIN` of reads
around it. So a decision depends on the reads within `REACH` only, and never on their order of arrival.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from enum import IntEnum
from itertools import groupby, pairwise
from typing import NamedTuple

from edge.clock import SECOND

LOOK = SECOND // 4
LINK = 5 * SECOND
LONGEST = 30 * SECOND
NEAR = 0.5  # seconds; reads at most that far apart are compared
FADE = 6.0  # dB a second that an earlier or later read counts less
UNIT = 6.0  # dB
MOST_EVIDENCE = 2.0
CHANGE = 4.0
CHANGE_OF_STAYING = 14.0  # for an asset that stays near the door
CHANGE_OF_STAYING_BLIND = 18.0  # the same without RSSI
NEEDED = 2.0
SURE = 6.0
EQUAL = 12.0  # dB between the strongest reads of the two sides
NEAR_DOOR = -66.0  # dBm that both sides usually reach
DOUBT = 0.25  # evidence needed for each dB beyond
TURN = 10 * SECOND
FEW = 3  # reads
WEAKEST = -75.0  # dBm
UNKNOWN_STRENGTH = -60.0  # dBm, without RSSI
RIVAL = LINK // 2
ALONE = 15 * SECOND  # reads around a stretch that show whether the asset stays
STAY = 25 * SECOND
MARGIN = 8 * SECOND  # around a part of a long stretch
VISIT, MOST_FEW = 15 * SECOND, 12  # length and reads of a short visit
AROUND = 4 * SECOND  # reads that count as those of a passage
REACH = LONGEST + 2 * MARGIN + ALONE  # a decision depends on the reads at most that far away
REVISED = REACH + RIVAL  # a read changes only decisions at most that far away


class Side(IntEnum):
    INNER = 0
    OUTER = 1


class Direction(IntEnum):
    UNKNOWN = 0
    IN = 1
    OUT = 2
    TURNED_BACK = 3
    WITHDRAWN = 4  # disproved by late reads; never decided, only stored


class DoorRead(NamedTuple):
    """A read of one asset by an antenna of a door. `at` in microseconds."""

    at: int
    side: int
    rssi: float | None = None

    @property
    def strength(self) -> float:
        return UNKNOWN_STRENGTH if self.rssi is None else self.rssi


class Passage(NamedTuple):
    """A passage of one asset. `at` is the first change of side, `until` the last read behind it."""

    at: int
    direction: Direction
    confidence: float
    inner_reads: int
    outer_reads: int
    since: int  # first read behind it
    until: int
    peak: float  # the strongest read on the weaker side


class Stretch(NamedTuple):
    """Reads that are decided together. Passages from `since` until before `until` count."""

    reads: Sequence[DoorRead]
    since: int
    until: int


class _Look(NamedTuple):
    number: int  # `at // LOOK`
    inner: float | None
    outer: float | None


class _Change(NamedTuple):
    """A change of side before the look number `look`. `is_outward`: to the outer side."""

    look: int
    is_outward: bool
    evidence: float
    peak: float


def passages(doors: Mapping[int, Sequence[DoorRead]], since: int, until: int) -> list[tuple[int, Passage]]:
    """Return the passages of one asset that begin from `since` until before `until`, as (door, passage).

    `doors` holds all its reads from `since - REACH` to `until + REACH`, by door and in order of time.
    """
    decided = []
    for door, reads in doors.items():
        for stretch in stretches(reads):
            begin, end = max(since, stretch.since), min(until, stretch.until)
            if begin < end and stretch.reads[0].at < end and stretch.reads[-1].at >= begin:
                decided += [(door, one) for one in _decide(stretch.reads, reads) if begin <= one.at < end]
    kept = [(door, one) for door, one in decided if not _is_elsewhere(door, one, doors)]
    return sorted(kept, key=lambda pair: (pair[1].at, pair[0]))


def stretches(reads: Sequence[DoorRead]) -> Iterator[Stretch]:
    """Yield the runs of reads within `LINK` of a read on the opposite side, long ones in parts."""
    begin = 0
    for end in range(1, len(reads) + 1):
        if end < len(reads) and reads[end].at - reads[end - 1].at <= LINK:
            continue
        yield from _linked(reads[begin:end])
        begin = end


def _linked(reads: Sequence[DoorRead]) -> Iterator[Stretch]:
    linked = _near_the_other_side(reads)
    run: list[DoorRead] = []
    for read, is_linked in zip(reads, linked, strict=True):
        if is_linked and (not run or read.at - run[-1].at <= LINK):
            run.append(read)
            continue
        yield from _cut(run)
        run = [read] if is_linked else []
    yield from _cut(run)


def _near_the_other_side(reads: Sequence[DoorRead]) -> list[bool]:
    linked = [False] * len(reads)
    for order in (range(len(reads)), range(len(reads) - 1, -1, -1)):
        last: list[int | None] = [None, None]
        for index in order:
            read = reads[index]
            other = last[1 - read.side]
            if other is not None and abs(read.at - other) <= LINK:
                linked[index] = True
            last[read.side] = read.at
    return linked


def _cut(run: list[DoorRead]) -> Iterator[Stretch]:
    if not run:
        return
    if run[-1].at - run[0].at <= LONGEST:
        yield Stretch(run, run[0].at, run[-1].at + 1)
        return
    for number in range(run[0].at // LONGEST, run[-1].at // LONGEST + 1):
        since, until = number * LONGEST, (number + 1) * LONGEST
        part = [read for read in run if since - MARGIN <= read.at < until + MARGIN]
        if part:
            yield Stretch(part, since, until)


def _decide(stretch: Sequence[DoorRead], reads: Sequence[DoorRead]) -> list[Passage]:
    counts = [sum(1 for read in stretch if read.side == side) for side in Side]
    if not all(counts):
        return []
    looks = _looks(stretch)
    evidence = _evidence(looks)
    around = [read.at for read in reads if stretch[0].at - ALONE <= read.at <= stretch[-1].at + ALONE]
    cost = CHANGE
    if around[-1] - around[0] > STAY:
        cost = CHANGE_OF_STAYING_BLIND if all(read.rssi is None for read in stretch) else CHANGE_OF_STAYING
    path = best_path(evidence, cost)
    changes = [
        _Change(index, path[index] == Side.OUTER, *_around(index, looks, evidence, path))
        for index in range(1, len(path))
        if path[index] != path[index - 1]
    ]
    made = [_passage(group, looks, stretch) for group in _grouped(changes, looks)]
    decided = [one for one in made if one is not None]
    if not decided:
        unknown = _few_reads(stretch, around)
        decided = [unknown] if unknown else []
    return decided


def _looks(reads: Sequence[DoorRead]) -> list[_Look]:
    looks = []
    for number, group in groupby(reads, key=lambda read: read.at // LOOK):
        strongest: list[float | None] = [None, None]
        for read in group:
            before = strongest[read.side]
            strongest[read.side] = read.strength if before is None else max(before, read.strength)
        looks.append(_Look(number, strongest[Side.INNER], strongest[Side.OUTER]))
    return looks


def _evidence(looks: Sequence[_Look]) -> list[float]:
    """Return the lead of the outer side in each look."""
    gaps = sorted(after.number - before.number for before, after in pairwise(looks))
    usual = gaps[len(gaps) // 2] if gaps else 1
    near = max(round(NEAR * SECOND / LOOK), usual)
    seen = [one for look in looks for one in (look.inner, look.outer) if one is not None]
    floor = min(WEAKEST, *seen)
    values = []
    for index, look in enumerate(looks):
        levels = [floor, floor]
        for step in (-1, 1):
            other = index if step < 0 else index + 1
            while 0 <= other < len(looks):
                away = abs(looks[other].number - look.number)
                if away > near:
                    break
                fade = FADE * away * LOOK / SECOND
                for side, strength in ((0, looks[other].inner), (1, looks[other].outer)):
                    if strength is not None and strength - fade > levels[side]:
                        levels[side] = strength - fade
                other += step
        lead = (levels[1] - levels[0]) / UNIT
        values.append(max(-MOST_EVIDENCE, min(MOST_EVIDENCE, lead)))
    return values


def best_path(evidence: Sequence[float], cost: float) -> list[int]:
    """Return the side in each look."""
    inner = outer = 0.0
    steps = []
    for value in evidence:
        from_outer, from_inner = outer - cost > inner, inner - cost > outer
        inner, outer = (
            (outer - cost if from_outer else inner) - value,
            (inner - cost if from_inner else outer) + value,
        )
        steps.append((from_outer, from_inner))
    side = int(Side.OUTER if outer > inner else Side.INNER)
    path = []
    for step in reversed(steps):
        path.append(side)
        if step[side]:
            side = 1 - side
    return path[::-1]


def _around(index: int, looks: Sequence[_Look], evidence: Sequence[float], path: Sequence[int]) -> tuple[float, float]:
    """Return the evidence for a change (that of the side with less), and its peak."""
    before = after = 0.0
    sign = 1 if path[index] == Side.OUTER else -1
    other = index - 1
    while other >= 0 and path[other] == path[index - 1]:
        before -= sign * evidence[other]
        other -= 1
    begin = other + 1
    other = index
    while other < len(path) and path[other] == path[index]:
        after += sign * evidence[other]
        other += 1
    peaks = [
        max((one for look in looks[begin:other] if (one := look[1 + side]) is not None), default=-math.inf)
        for side in Side
    ]
    doubt = max(0.0, abs(peaks[0] - peaks[1]) - EQUAL) + max(0.0, NEAR_DOOR - min(peaks))
    return min(before, after) - DOUBT * doubt, min(peaks)


def _grouped(changes: Sequence[_Change], looks: Sequence[_Look]) -> list[list[_Change]]:
    """Return the changes in groups of at most `TURN`."""
    groups: list[list[_Change]] = []
    for change in changes:
        if groups and (looks[change.look].number - looks[groups[-1][0].look].number) * LOOK <= TURN:
            groups[-1].append(change)
        else:
            groups.append([change])
    return groups


def _passage(group: Sequence[_Change], looks: Sequence[_Look], stretch: Sequence[DoorRead]) -> Passage | None:
    evidence = min(change.evidence for change in group)
    if evidence < NEEDED:
        return None
    first, last = (looks[change.look].number * LOOK for change in (group[0], group[-1]))
    behind = [read for read in stretch if first - AROUND <= read.at <= last + AROUND]
    counts = [sum(1 for read in behind if read.side == side) for side in Side]
    if min(counts) < FEW:
        direction = Direction.UNKNOWN
    elif len(group) % 2 == 0:
        direction = Direction.TURNED_BACK
    else:
        direction = Direction.OUT if group[-1].is_outward else Direction.IN
    confidence = min(0.99, 1 / (1 + math.exp(-evidence / SURE * 3))) if direction else 0.5
    at = next((read.at for read in behind if read.at >= first), behind[-1].at)
    peak = max(change.peak for change in group)
    return Passage(at, direction, round(confidence, 3), counts[0], counts[1], behind[0].at, behind[-1].at, peak)


def _few_reads(stretch: Sequence[DoorRead], around: Sequence[int]) -> Passage | None:
    """Return a passage of unknown direction if few reads stand alone. `around`: times of all reads near them."""
    strongest = [max(read.strength for read in stretch if read.side == side) for side in Side]
    if len(around) > MOST_FEW or around[-1] - around[0] > VISIT or min(strongest) < NEAR_DOOR:
        return None
    counts = [sum(1 for read in stretch if read.side == side) for side in Side]
    at = stretch[len(stretch) // 2].at
    return Passage(at, Direction.UNKNOWN, 0.5, counts[0], counts[1], stretch[0].at, stretch[-1].at, min(strongest))


def _is_elsewhere(door: int, one: Passage, doors: Mapping[int, Sequence[DoorRead]]) -> bool:
    for other, reads in doors.items():
        if other == door:
            continue
        peak, number = _near(reads, one.at)
        if (peak, number, -other) > (one.peak, _near(doors[door], one.at)[1], -door):
            return True
    return False


def _near(reads: Sequence[DoorRead], at: int) -> tuple[float, int]:
    """Return the strongest read of the weaker side at about that time, and the number of reads."""
    near = [read for read in reads if abs(read.at - at) <= RIVAL]
    strongest = [max((read.strength for read in near if read.side == side), default=-math.inf) for side in Side]
    return min(strongest), len(near)
