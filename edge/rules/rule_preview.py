"""Preview of a rule: the alerts it would have raised in the last days, from history."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import tzinfo
from enum import StrEnum
from heapq import nlargest
from itertools import pairwise
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

DAYS = 7
MOST_STAYS = 300_000
_BYTES_OF_STAYS = 64 * MB
MOST_LISTED = 50


class Fired(NamedTuple):
    """An alert that the rule would have raised. `asset_id` is None if it is about a location."""

    at: int
    asset_id: int | None
    amount: int = 0
    name: str = ""


class Kept(StrEnum):
    """What a preview was made from."""

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
    with reading():
        assets = _names_of_assets(rule)
        if rule.kind is Condition.PASSES:
            occurred, is_complete = _passages(scope, assets), True
        else:
            with WORK.holding(_BYTES_OF_STAYS):
                stays, is_complete = _stays(scope, assets)
                occurred = list(_crowds(scope, stays) if rule.kind in OF_NUMBER else _moves(scope, stays))
                del stays
    fired = [one for one in occurred if since <= one.at <= until and rule.fields.is_on(one.at, zone)]
    newest = nlargest(MOST_LISTED, fired, key=attrgetter("at"))
    named = [one._replace(name=rule.place_name if one.asset_id is None else assets[one.asset_id]) for one in newest]
    return Preview(len(fired), named, is_complete)


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


def _names_of_assets(rule: Rule) -> dict[int, str]:
    return dict(execute(f"SELECT a.id, a.name FROM asset a WHERE {MATCHES}", values_of(rule)).fetchall())


def _stays(scope: _Scope, assets: dict[int, str]) -> tuple[list[list[Stay]], bool]:
    """Return the stays of each matching asset. The second value is False if there are too many to read."""
    kept: list[list[Stay]] = []
    number = 0
    for stays in stays_since(scope.rule.organization_id, scope.since):
        number += len(stays)
        if number > MOST_STAYS:
            return kept, False
        if stays[0].asset_id in assets:
            kept.append(stays)
    return kept, True


def _passages(scope: _Scope, assets: dict[int, str]) -> list[Fired]:
    fields = scope.rule.fields
    wished = {"in": {Direction.IN}, "out": {Direction.OUT}}
    allowed = wished.get(fields.direction, {Direction.IN, Direction.OUT, Direction.UNKNOWN})
    rows = passage_report.export_rows(scope.rule.organization_id, scope.since, scope.now, door_id=fields.door_id)
    return [Fired(row.at, row.asset_id) for row in rows if row.direction in allowed and row.asset_id in assets]


def _moves(scope: _Scope, assets: Sequence[Sequence[Stay]]) -> Iterator[Fired]:
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


def _crowds(scope: _Scope, assets: Sequence[Sequence[Stay]]) -> Iterator[Fired]:
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
