"""Evaluation of rules: reads the event log from its own position and writes alerts.

The alerts, the state of lasting conditions and the position in the log are written in one transaction, so a kill
between any two steps neither loses nor repeats an alert. A rule alerts about changes after it was saved: `states.seed`
stores the conditions that are already met. Runs on the events thread, after event detection.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Container, Sequence
from datetime import tzinfo
from functools import cache

from edge import clock
from edge.database.connection import execute, find_scalar, writing
from edge.events import log as events
from edge.events.detection import Locations
from edge.events.log import Event, EventKind
from edge.rules import rules, states
from edge.rules.conditions import OF_NUMBER, Condition
from edge.rules.rule_assets import count_present, is_about_all, matching
from edge.rules.rules import Rule
from edge.rules.states import Held, Occurrence
from edge.tracking import tracked_people

MOST_EVENTS = 500  # per transaction
UNSEEN_SECONDS = 10.0
ROOM_SECONDS = 60.0


class Engine:
    """Rules of all organizations. Not thread-safe."""

    def __init__(self, zone: tzinfo, after_round: Callable[[], None] = lambda: None) -> None:
        """Create the engine. It calls `after_round` after each transaction, which may have raised alerts."""
        self._zone = zone
        self._after_round = after_round
        self._counts: dict[int, int] = {}  # assets present, by rule
        self._people: list[tuple[int, str, str, str]] = []  # which assets were people at the last evaluation
        self._with_room: Container[int] = ()  # organizations
        self._unseen_at = self._room_at = 0.0

    def use_zone(self, zone: tzinfo) -> None:
        self._zone = zone

    def is_needed(self) -> bool:
        return rules.has_enabled()

    def rest(self) -> None:
        """Forget the state. Called while no rule is enabled."""
        if execute("SELECT 1 FROM rule_progress").fetchone():
            with writing():
                _clear()
        self._counts.clear()

    def follow(self) -> None:
        """Read the log to its end and raise the alerts that are due."""
        try:
            while self._round() == MOST_EVENTS:
                pass
        except BaseException:
            self._counts.clear()
            raise

    def _round(self) -> int:
        seq = _position()
        if seq is None or events.oldest_kept() > seq + 1:
            with writing():
                _start()
            return MOST_EVENTS
        self._seed()
        enabled, now = rules.enabled_rules(), clock.now()
        is_sweep_due = time.monotonic() >= self._unseen_at
        sweeps = [rule for rule in enabled if is_sweep_due and _has_to_sweep(rule, now)]
        if is_sweep_due:
            self._unseen_at = time.monotonic() + UNSEEN_SECONDS
        people = tracked_people.choices()
        if not (
            sweeps
            or people != self._people
            or events.newest() > seq
            or any(self._is_watched(rule, now) and states.has_due(rule, now) for rule in enabled)
        ):
            return 0
        for rule in enabled:
            if rule.kind in OF_NUMBER and rule.no not in self._counts:
                self._counts[rule.no] = count_present(rule)  # before others wait for this transaction
        with writing():
            number = self._evaluate(seq, {rule.no for rule in sweeps}, now, are_people_new=people != self._people)
        self._people = people
        self._after_round()
        return number

    def _seed(self) -> None:
        """Begin each new or changed rule in a transaction of its own, because it may take long."""
        while any(not rule.is_seeded for rule in rules.enabled_rules()):
            with writing():
                for rule in [rule for rule in rules.enabled_rules() if not rule.is_seeded][:1]:
                    states.seed(rule, clock.now())
                    self._counts.pop(rule.no, None)
                    self._room_at = 0.0  # may be the first rule of its organization

    def _evaluate(self, seq: int, sweeps: set[int], now: int, *, are_people_new: bool) -> int:
        enabled = rules.enabled_rules()
        if not all(rule.is_seeded for rule in enabled):
            return MOST_EVENTS  # saved this moment; the next round begins it before it reads the log
        if time.monotonic() >= self._room_at:
            self._with_room = {organization_id for organization_id, left in states.room().items() if left}
            self._room_at = time.monotonic() + ROOM_SECONDS
        is_fewer = are_people_new and _forget_people()
        batch = events.all_after(seq, MOST_EVENTS)
        evaluation = _Evaluation(enabled, batch, self._zone, self._counts, with_room=self._with_room)
        if is_fewer:
            evaluation.recount(enabled, now)
        for organization_id, event in batch:
            evaluation.read(organization_id, event)
        for rule in enabled:
            if rule.no in sweeps:
                evaluation.sweep(rule, now)
            if self._is_watched(rule, now):
                evaluation.fire_due(rule, now)
        if batch:
            execute("UPDATE rule_progress SET seq = ?", (batch[-1][1].seq,))
        return len(batch)

    def _is_watched(self, rule: Rule, now: int) -> bool:
        return rule.declared.lasts and rule.fields.is_on(now, self._zone)


def _has_to_sweep(rule: Rule, now: int) -> bool:
    return rule.kind in states.SWEEPS and bool(states.begun(rule, now, 1) or states.ended(rule, now))


def _position() -> int | None:
    return find_scalar("SELECT seq FROM rule_progress")


def _clear() -> None:
    for table in ("rule_state", "rule_asset", "rule_progress"):
        execute(f"DELETE FROM {table}")
    execute("UPDATE rule SET is_seeded = 0 WHERE is_seeded = 1")


def _forget_people() -> bool:
    """Forget assets that have become people. Returns True if there was a location of one."""
    execute("DELETE FROM rule_state WHERE subject_id IN (SELECT asset_id FROM tracked_person)")
    return execute("DELETE FROM rule_asset WHERE asset_id IN (SELECT asset_id FROM tracked_person)").rowcount > 0


def _forget_person(organization_id: int, asset_id: int) -> bool:
    execute(
        "DELETE FROM rule_state WHERE subject_id = ? AND rule_no IN (SELECT no FROM rule WHERE organization_id = ?)",
        (asset_id, organization_id),
    )
    return execute("DELETE FROM rule_asset WHERE asset_id = ?", (asset_id,)).rowcount > 0


def _start() -> None:
    """Begin at the end of the log, with the locations that events have reported."""
    _clear()
    execute(
        "INSERT INTO rule_asset (asset_id, location_id, since) "
        "SELECT e.asset_id, ifnull(e.location_id, p.location_id), ifnull(p.dwell_started_at, ?) "
        "FROM event_asset e LEFT JOIN position p ON p.asset_id = e.asset_id "
        "WHERE e.is_live = 1 AND ifnull(e.location_id, p.location_id) IS NOT NULL",
        (clock.now(),),
    )
    execute("INSERT INTO rule_progress (one, seq) VALUES (1, ?)", (events.newest(),))


class _Evaluation:
    """Evaluation of one batch of events, within its transaction."""

    def __init__(
        self,
        enabled: Sequence[Rule],
        batch: Sequence[tuple[int, Event]],
        zone: tzinfo,
        counts: dict[int, int],
        *,
        with_room: Container[int],
    ) -> None:
        self._zone = zone
        self._counts = counts
        self._with_room = with_room
        self._rules: dict[int, list[Rule]] = {}
        for rule in enabled:
            self._rules.setdefault(rule.organization_id, []).append(rule)
        ids = {event.subject_id for _, event in batch if event.kind.startswith("asset.")}
        self._people = tracked_people.among(ids)
        self._matching = {rule.no: matching(rule, ids) for rule in enabled if ids and not is_about_all(rule)}
        self._within = cache(_within)

    def read(self, organization_id: int, event: Event) -> None:
        """Evaluate one event."""
        own = self._rules.get(organization_id, [])
        if event.subject_id in self._people:
            if _forget_person(organization_id, event.subject_id):
                self.recount(own, event.at)
            return
        if event.kind in (EventKind.ASSET_MOVED, EventKind.ASSET_ARRIVED):
            self._move(own, event, event.data["location"]["id"])
        elif event.kind is EventKind.ASSET_DELETED:
            self._move(own, event, None)
            for rule in own:
                if _lasts_for_asset(rule):
                    states.release(rule, event.subject_id, event.at)
        elif event.kind is EventKind.ASSET_PASSED:
            self._pass(own, event)
        elif event.kind is EventKind.ASSET_CHANGED:
            self._change(own, event)
        elif event.kind in (EventKind.READER_OFFLINE, EventKind.READER_ONLINE):
            self._reader(own, event)

    def _move(self, own: Sequence[Rule], event: Event, location_id: int | None) -> None:
        before = _location_of(event.subject_id)
        if location_id == before:
            return  # seen again at the same location
        was_in, is_in = self._within(before), self._within(location_id)
        for rule in own:
            place = rule.fields.location_id
            if place is None or (place in was_in) == (place in is_in):
                continue
            if location_id is not None and not self._is_about(rule, event.subject_id):
                continue
            self._cross(rule, event, is_retired=location_id is None, is_entry=place in is_in)
        if location_id is None:
            execute("DELETE FROM rule_asset WHERE asset_id = ?", (event.subject_id,))
        else:
            execute(
                "INSERT INTO rule_asset (asset_id, location_id, since) VALUES (?, ?, ?) "
                "ON CONFLICT DO UPDATE SET location_id = excluded.location_id, since = excluded.since",
                (event.subject_id, location_id, event.at),
            )
        if location_id is None:
            self.recount(own, event.at)

    def _cross(self, rule: Rule, event: Event, *, is_retired: bool, is_entry: bool) -> None:
        """Evaluate that an asset entered or left the location of a rule."""
        if rule.kind is Condition.STAYS:
            if is_entry:
                if rule.organization_id in self._with_room:
                    states.hold(rule, event.subject_id, event.at)
            else:
                self._release(rule, event.subject_id, event.at)
        elif rule.kind in OF_NUMBER:
            if not is_retired:
                self._counts[rule.no] += 1 if is_entry else -1
                self._compare(rule, event.at)
        elif not is_retired and is_entry == (rule.kind is Condition.ENTERS):
            self._fire_asset(rule, event, f"{event.subject_id}:{event.at}")

    def _pass(self, own: Sequence[Rule], event: Event) -> None:
        passage, door_id = event.data["passage"], event.data["door"]["id"]
        for rule in own:
            if rule.kind is not Condition.PASSES or not self._is_about(rule, event.subject_id):
                continue
            cause = f"passage:{passage['id']}"
            allowed = ("in", "out", "unknown") if rule.fields.direction == "any" else (rule.fields.direction,)
            if door_id == rule.fields.door_id and passage["direction"] in allowed:
                self._fire_asset(rule, event, cause)
            else:
                states.withdraw(rule, cause, event.at)  # revised by late reads

    def _change(self, own: Sequence[Rule], event: Event) -> None:
        """Evaluate that a rule may be about an asset now, or no longer."""
        within = self._within(_location_of(event.subject_id))
        for rule in own:
            if is_about_all(rule):
                continue
            is_about = self._is_about(rule, event.subject_id)
            if rule.kind is Condition.STAYS and is_about and rule.fields.location_id in within:
                if rule.organization_id in self._with_room:
                    states.hold(rule, event.subject_id, event.at)
            elif _lasts_for_asset(rule) and not is_about:
                states.release(rule, event.subject_id, event.at)
        self.recount([rule for rule in own if not is_about_all(rule)], event.at)

    def _reader(self, own: Sequence[Rule], event: Event) -> None:
        for rule in own:
            if rule.kind is not Condition.OFFLINE or rule.fields.reader_id not in (None, event.subject_id):
                continue
            if event.kind is EventKind.READER_ONLINE:
                self._release(rule, event.subject_id, event.at)
            else:
                states.hold(rule, event.subject_id, event.at)

    def recount(self, own: Sequence[Rule], at: int) -> None:
        """Count the assets of rules about a number again."""
        for rule in own:
            if rule.kind in OF_NUMBER:
                self._counts[rule.no] = count_present(rule)
                self._compare(rule, at)

    def _compare(self, rule: Rule, at: int) -> None:
        if states.is_beyond(rule, self._counts[rule.no]):
            states.hold(rule, states.location_of(rule), at, self._counts[rule.no])
        else:
            self._release(rule, states.location_of(rule), at)

    def _release(self, rule: Rule, subject_id: int, at: int) -> None:
        """End a condition. One that was due in the meantime, by events that came late, still raises its alert."""
        missed = states.release(rule, subject_id, at)
        if missed and rule.fields.is_on(missed.due_at, self._zone):
            states.fire(rule, _occurrence(rule, missed)._replace(over_at=at))

    def sweep(self, rule: Rule, now: int) -> None:
        """Evaluate for which subjects the condition begins or ends."""
        for subject_id, at in states.ended(rule, now):
            states.release(rule, subject_id, at)
        if rule.organization_id in self._with_room:
            for subject_id, since, amount in states.begun(rule, now):
                states.hold(rule, subject_id, since, amount)

    def fire_due(self, rule: Rule, now: int) -> None:
        """Raise the alerts of conditions that have lasted long enough."""
        for held in states.due(rule, now):
            one = _occurrence(rule, held)
            if not rule.fields.is_on(held.due_at, self._zone):
                one = one._replace(at=now)  # due outside the hours of the rule
            states.mark_fired(rule, held.subject_id, states.fire(rule, one))

    def _fire_asset(self, rule: Rule, event: Event, cause: str) -> None:
        """Raise an alert about an event, unless it is older than the rule or outside its hours."""
        if event.at < rule.changed_at or not rule.fields.is_on(event.at, self._zone):
            return
        asset = event.data["asset"]
        states.fire(rule, Occurrence(cause, event.subject_id, asset["name"], asset["external_key"], event.at))

    def _is_about(self, rule: Rule, asset_id: int) -> bool:
        return is_about_all(rule) or asset_id in self._matching[rule.no]


def _within(location_id: int | None) -> set[int]:
    """Return a location and those above it."""
    return set() if location_id is None else Locations([location_id]).within(location_id)


def _occurrence(rule: Rule, held: Held) -> Occurrence:
    name, key, place = _names(rule, held.subject_id)
    cause = f"{held.subject_id}:{held.since}"
    return Occurrence(cause, held.subject_id, name, key, held.due_at, place, held.amount)


def _lasts_for_asset(rule: Rule) -> bool:
    return rule.declared.lasts and states.is_of_asset(rule)


def _location_of(asset_id: int) -> int | None:
    return find_scalar("SELECT location_id FROM rule_asset WHERE asset_id = ?", (asset_id,))


def _names(rule: Rule, subject_id: int) -> tuple[str, str, str]:
    """Return name, key and place of the subject of a lasting condition."""
    name, key, place = execute(rule.declared.subject.names, (subject_id,)).fetchone() or (str(subject_id), "", "")
    return name, key, place
