"""Decides anew, from what was heard, what history should say from a moment on. Pure: no database, no clock."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from operator import attrgetter
from typing import NamedTuple

from edge.clock import SECOND
from edge.store.evidence import PERSON_HOLDS, Rule, decide
from edge.store.heard import Heard


class State(NamedTuple):
    """Where the asset is, until which second nothing counts against it, and when it was last seen (None: never)."""

    location_id: int | None
    since: int
    seen_at: int | None


class ByPerson(NamedTuple):
    """A person's scan, which stays whatever readers heard. `key` finds its row again."""

    observed_at: int
    location_id: int
    key: int


class Step(NamedTuple):
    """A future row of history, by a reader or by a person. The stay before it ended at `ended_at`."""

    observed_at: int
    location_id: int
    rule: Rule
    ended_at: int | None
    heard: Heard | None = None
    by_person: ByPerson | None = None


def since_of(row_at: int, rule: int) -> int:
    """The second until which nothing counts against the row of history that began at `row_at`."""
    return row_at // SECOND + (PERSON_HOLDS if rule == Rule.PERSON else 0)


def first_from(heard: Sequence[Heard], second: int) -> int:
    return bisect_left(heard, second, key=attrgetter("second"))


def last_look(heard: Sequence[Heard], end: int) -> Sequence[Heard]:
    """What was heard in the last second before `heard[end]` in which anything was."""
    begin = end
    while begin and heard[begin - 1].second == heard[end - 1].second:
        begin -= 1
    return heard[begin:end]


def retrace(
    heard: Sequence[Heard], begin: int, state: State, people: Sequence[ByPerson], gap: int
) -> tuple[list[Step], int | None]:
    """The rows from `heard[begin]` on, and when the asset was last seen. `people` holds people's scans, in order.

    `state` is the state before. In a second in which a person scanned the asset, no reader moves it.
    """
    steps: list[Step] = []
    location_id, since, seen = state
    waiting = list(reversed(people))
    while begin < len(heard) or waiting:
        second = _next_second(heard, begin, waiting)
        end = begin
        while end < len(heard) and heard[end].second == second:
            end += 1
        if waiting and waiting[-1].observed_at // SECOND == second:
            if location_id is None and (step := _first_before(heard[begin:end], waiting[-1].observed_at)):
                steps.append(step)
                seen = step.observed_at
            while waiting and waiting[-1].observed_at // SECOND == second:
                scan = waiting.pop()
                steps.append(Step(scan.observed_at, scan.location_id, Rule.PERSON, seen, by_person=scan))
                location_id, since, seen = scan.location_id, second + PERSON_HOLDS, scan.observed_at
        elif step := _step(heard, begin, end, State(location_id, since, seen), gap):
            steps.append(step)
            location_id, since = step.location_id, second
        seen = max([one.last_at for one in heard[begin:end]] + ([] if seen is None else [seen]))
        begin = end
    return steps, seen


def _first_before(heard: Sequence[Heard], at: int) -> Step | None:
    """The very first sighting of the asset, shortly before a person's scan."""
    before = [one for one in heard if one.first_at < at]
    if not before:
        return None
    one = min(before, key=lambda one: (one.first_at, one.location_id))
    return Step(one.first_at, one.location_id, Rule.FIRST, None, one)


def _next_second(heard: Sequence[Heard], begin: int, waiting: Sequence[ByPerson]) -> int:
    seconds = [waiting[-1].observed_at // SECOND] if waiting else []
    if begin < len(heard):
        seconds.append(heard[begin].second)
    return min(seconds)


def _step(heard: Sequence[Heard], begin: int, end: int, state: State, gap: int) -> Step | None:
    decision = decide(heard, end, state.location_id, state.since)
    if decision:
        one = decision.heard
        return Step(one.first_at, one.location_id, decision.rule, state.seen_at, one)
    for one in heard[begin:end]:
        if one.location_id == state.location_id and state.seen_at is not None:
            before = [other.first_at for other in heard[begin:end] if other.first_at < one.first_at]
            if one.first_at - max([state.seen_at, *before]) > gap:
                return Step(one.first_at, one.location_id, Rule.AGAIN, state.seen_at, one)
    return None
