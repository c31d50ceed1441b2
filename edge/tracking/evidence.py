"""Where an asset is that several antennas hear: the rule that decides, and nothing else.

One read proves little: tags are heard through walls, and reflections change the strength by 20 dB within a second. So
reads are evidence. For each second it is kept which locations heard the asset and how strongly; a second in which
anything heard it is a *look*. While the asset is at `here`, every other location that hears it is a challenger, and
look by look its lead over `here` is added up, never below nothing. This is the CUSUM test, which among all tests with
as many false alarms finds a change soonest. The challenger that has collected enough wins.

* A location that did not hear the asset in a look counts with its last strength, less and less the longer it is silent.
  Silence is measured in the pace at which the asset is heard: a reader that tells of each tag every 5 s is not silent
  after 5 s. Each look it misses proves the more the seldomer it was silent before: 13 dB for a location that heard
  the asset in 20 looks of 20, 3 dB for one that hears it in every other.
* Looks a second apart are much alike, since what stands in between stays for longer. Those of a sparse reader prove
  more each, so less has to be collected: two or three reads decide.
* A location that was silent for `GONE` such steps, and as long as proves it, competes no more: the next read anywhere
  else is a move at once.
* A lead below `MARGIN` is none, and a look counts `MOST` at most, less than what has to be collected: one read alone
  decides only where nothing overlaps. That is where a sparse reader says that a location hears the asset which did not
  hear it in any look before, while `here` is due and silent, and at most `WEAKER` below what `here` usually hears. What
  is heard through a wall, or reflected, is weaker by more.
* Where two RFID antennas do overlap, a reader that keeps a tag to itself for some seconds names the one that happened
  to be first. That the other one was not is then chance, rather: misses prove half, and no less has to be collected.
  It has to be another reader than that of `here`: of two antennas of one reader, the other one hears it next.
* A portal is passed, not stayed at: what it hears after `PASSED` seconds of silence is a move. Afterwards it competes
  like any zone. It is decided `AROUND` seconds later, since a stray read is none: one that is weaker by more than
  `WEAKER` than what `here` or another portal hears at about that time. Every read of a direct antenna is a move at
  once, and so is every barcode.
* While the reader of `here` is out as a whole (`signs`), its silence is none: a challenger has to be stronger than
  `here` was, or after `LONG_OUTAGE` as strong.
* A read elsewhere that is the newest of its asset is held back. When the reader of `here` was there for `OTHER_READER`
  seconds more (`SAME_READER` where it is another antenna of that reader) and did not hear the asset, it counts; where
  `here` hears the asset more seldom than that, when it missed it twice.
* What was read before a pause of more than `IDLE` seconds proves nothing after it. Memory need not keep it then.
* What a person scanned stays for `PERSON_HOLDS` seconds, whatever zones hear.

A move begins with the first read there after the last one at the location that was left, as far as that is within
the looks that decide: reads that were held back count at their own time.

The answer depends on what was heard when, never on the order in which the reads arrived, and hearing the same read
again changes nothing. There is at most one move a second, beside those by people.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import IntEnum
from itertools import groupby, pairwise
from operator import attrgetter
from typing import NamedTuple

from edge.tracking.reader_outages import ReaderOutages
from edge.tracking.signal_strength import Detection, Weight
from edge.tracking.signs import Outage, Signs

MARGIN = 3.0  # dB
MOST = 20.0  # dB that a single look adds or takes away, at most
ALIKE = 1  # seconds; a silence as short as that says nothing
MISS_ALIKE = 8.0  # dB for each further second, where looks are a second apart
GONE = 10  # steps
PROVED = 60.0  # dB, of misses
WEAKER = 10.0  # dB
OVERLAP = 3  # looks in which a challenger was heard before `here` was heard last
KNOWN = 3  # times that the asset was heard before, from which it is known that a location does not overlap
SPARSE = 3  # seconds from one look to the next
LOOKS = 24  # that are looked back
LEAST_PACE, MOST_PACE, USUAL_PACE = 1, 30, 5  # seconds; the usual one until there are gaps enough to tell
GAPS = 5  # from which the pace is told
PASSED = 30  # seconds
PERSON_HOLDS = 30  # seconds
AROUND = 3  # seconds
LONG_OUTAGE = 120  # seconds
OTHER_READER, SAME_READER = 3, 60  # seconds
MISSED_TWICE = 2
IDLE = 300  # seconds

_PORTAL = int(Weight.RFID_PORTAL)
_RFID = (Weight.RFID_ZONE, Weight.RFID_PORTAL)
_NEEDED = (30.0, 45.0, 30.0, 45.0, 0.0)  # dB to be collected, by weight; BLE fades more
_SPARSER = (1.4, 1.8, 1.4, 1.8, 1.0)  # times less is needed of looks that are `SPARSE` apart or more, by weight


class Rule(IntEnum):
    """Why a row of history is there."""

    EVERY_READ = 0  # smoothing is off, or the read came too late to be weighed
    FIRST = 1
    STRONGER = 2  # collected enough against the location that was left
    SILENT = 3  # the location that was left did not hear the asset any more
    PORTAL = 4
    DIRECT = 5
    AGAIN = 6  # no move: seen again after a gap
    PERSON = 7
    NEW = 8  # heard where it was not heard before, and not where it was
    SETTLED = 9  # heard there last, and not where it was, whose reader was there


_SECOND = attrgetter("second")


class Decision(NamedTuple):
    """A move to the location of `heard`; `collected` in dB, where it was a matter of strength."""

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
    """The move in the second of `heard[end - 1]`, if there is one. What was heard later is for portals only.

    `heard` in the order of seconds. `here` is where the asset is (None: never seen) since the second `since`; what was
    heard until then does not count against it. `stayed`: how `here` heard it last, should that not be in `heard`.
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
        if one.weight >= _PORTAL and _is_stronger(one, certain) and _is_certain(detections, index, here):
            certain = one
        if _is_stronger(one, challenger):
            challenger = one
    if here is None:
        return Decision(certain or challenger or detections[end - 1], Rule.FIRST)
    if certain:
        return Decision(certain, Rule.DIRECT if certain.weight == Weight.DIRECT else Rule.PORTAL)
    if challenger is None or (staying and challenger.strength - staying.strength <= MARGIN):
        return None
    collected, needed = lead(detections, end, here, challenger.location_id, since, readers, stayed)
    if collected is None:
        return Decision(challenger, Rule.SILENT)
    if collected >= needed:
        return Decision(challenger, Rule.STRONGER, collected)
    if not staying and _is_new(detections, end, here, challenger, readers):
        return Decision(challenger, Rule.NEW)
    return None


def _is_stronger(one: Detection, other: Detection | None) -> bool:
    return other is None or (one.strength, -one.location_id) > (other.strength, -other.location_id)


def _is_certain(detections: Sequence[Detection], index: int, here: int | None) -> bool:
    """Whether a read of a portal, or of a direct antenna, is a move."""
    one = detections[index]
    if one.weight == Weight.DIRECT:
        return True
    if is_stray(detections, index, here):
        return False
    looks, second = 0, one.second
    for earlier in range(index - 1, -1, -1):
        before = detections[earlier]
        if before.second != second:
            looks, second = looks + 1, before.second
        if second < one.second - PASSED or looks >= LOOKS:
            break
        if before.location_id == one.location_id and second < one.second and not is_stray(detections, earlier, here):
            return False
    return True


def is_stray(detections: Sequence[Detection], index: int, here: int | None) -> bool:
    """Whether what a portal heard is far weaker than what `here` or another portal heard at about that time."""
    one = detections[index]
    if here is None or not _PORTAL <= one.weight < Weight.DIRECT:
        return False
    first = index
    while first and detections[first - 1].second >= one.second - AROUND:
        first -= 1
    for position in range(first, len(detections)):
        other = detections[position]
        if other.second > one.second + AROUND:
            break
        is_rival = other.location_id == here or _PORTAL <= other.weight < Weight.DIRECT
        if is_rival and other.location_id != one.location_id and other.strength > one.strength + WEAKER:
            return True
    return False


def is_undecided(detections: Sequence[Detection], begin: int, end: int, here: int | None, horizon: int) -> bool:
    """Whether one of `heard[begin:end]`, of one second, is of a portal that may still prove to be stray."""
    if here is None or detections[begin].second + AROUND <= horizon:
        return False
    return any(
        _PORTAL <= detections[index].weight < Weight.DIRECT
        and detections[index].location_id != here
        and _is_certain(detections, index, here)
        for index in range(begin, end)
    )


def held_back(detections: Sequence[Detection], end: int, here: int | None, since: int) -> Detection | None:
    """The strongest read of the last look before `end`, if that is elsewhere and may still count."""
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
    """When `one`, which is held back, counts if nothing more is heard, and whether it does by `until`."""
    last = last_at(detections, end, here) or stayed
    begin = one.second
    if last is None:
        return begin + SAME_READER, False
    seconds = [other.second for other in detections[decided_from(detections, end) : end] if other.location_id == here]
    gaps = len(seconds) - 1
    wait = SAME_READER if readers.reader_of(last.source_no) == readers.reader_of(one.source_no) else OTHER_READER
    if gaps >= KNOWN - 1:
        wait = max(wait, MISSED_TWICE * pace(seconds[-GAPS - 1 :]) + 1)
    return begin + wait, readers.settled_at(last.source_no, begin, wait, until) is not None


def last_at(detections: Sequence[Detection], end: int, here: int) -> Detection | None:
    """The last read at `here`, unless a pause of more than `IDLE` seconds came after it."""
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
    """The first read of the stay that `one`, in the last look before `end`, proves: none at `here` came after it."""
    last = last_at(detections, end, here)
    after = max(since, last.second if last else -1)
    for index in range(decided_from(detections, end), end):
        other = detections[index]
        if other.location_id == one.location_id and other.second > after and not is_stray(detections, index, here):
            return other
    return one


def _is_new(detections: Sequence[Detection], end: int, here: int, one: Detection, readers: ReaderOutages) -> bool:
    """Whether a single read decides against `here`, which is silent in the second of `heard[end - 1]`."""
    before = end - 1
    while before >= 0 and detections[before].second == one.second:
        before -= 1
    if (
        one.rssi is None
        or one.weight != Weight.RFID_ZONE
        or before < 0
        or one.second - detections[before].second < SPARSE
    ):
        return False
    window = detections[decided_from(detections, end) : before + 1]
    stayed = [other for other in window if other.location_id == here]
    if not stayed or len(window) < KNOWN or any(other.location_id == one.location_id for other in window):
        return False
    last = stayed[-1]
    if readers.reader_of(last.source_no) == readers.reader_of(one.source_no):
        return False
    if readers.outages(last.source_no, last.second, one.second):
        return False
    due = last.second + pace([other.second for other in stayed[-GAPS - 1 :]])
    usual = sorted(other.strength for other in stayed)[len(stayed) // 2]
    return one.second >= due and one.strength >= usual - WEAKER


class Lead(NamedTuple):
    """What a challenger has collected, and with how much it wins (dB). None: there is nothing left to win against."""

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
    """Of `there` over `here`, where the asset is since the second `since`, as it stands at `heard[end - 1]`."""
    looks: list[int] = []
    begin = decided_from(detections, end)
    staying, coming = _staying(detections, begin, end, last_at(detections, end, here) or stayed, readers), _Presence()
    if staying.looks:
        looks.append(staying.second)
    collected = 0.0
    together = 0  # looks in which `there` was heard before `here` was heard last
    for second, look in groupby(detections[begin:end], key=_SECOND):
        is_read, before = False, coming.looks
        for one in look:
            if one.location_id == here:
                staying.add(len(looks), one)
                is_read, together = True, before
            elif one.location_id == there:
                coming.add(len(looks), one)
                is_read = True
        looks.append(second)
        if not is_read or coming.looks == 0 or second <= since:
            continue
        is_overlap = _is_overlap(together, coming)
        stays, comes = staying.strength_in(looks, is_overlap), coming.strength_in(looks, is_overlap)
        if stays is None:
            difference = MOST
        elif comes is None:
            difference = -MOST
        else:
            difference = max(-MOST, min(MOST, comes - stays - MARGIN))
        collected = difference if collected < 0 else collected + difference
    is_overlap = _is_overlap(together, coming)
    is_gone = staying.strength_in(looks, is_overlap) is None
    return Lead(None if is_gone else collected, _needed(coming.weight, looks, is_overlap))


def _staying(
    detections: Sequence[Detection], begin: int, end: int, last: Detection | None, readers: ReaderOutages
) -> _Presence:
    """What is known before `heard[begin]` of the location where the asset is: how it heard it last, if it went out."""
    if last is None:
        return _Presence()
    first = detections[begin].second
    staying = _Presence(readers.outages(last.source_no, min(last.second, first), detections[end - 1].second))
    if staying.outages and last.second < first:
        staying.add(0, last)
    return staying


def _is_overlap(together: int, coming: _Presence) -> bool:
    return together >= OVERLAP and coming.weight in _RFID


def _needed(weight: int, looks: Sequence[int], is_overlap: bool) -> float:
    if is_overlap:
        return _NEEDED[weight]
    sparse = min(1.0, (pace(looks[-GAPS - 1 :]) - LEAST_PACE) / (SPARSE - LEAST_PACE))
    return _NEEDED[weight] / (1 + (_SPARSER[weight] - 1) * sparse)


class _Presence:
    """How one location heard the asset, look by look."""

    __slots__ = ("_first", "_last", "_miss", "_step", "_strength", "looks", "outages", "second", "weight")

    def __init__(self, outages: Sequence[Outage] = ()) -> None:
        self.outages = outages  # of its reader
        self.looks = 0  # looks
        self._first = self._last = self.second = 0
        self._strength = self._miss = 0.0
        self._step = 0  # 0: the silence since the last time has not been measured
        self.weight: int = Weight.RFID_ZONE

    def add(self, look: int, one: Detection) -> None:
        if not self.looks:
            self._first = look
        self._last, self.second, self._strength, self.weight = look, one.second, one.strength, one.weight
        self._step = 0
        self.looks += 1

    def strength_in(self, looks: Sequence[int], is_overlap: bool) -> float | None:
        """As it counts in the last of the looks; None: the asset is gone from there."""
        if not self.looks:
            return None
        silent = looks[-1] - self.second
        strength = self._strength
        if self.outages:
            lost = sum(max(0, min(back, looks[-1]) - max(out, self.second)) for out, back in self.outages)
            silent -= lost
            if lost > LONG_OUTAGE:
                strength -= WEAKER
        if silent <= ALIKE:
            return strength
        if not self._step:
            self._measure_silence(looks)
        step, miss = self._step, self._miss
        if silent > GONE * step and miss * silent / step > PROVED:
            return None
        if step == LEAST_PACE:
            miss = MISS_ALIKE
        elif is_overlap:
            miss /= 2
        return strength - miss * (silent - ALIKE) / step

    def _measure_silence(self, looks: Sequence[int]) -> None:
        """Once for each silence: the pace before it, and what a miss proves, by the rule of succession."""
        self._step = pace(looks[max(0, self._last - GAPS) : self._last + 1])
        watched = self._last - self._first + 1
        self._miss = 10 * math.log10((watched + 2) / (watched - self.looks + 1))


def decided_from(detections: Sequence[Detection], end: int) -> int:
    """Where the last `LOOKS` looks before `end` begin, in which the decision is found."""
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
    """Seconds from one look to the next, as usual in these: the lower median, which one long pause does not move."""
    gaps = sorted([after - before for before, after in pairwise(looks)])
    if len(gaps) < 2:
        return min([USUAL_PACE, *gaps])
    return max(LEAST_PACE, min(MOST_PACE, gaps[(len(gaps) - 1) // 2]))
