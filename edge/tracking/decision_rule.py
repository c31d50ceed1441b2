"""Choosing a location when several antennas read the same asset: the decision rule only.

One read proves little: walls do not stop tags, and reflections change the signal by 20 dB within a second. So reads are
evidence. A *look* is a second with any read of the asset, with the locations that read it and how strongly. While the
asset is at `here`, every other location that reads it is a challenger. Its lead over `here` is summed look by look and
never drops below zero. This is the CUSUM test: of all tests with the same rate of false alarms it detects a change
soonest. The challenger wins once its sum is large enough.

* A location that misses a look counts with its last strength, which fades with the length of its silence. Silence is
  measured in the asset's usual interval between looks: a reader that reports each tag every 5 s is not silent after 5
  s. A miss proves more for a location that rarely misses: 13 dB after 20 looks of 20, 3 dB after every other look.
* Looks one second apart are alike, since an obstacle stays for longer. The looks of a sparse reader prove more each, so
  it needs a smaller sum: two or three reads decide.
* A location that is silent for `GONE_AFTER` intervals, and for long enough to prove its absence, no longer competes.
  The next read elsewhere is a move at once.
* A lead below `MARGIN` is ignored, and a look counts for at most `LOOK_LIMIT`, which is less than the sum needed. So no
  single read of a zone decides while `here` may still read the asset.
* If two RFID antennas overlap, a reader that suppresses repeated reads reports only the antenna that was first. A miss
  of the other one is then mostly chance: misses count half, and the full sum is needed. This applies between readers
  only: of two antennas of one reader, the other one reads the asset next.
* Portals and direct antennas have a rule of their own, in `portal_rule`. Afterwards a portal competes like a zone.
* While the whole reader of `here` is out (`signs`), its silence proves nothing: a challenger has to be stronger than
  `here` was, or after `LONG_OUTAGE` as strong.
* If the newest read of an asset is elsewhere, it is held. It counts once the reader of `here` has been online for
  another `OTHER_READER` seconds (`SAME_READER` for another antenna of the same reader) without reading the asset. If
  `here` reads the asset less often than that, it has to miss it twice.
* A pause of more than `IDLE` seconds ends the evidence: earlier reads prove nothing, and memory may drop them.
* A person's scan holds for `PERSON_HOLDS` seconds against all zones.

A move begins with the first read at the new location after the last one at the old location, within the looks that
decide. So held reads count at their own time.

The result depends only on the reads and their times, not on their order of arrival, and duplicates change nothing.
Readers move an asset at most once a second, except direct antennas: the first and the last read of a second count.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import IntEnum
from itertools import pairwise
from typing import NamedTuple

from edge.tracking.portal_rule import DIRECT, PORTAL, WEAKER_BY, is_certain, is_stray
from edge.tracking.signal_strength import LOOKS, Detection, Weight
from edge.tracking.signs import Outage, ReaderOutages, Signs

MARGIN = 3.0  # dB
LOOK_LIMIT = 20.0  # dB, most that a single look adds or subtracts
ADJACENT = 1  # seconds; a shorter silence proves nothing
DENSE_MISS = 8.0  # dB for each further second of silence if looks are one second apart
GONE_AFTER = 10  # steps
GONE_EVIDENCE = 60.0  # dB, of misses
OVERLAP_LOOKS = 3  # looks with the challenger before the last one with `here`
KNOWN_LOOKS = 3  # detections that show how often a location reads the asset
SPARSE_SECONDS = 3  # seconds between looks
LEAST_PACE, MOST_PACE, USUAL_PACE = 1, 30, 5  # seconds; `USUAL_PACE` until there are enough gaps
GAPS = 5  # number of gaps that give the pace
PERSON_HOLDS = 30  # seconds
LONG_OUTAGE = 120  # seconds
OTHER_READER, SAME_READER = 3, 60  # seconds
MISSED_TWICE = 2
IDLE = 300  # seconds

_RFID = (int(Weight.RFID_ZONE), PORTAL)
_NEEDED = (30.0, 45.0, 30.0, 45.0, 0.0)  # dB, sum needed to win, by weight; BLE fades more
_SPARSER = (1.4, 1.8, 1.4, 1.8, 1.0)  # divides the needed sum if looks are at least `SPARSE_SECONDS` apart, by weight


class Rule(IntEnum):
    """Reason for a row of history."""

    EVERY_READ = 0  # smoothing is off, or the read was too late
    FIRST = 1
    STRONGER = 2  # won against the previous location
    SILENT = 3  # the previous location no longer read the asset
    PORTAL = 4
    DIRECT = 5
    AGAIN = 6  # no move: read again after a gap
    PERSON = 7
    NEW = 8  # in old rows only: one read at a new location, missed at the previous one
    SETTLED = 9  # read there last; the reader of the previous location was online and missed it


class Decision(NamedTuple):
    """A move to the location of `detection`; `collected` in dB if strength decided it."""

    detection: Detection
    rule: Rule
    collected: float = 0.0


ALWAYS_THERE = ReaderOutages(0, None, Signs())


def decide(
    detections: Sequence[Detection],
    end: int,
    here: int | None,
    since: int,
    readers: ReaderOutages = ALWAYS_THERE,
    stayed: Detection | None = None,
) -> Decision | None:
    """Return the move in the second of `detections[end - 1]`, if there is one. Later detections only matter for
    portals.

    `detections` are sorted by second. `here` is the location of the asset (None: never seen) since the second `since`;
    until then nothing counts against it. `stayed` is the last detection at `here` if `detections` may lack it.
    """
    second = detections[end - 1].second
    if here is not None and second <= since:
        return None
    staying: Detection | None = None
    challenger: Detection | None = None
    certain: Detection | None = None
    for index in range(end - 1, -1, -1):
        one = detections[index]
        if one.second != second:
            break
        if one.location_id == here:
            staying = one
            continue
        if PORTAL <= one.weight < DIRECT and _is_stronger(one, certain) and is_certain(detections, index, here):
            certain = one
        if _is_stronger(one, challenger):
            challenger = one
    if here is None:
        return Decision(certain or challenger or detections[end - 1], Rule.FIRST)
    if certain:
        return Decision(certain, Rule.PORTAL)
    if challenger is None or (staying and challenger.strength - staying.strength <= MARGIN):
        return None
    return _won(detections, end, here, challenger, since, readers, stayed)


def _won(
    detections: Sequence[Detection],
    end: int,
    here: int,
    challenger: Detection,
    since: int,
    readers: ReaderOutages,
    stayed: Detection | None,
) -> Decision | None:
    """Return the move to the challenger if its lead is large enough."""
    begin, there, last = decided_from(detections, end), challenger.location_id, last_at(detections, end, here) or stayed
    if last and last.second >= detections[begin].second:
        most, needed = _race(detections[begin:end], here, there, since, _Presence(None))
        if most is not None and most < needed:
            return None  # and no look for outages is needed
    before = _staying(detections, begin, end, last, readers)
    collected, needed = _race(detections[begin:end], here, there, since, before)
    if collected is None:
        return Decision(challenger, Rule.SILENT)
    return Decision(challenger, Rule.STRONGER, collected) if collected >= needed else None


def _is_stronger(one: Detection, other: Detection | None) -> bool:
    return other is None or (one.strength, -one.micros, -one.location_id) > (
        other.strength,
        -other.micros,
        -other.location_id,
    )


def held_back(detections: Sequence[Detection], end: int, here: int | None, since: int) -> Detection | None:
    """Return the strongest detection of the last look before `end` if it is elsewhere and may still count."""
    second = detections[end - 1].second
    if here is None or second <= since:
        return None
    strongest: Detection | None = None
    for index in range(end - 1, -1, -1):
        one = detections[index]
        if one.second != second:
            break
        if one.location_id == here:
            return None
        if _is_stronger(one, strongest) and not is_stray(detections, index, here):
            strongest = one
    return strongest


def settles(
    detections: Sequence[Detection],
    end: int,
    here: int,
    one: Detection,
    until: int,
    readers: ReaderOutages,
    stayed: Detection | None,
) -> tuple[int, bool]:
    """Return the time when the held detection counts without further reads, and whether `until` is past it."""
    last = last_at(detections, end, here) or stayed
    begin = one.second
    if last is None:
        return begin + SAME_READER, False
    seconds = [other.second for other in detections[decided_from(detections, end) : end] if other.location_id == here]
    gaps = len(seconds) - 1
    wait = SAME_READER if readers.reader_of(last.source_no) == readers.reader_of(one.source_no) else OTHER_READER
    if gaps >= KNOWN_LOOKS - 1:
        wait = max(wait, MISSED_TWICE * pace(seconds[-GAPS - 1 :]) + 1)
    return begin + wait, readers.settled_at(last.source_no, begin, wait, until) is not None


def last_at(detections: Sequence[Detection], end: int, here: int) -> Detection | None:
    """Return the last detection at `here`, unless a pause of more than `IDLE` seconds follows it."""
    second = detections[end - 1].second if end else 0
    for index in range(end - 1, -1, -1):
        one = detections[index]
        if second - one.second > IDLE:
            return None
        if one.location_id == here:
            return one
        second = one.second
    return None


def began_with(detections: Sequence[Detection], end: int, here: int, one: Detection, since: int) -> Detection:
    """Return the first detection of the stay that `one`, in the last look before `end`, proves."""
    last = last_at(detections, end, here)
    after = max(since, last.second if last else -1)
    for index in range(decided_from(detections, end), end):
        other = detections[index]
        if other.location_id == one.location_id and other.second > after and not is_stray(detections, index, here):
            return other
    return one


class Lead(NamedTuple):
    """Sum collected by a challenger, and the sum it needs (dB). None if `here` no longer competes."""

    collected: float | None
    needed: float


def lead(
    detections: Sequence[Detection],
    end: int,
    here: int,
    there: int,
    since: int,
    readers: ReaderOutages = ALWAYS_THERE,
    stayed: Detection | None = None,
) -> Lead:
    """Return the lead of `there` over `here` at `detections[end - 1]`; the asset is at `here` since second `since`."""
    begin, last = decided_from(detections, end), last_at(detections, end, here) or stayed
    return _race(detections[begin:end], here, there, since, _staying(detections, begin, end, last, readers))


def _race(window: Sequence[Detection], here: int, there: int, since: int, staying: _Presence) -> Lead:
    """Return the lead of `there` at the end of the detections that decide. `staying`: presence before them."""
    looks: list[int] = [staying.second] if staying.looks else []
    coming = _Presence()
    collected = 0.0
    together = 0  # looks with `there` before the last one with `here`
    second, is_read, before = -1, False, 0
    for following, one in enumerate(window, 1):
        if one.second != second:
            second, is_read, before = one.second, False, coming.looks
            looks.append(second)
        if one.location_id == here:
            staying.add(len(looks) - 1, one)
            is_read, together = True, before
        elif one.location_id == there:
            coming.add(len(looks) - 1, one)
            is_read = True
        is_end = following == len(window) or window[following].second != second
        if not is_end or not is_read or coming.looks == 0 or second <= since:
            continue
        is_overlap = together >= OVERLAP_LOOKS and coming.weight in _RFID
        stays, comes = staying.strength_in(looks, is_overlap), coming.strength_in(looks, is_overlap)
        if stays is None:
            difference = LOOK_LIMIT
        elif comes is None:
            difference = -LOOK_LIMIT
        else:
            difference = max(-LOOK_LIMIT, min(LOOK_LIMIT, comes - stays - MARGIN))
        collected = difference if collected < 0 else collected + difference
    is_overlap = together >= OVERLAP_LOOKS and coming.weight in _RFID
    is_gone = staying.strength_in(looks, is_overlap) is None
    return Lead(None if is_gone else collected, _needed(coming.weight, looks, is_overlap))


def _staying(
    detections: Sequence[Detection], begin: int, end: int, last: Detection | None, readers: ReaderOutages
) -> _Presence:
    """Return the presence of the current location before `detections[begin]`: its last detection and its outages."""
    if last is None:
        return _Presence()
    first = detections[begin].second
    staying = _Presence(readers.outages(last.source_no, min(last.second, first), detections[end - 1].second))
    if staying.outages and last.second < first:
        staying.add(0, last)
    return staying


def _needed(weight: int, looks: Sequence[int], is_overlap: bool) -> float:
    if is_overlap:
        return _NEEDED[weight]
    sparse = min(1.0, (pace(looks[-GAPS - 1 :]) - LEAST_PACE) / (SPARSE_SECONDS - LEAST_PACE))
    return _NEEDED[weight] / (1 + (_SPARSER[weight] - 1) * sparse)


class _Presence:
    """Detections of the asset at one location, look by look."""

    __slots__ = ("_first", "_last", "_miss", "_step", "_strength", "looks", "outages", "second", "weight")

    def __init__(self, outages: Sequence[Outage] | None = ()) -> None:
        self.outages = outages  # of its reader; None: unknown, counted in favor of the other location
        self.looks = 0  # looks
        self._first = self._last = self.second = 0
        self._step = 0  # 0: not measured since the last detection
        self.weight = 0

    def add(self, look: int, one: Detection) -> None:
        if not self.looks:
            self._first = look
        self._last, self.second, self._strength, self.weight = look, one.second, one.strength, one.weight
        self._step = 0
        self.looks += 1

    def strength_in(self, looks: Sequence[int], is_overlap: bool) -> float | None:
        """Return the strength that counts in the newest look, or None if the asset is gone from there."""
        if not self.looks:
            return None
        silent = looks[-1] - self.second
        strength = self._strength
        if self.outages:
            lost = sum(max(0, min(back, looks[-1]) - max(out, self.second)) for out, back in self.outages)
            silent -= lost
            if lost > LONG_OUTAGE:
                strength -= WEAKER_BY
        elif self.outages is None and silent > LONG_OUTAGE:
            strength -= WEAKER_BY
        if silent <= ADJACENT:
            return strength
        if not self._step:
            self._measure_silence(looks)
        step, miss = self._step, self._miss
        if silent > GONE_AFTER * step and miss * silent / step > GONE_EVIDENCE:
            return None
        if step == LEAST_PACE:
            miss = DENSE_MISS
        elif is_overlap:
            miss /= 2
        return strength - miss * (silent - ADJACENT) / step

    def _measure_silence(self, looks: Sequence[int]) -> None:
        """Compute the interval before a silence, and the dB that a miss proves, by the rule of succession."""
        self._step = pace(looks[max(0, self._last - GAPS) : self._last + 1])
        watched = self._last - self._first + 1
        self._miss = 10 * math.log10((watched + 2) / (watched - self.looks + 1))


def decided_from(detections: Sequence[Detection], end: int) -> int:
    """Return the index of the first detection of the last `LOOKS` looks before `end`."""
    looks, second, index = 0, -1, end
    while index:
        one = detections[index - 1]
        if one.second != second:
            looks += 1
            if looks > LOOKS or second - one.second > IDLE:
                break
            second = one.second
        index -= 1
    return index


def pace(looks: Sequence[int]) -> int:
    """Return the usual seconds between looks: the lower median, so that one long pause has no effect."""
    gaps = sorted([after - before for before, after in pairwise(looks)])
    if len(gaps) < 2:
        return min([USUAL_PACE, *gaps])
    return max(LEAST_PACE, min(MOST_PACE, gaps[(len(gaps) - 1) // 2]))
