"""Preview of a rule: the alerts it would have raised in the last days, from history."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import tzinfo
from enum import StrEnum
from heapq import nlargest
from itertools import count, islice, pairwise
from operator import attrgetter
from typing import NamedTuple

from edge import clock
from edge.database.connection import execute, reading
from edge.doors import passage_report
from edge.doors.passage_rule import Direction
from edge.events.log import EventKind
from edge.memory_budget import MB, WORK
from edge.rules.conditions import OF_NUMBER, Condition
from edge.rules.rule_assets import MATCHES, locations_below, values_of
from edge.rules.rules import Rule
from edge.rules.states import is_beyond
from edge.tracking.flows import Stay, stays_since
from edge.validation import json_text

DAYS = 7
MOST_STAYS = 300_000  # or passages
_BYTES = 64 * MB  # of the stays of one asset in the worst case
_TOGETHER = 1_000  # stays or passages
MOST_LISTED = 50


class Fired(NamedTuple):
    """An alert that the rule would have raised. `asset_id` is None if it is about a location."""

    at: int
    asset_id: int | None
    amount: int = 0
    name: str = ""


class Kept(StrEnum):
    """The source of a preview."""

    HISTORY = "history"
    EVENTS = "events"  # the event log, which may begin later than the days
    NOW = "now"  # nothing is kept about the past: what meets the condition now


class Preview(NamedTuple):
    """Total number of alerts, and the newest of them. `is_complete` is False if not all history was read.

    `kept_since` is the beginning of the event log, None if it is empty.
    """

    total: int
    newest: list[Fired]
    is_complete: bool
    kept: Kept = Kept.HISTORY
    kept_since: int | None = None


class _Scope(NamedTuple):
    rule: Rule
    since: int
    now: int
    inside: set[int]  # locations


def preview(rule: Rule, zone: tzinfo, now: int | None = None) -> Preview:
    """Return the alerts of the last days, or what meets the condition now if nothing is kept about the past."""
    until = now or clock.now()
    since = until - DAYS * clock.DAY
    if rule.kind is Condition.OFFLINE:
        return _offline(rule, zone, since, until)
    if rule.kind in _NOW:
        return _now(rule)
    place = rule.fields.location_id
    scope = _Scope(rule, since, until, locations_below(place) if place is not None else set())
    with reading(), WORK.holding(_BYTES):
        source = _Passages(scope) if rule.kind is Condition.PASSES else _Stays(scope)
        fired = (one for one in source.fired() if since <= one.at <= until and rule.fields.is_on(one.at, zone))
        numbers = count()
        newest = nlargest(MOST_LISTED, (one for one, _ in zip(fired, numbers, strict=False)), key=attrgetter("at"))
        names = _names(rule, {one.asset_id for one in newest if one.asset_id is not None})
    named = [one._replace(name=rule.place_name if one.asset_id is None else names[one.asset_id]) for one in newest]
    return Preview(next(numbers), named, source.is_complete)


def _offline(rule: Rule, zone: tzinfo, since: int, until: int) -> Preview:
    rows = execute(
        "SELECT e.at, r.name FROM event e JOIN reader r ON r.id = e.subject_id WHERE e.organization_id = ? "
        "AND e.kind = ? AND e.at >= ? AND e.at <= ? AND (? IS NULL OR e.subject_id = ?) ORDER BY e.at DESC",
        (rule.organization_id, EventKind.READER_OFFLINE, since, until, rule.fields.reader_id, rule.fields.reader_id),
    )
    fired = [Fired(at, None, 0, name) for at, name in rows if rule.fields.is_on(at, zone)]
    (begin,) = execute("SELECT (SELECT made_at FROM event ORDER BY seq LIMIT 1)").fetchone()
    return Preview(len(fired), fired[:MOST_LISTED], True, Kept.EVENTS, begin)


_NOW = {
    Condition.BATTERY: f"""
        SELECT v.battery_at, a.id, v.battery, a.name FROM asset_value v JOIN asset a ON a.id = v.asset_id
        WHERE v.organization_id = :organization_id AND v.battery <= :number AND {MATCHES} ORDER BY v.battery, a.name
    """,
    Condition.UNHEALTHY: "SELECT since, NULL, 0, text FROM box_fault",
}


def _now(rule: Rule) -> Preview:
    rows = execute(_NOW[rule.kind], values_of(rule)).fetchall()
    return Preview(len(rows), [Fired(*row) for row in rows[:MOST_LISTED]], True, Kept.NOW)


_NAMES = f"SELECT a.id, a.name FROM json_each(:ids) one CROSS JOIN asset a ON a.id = one.value WHERE {MATCHES}"


def _names(rule: Rule, asset_ids: Collection[int]) -> dict[int, str]:
    """Return the names of those of the assets that the rule is about."""
    return dict(execute(_NAMES, {**values_of(rule), "ids": json_text.text(list(asset_ids))}).fetchall())


class _Stays:
    """The stays of the week, read until there are too many. A large site has too many assets to keep them in memory."""

    is_complete = True

    def __init__(self, scope: _Scope) -> None:
        self._scope = scope

    def fired(self) -> Iterator[Fired]:
        alerts = _crowds if self._scope.rule.kind in OF_NUMBER else _moves
        return alerts(self._scope, self._of_each_asset())

    def _of_each_asset(self) -> Iterator[list[Stay]]:
        some: list[list[Stay]] = []
        number = held = 0
        for stays in stays_since(self._scope.rule.organization_id, self._scope.since):
            number += len(stays)
            held += len(stays)
            if number > MOST_STAYS:
                self.is_complete = False
                break
            some.append(stays)
            if held > _TOGETHER:
                yield from self._meant(some)
                some, held = [], 0
        yield from self._meant(some)

    def _meant(self, some: Sequence[list[Stay]]) -> Iterator[list[Stay]]:
        names = _names(self._scope.rule, [stays[0].asset_id for stays in some])
        return (stays for stays in some if stays[0].asset_id in names)


class _Passages:
    """The passages of the week, read until there are too many."""

    is_complete = True

    def __init__(self, scope: _Scope) -> None:
        self._scope = scope

    def fired(self) -> Iterator[Fired]:
        rule, since, until, _ = self._scope
        wished = {"in": {Direction.IN}, "out": {Direction.OUT}}
        allowed = wished.get(rule.fields.direction, {Direction.IN, Direction.OUT, Direction.UNKNOWN})
        rows = passage_report.export_rows(rule.organization_id, since, until, door_id=rule.fields.door_id)
        for _ in range(MOST_STAYS // _TOGETHER):
            if not (some := list(islice(rows, _TOGETHER))):
                return
            names = _names(rule, {row.asset_id for row in some})
            yield from (
                Fired(row.at, row.asset_id) for row in some if row.direction in allowed and row.asset_id in names
            )
        self.is_complete = next(rows, None) is None


def _moves(scope: _Scope, assets: Iterable[Sequence[Stay]]) -> Iterator[Fired]:
    """Yield the alerts about single assets."""
    kind, span = scope.rule.kind, scope.rule.fields.span
    for stays in assets:
        if kind is Condition.UNSEEN:
            ends = [(one.until, after.since) for one, after in pairwise(stays)] + [(stays[-1].until, scope.now)]
            yield from (Fired(end + span, stays[0].asset_id) for end, after in ends if after - end >= span)
            continue
        entered: int | None = None
        for position, stay in enumerate(stays):
            is_inside = stay.location_id in scope.inside
            # The stay in progress at the beginning is no move, unless the asset was never seen before.
            if is_inside and entered is None:
                entered = stay.since
                if kind is Condition.ENTERS:
                    yield Fired(stay.since, stay.asset_id)
            elif not is_inside and entered is not None:
                if kind is Condition.LEAVES:
                    yield Fired(stay.since, stay.asset_id)
                elif kind is Condition.STAYS and stay.since - entered > span:
                    yield Fired(entered + span, stay.asset_id)
                entered = None
            if position == len(stays) - 1 and kind is Condition.STAYS and entered is not None:
                yield from [Fired(entered + span, stay.asset_id)] if scope.now - entered > span else []


def _crowds(scope: _Scope, assets: Iterable[Sequence[Stay]]) -> Iterator[Fired]:
    """Yield the alerts about the number of assets at the location."""
    changes: list[tuple[int, int]] = []
    for stays in assets:
        was_inside = False
        for stay in stays:
            is_inside = stay.location_id in scope.inside
            if is_inside != was_inside:
                changes.append((stay.since, 1 if is_inside else -1))
            was_inside = is_inside
    changes.sort()
    number = sum(change for at, change in changes if at < scope.since)
    was_beyond = is_beyond(scope.rule, number)
    for at, change in changes:
        if at < scope.since:
            continue
        number += change
        now_beyond = is_beyond(scope.rule, number)
        if now_beyond and not was_beyond:
            yield Fired(at, None, number)
        was_beyond = now_beyond
