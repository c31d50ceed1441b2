"""The history of an asset from its detections, from a moment on, and which decisions a late read may change.

Pure: no database, no clock.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from operator import attrgetter
from typing import NamedTuple

from edge.clock import SECOND
from edge.tracking.decision_rule import (
    ALWAYS_THERE,
    IDLE,
    OTHER_READER,
    PERSON_HOLDS,
    Decision,
    Rule,
    began_with,
    decide,
    held_back,
    last_at,
    settles,
)
from edge.tracking.packed_reads import Recent
from edge.tracking.portal_rule import DIRECT, PORTAL, STRAY_WINDOW, is_certain, is_undecided
from edge.tracking.signal_strength import LOOKS, Detection
from edge.tracking.signs import ReaderOutages

FOREVER = 2**40  # seconds; as `horizon`: no more reads will come
# Rules that decide by reads after the begin of the stay.
BY_LATER_READS = frozenset((Rule.STRONGER, Rule.SILENT, Rule.SETTLED))


class State(NamedTuple):
    """Location of an asset, the second until which nothing counts against it, and its last sighting (None: never seen).

    `stayed` is the last detection there according to history, used when the detections themselves no longer count.
    """

    location_id: int | None
    since: int
    seen_at: int | None
    stayed: Detection | None = None


class Held(NamedTuple):
    """A read from that second on is undecided; without further reads it may be decided in the second `due`."""

    second: int
    due: int
    location_id: int


class Traced(NamedTuple):
    """Rows from a moment on, the last sighting, and the undecided read."""

    steps: list[Step]
    seen_at: int | None
    held: Held | None


class ByPerson(NamedTuple):
    """A person's scan, which reads never override. `key` identifies its row."""

    observed_at: int
    location_id: int
    key: int


class Step(NamedTuple):
    """A future row of history. The stay before it ended at `ended_at`."""

    observed_at: int
    location_id: int
    rule: Rule
    ended_at: int | None
    detection: Detection | None = None
    by_person: ByPerson | None = None
    decided_in: int = 0  # second of the look that decided it

    @property
    def since(self) -> int:
        """Second until which nothing counts against this row."""
        return since_of(self.observed_at, self.rule)


def since_of(row_at: int, rule: int) -> int:
    """Return the second until which nothing counts against a row of history that began at `row_at`."""
    return row_at // SECOND + (PERSON_HOLDS if rule == Rule.PERSON else 0)


def first_from(detections: Sequence[Detection], second: int) -> int:
    return bisect_left(detections, second, key=attrgetter("second"))


def retrace(
    detections: Sequence[Detection],
    begin: int,
    state: State,
    people: Sequence[ByPerson],
    gap: int,
    readers: ReaderOutages = ALWAYS_THERE,
    horizon: int = FOREVER,
) -> Traced:
    """Return the history from `detections[begin]` on. `people` holds people's scans, in order.

    `state` is the state before. In a second with a person's scan, no reader moves the asset. `horizon` is the second
    until which all reads are known; decisions that depend on later reads, or on silence, are held until then.
    """
    steps: list[Step] = []
    location_id, since, seen, stayed = state
    waiting = list(reversed(people))
    while begin < len(detections) or waiting:
        second = _next_second(detections, begin, waiting)
        now = State(location_id, since, seen, stayed)
        step, held = _settled(detections, begin, now, second - 1, readers)
        if step:
            steps.append(step)
            location_id, since, seen = step.location_id, step.since, _last_seen(detections, begin, step.location_id)
            stayed = _as_in_history(step)
        if stayed and seen is not None and is_after_pause(detections, begin):
            stayed = stayed.at(seen)
        now = State(location_id, since, seen, stayed)
        end = _end_of(detections, begin, second)
        if waiting and waiting[-1].observed_at // SECOND == second:
            if location_id is None and (first := _first_before(detections[begin:end], waiting[-1].observed_at)):
                steps.append(first)
                seen = first.observed_at
            steps += _by_people(waiting, second, seen)
            location_id, since, seen, stayed = steps[-1].location_id, steps[-1].since, steps[-1].observed_at, None
        elif is_undecided(detections, begin, end, location_id, horizon):
            held = Held(second, second + STRAY_WINDOW, detections[begin].location_id)
            by_people = _by_people(waiting, FOREVER, seen)  # not affected by the read
            return Traced(steps + by_people, by_people[-1].observed_at if by_people else seen, held)
        elif made := _steps(detections, begin, end, now, gap, readers):
            steps += made
            location_id, since, stayed = made[-1].location_id, made[-1].since, _as_in_history(made[-1])
        for one in detections[begin:end]:
            if one.location_id == location_id and (seen is None or one.last_at > seen):
                seen = one.last_at
        begin = end
    step, held = _settled(detections, begin, State(location_id, since, seen, stayed), horizon, readers)
    if step:
        steps.append(step)
        seen = _last_seen(detections, begin, step.location_id)
    return Traced(steps, seen, held)


def _end_of(detections: Sequence[Detection], begin: int, second: int) -> int:
    end = begin
    while end < len(detections) and detections[end].second == second:
        end += 1
    return end


def is_after_pause(detections: Sequence[Detection], index: int) -> bool:
    """Return True if detections before `index` no longer count."""
    return 0 < index < len(detections) and detections[index].second - detections[index - 1].second > IDLE


def _as_in_history(step: Step) -> Detection | None:
    return step.detection.as_in_history() if step.detection else None


def _by_people(waiting: list[ByPerson], second: int, seen: int | None) -> list[Step]:
    """Pop the scans until that second from the end of the list. `seen` is the last sighting before."""
    steps: list[Step] = []
    while waiting and waiting[-1].observed_at // SECOND <= second:
        scan = waiting.pop()
        steps.append(Step(scan.observed_at, scan.location_id, Rule.PERSON, seen, by_person=scan))
        seen = scan.observed_at
    return steps


def _last_seen(detections: Sequence[Detection], end: int, location_id: int) -> int | None:
    last = last_at(detections, end, location_id)
    return last.last_at if last else None


def _settled(
    detections: Sequence[Detection], end: int, state: State, until: int, readers: ReaderOutages
) -> tuple[Step | None, Held | None]:
    """Return the move that the silence after `detections[end - 1]` proves, or may still prove."""
    here = state.location_id
    one = held_back(detections, end, here, state.since) if end and here is not None else None
    if one is None or here is None:
        return None, None
    if until < one.second + OTHER_READER:
        return None, Held(one.second, one.second + OTHER_READER, one.location_id)
    due, is_settled = settles(detections, end, here, one, until, readers, state.stayed)
    if not is_settled:
        return None, Held(one.second, due, one.location_id)
    return _moved(detections, end, Decision(one, Rule.SETTLED), state), None


def _moved(detections: Sequence[Detection], end: int, decision: Decision, state: State) -> Step:
    one, second = decision.detection, detections[end - 1].second
    if state.location_id is not None and decision.rule in BY_LATER_READS:
        one = began_with(detections, end, state.location_id, one, state.since)
    return Step(one.first_at, one.location_id, decision.rule, state.seen_at, one, decided_in=second)


def _first_before(detections: Sequence[Detection], at: int) -> Step | None:
    """Return the very first sighting of the asset if it was shortly before a person's scan."""
    before = [one for one in detections if one.first_at < at]
    if not before:
        return None
    one = min(before, key=lambda one: (one.first_at, one.location_id))
    return Step(one.first_at, one.location_id, Rule.FIRST, None, one)


def _next_second(detections: Sequence[Detection], begin: int, waiting: Sequence[ByPerson]) -> int:
    seconds = [waiting[-1].observed_at // SECOND] if waiting else []
    if begin < len(detections):
        seconds.append(detections[begin].second)
    return min(seconds)


def _steps(
    detections: Sequence[Detection], begin: int, end: int, state: State, gap: int, readers: ReaderOutages
) -> list[Step]:
    """Return the rows of one second. Only direct antennas move an asset more than once."""
    direct = [one for one in detections[begin:end] if one.weight == DIRECT]
    is_free = state.location_id is None or detections[begin].second > state.since
    if is_free and any(one.location_id != state.location_id for one in direct):
        here = state.location_id
        passed = [index for index in range(begin, end) if PORTAL <= detections[index].weight < DIRECT]
        direct += [detections[index] for index in passed if is_certain(detections, index, here)]
        return _direct_steps(direct, state, gap)
    decision = decide(detections, end, state.location_id, state.since, readers, state.stayed)
    if decision:
        return [_moved(detections, end, decision, state)]
    for one in detections[begin:end]:
        if one.location_id == state.location_id and state.seen_at is not None and one.first_at - state.seen_at > gap:
            return [Step(one.first_at, one.location_id, Rule.AGAIN, state.seen_at, one)]
    return []


def _direct_steps(direct: Sequence[Detection], state: State, gap: int) -> list[Step]:
    """Return the rows of one second by the first and last read of each direct antenna, and the first of portals."""
    strongest: dict[int, Detection] = {}
    for one in sorted(direct, key=lambda one: (one.strength, -one.location_id)):
        strongest |= {one.first_at: one, one.last_at if one.weight == DIRECT else one.first_at: one}
    steps: list[Step] = []
    here, seen = state.location_id, state.seen_at
    for at, one in sorted(strongest.items()):
        is_move = one.location_id != here
        if is_move or (seen is not None and at - seen > gap):
            moved = Rule.DIRECT if one.weight == DIRECT else Rule.PORTAL
            rule = Rule.FIRST if here is None else moved if is_move else Rule.AGAIN
            steps.append(Step(at, one.location_id, rule, seen, one, decided_in=one.second))
        here, seen = one.location_id, at
    return steps


class KnownRow(NamedTuple):
    """The newest row of history before a moment."""

    location_id: int
    began_at: int
    rule: int
    ended_at: int


def is_out_of_reach(row_at: int, rule: int, recent: Recent, second: int) -> bool:
    """Return True if a late read may change decisions for which memory lacks reads."""
    is_row_older = row_at // SECOND < recent.exact_from
    return second < recent.exact_from or (is_row_older and is_proved_by(row_at, rule, recent, second))


def is_proved_by(row_at: int, rule: int, recent: Recent, second: int) -> bool:
    """Return True if reads from `second` on may have decided a row that began earlier."""
    began = row_at // SECOND
    if row_at == recent.decided_row:
        return began <= second <= recent.decided_in
    if rule not in BY_LATER_READS or began > second or began < recent.complete_from:
        return False
    return recent.looks_between(began, second) <= LOOKS


def reach_back(detections: Sequence[Detection], second: int, known_until: int) -> int:
    """Return the first second with decisions that a read in `second` may change.

    `known_until`: end of the silence assumed before that second. Later reads may be new as well, so they do not show
    that the silence was shorter.
    """
    index, first = first_from(detections, second), second
    if index and known_until - detections[index - 1].second >= OTHER_READER:
        first = detections[index - 1].second  # a silence may have decided
    while index and detections[index - 1].second >= second - STRAY_WINDOW:
        index -= 1
        if detections[index].weight >= PORTAL:
            first = min(first, detections[index].second)
    return first


def pauses_after(detections: Sequence[Detection], begin: int) -> bool:
    """Return True if a pause from `detections[begin - 1]` on makes everything before it irrelevant."""
    is_long = bool(detections) and detections[-1].second - detections[max(begin - 1, 0)].second > IDLE
    return is_long and any(is_after_pause(detections, index) for index in range(begin, len(detections)))


def seen_before(detections: Sequence[Detection], begin: int, second: int, row: KnownRow, recent: Recent) -> int:
    """Return the last sighting of a stay before a second."""
    if row.ended_at < second * SECOND:
        return row.ended_at
    for index in range(begin - 1, -1, -1):
        if detections[index].location_id == row.location_id:
            if detections[index].last_at > row.began_at:
                return detections[index].last_at
            break
    return row.began_at if recent.complete_from * SECOND <= row.began_at else second * SECOND - 1
