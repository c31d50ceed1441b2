"""Event detection: compares each asset's state with the last reported state and logs the difference as events.

The log of changes names the assets that may have moved, and this module evaluates them soon after the write. So no
write bypasses it, an ingest batch pays only for its moves, and a crash neither loses nor repeats an event: the event,
the reported state and the position in the log are written in one transaction. Events of an asset form a chain: arrived,
moved from the last reported location, unseen. A late read that changes only the past makes no event; undoing one makes
a move to the current location.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, NamedTuple

from edge import clock
from edge.database import change_log
from edge.database.change_log import Kind
from edge.database.connection import execute, execute_many, writing
from edge.database.triggers import Follower
from edge.doors import passage_report
from edge.events import log as events
from edge.events.log import EventKind, NewEvent
from edge.tracking import asset_values, history_engine, stays
from edge.tracking.asset_values import AssetValues
from edge.validation import json_text

MOST_CHANGES = 1_000  # per transaction
MOST_LEVELS = 100  # of the tree of locations
MOST_STAYS = 200  # per asset and transaction; the rest follows in the next


class Silence(NamedTuple):
    """Time without a read until an asset is unseen, and without a message until a reader is offline (µs)."""

    asset: int
    reader: int


def silence_of(unseen_hours: int, offline_minutes: int) -> Silence:
    return Silence(unseen_hours * clock.HOUR, offline_minutes * 60 * clock.SECOND)


class _Reported(NamedTuple):
    """The last reported state of an asset. `location_id` is None if its location is unknown."""

    is_live: bool = False
    location_id: int | None = None
    observed_at: int | None = None


class _Asset(NamedTuple):
    """The current state of an asset. The last four fields are None if it was never read."""

    id: int
    organization_id: int
    external_key: str
    name: str
    updated_at: int
    deleted_at: int | None
    location_id: int | None
    last_seen_at: int | None
    dwell_started_at: int | None
    row_at: int | None


class _Step(NamedTuple):
    """A change of location at time `at`; None if the location became unknown."""

    at: int
    location_id: int | None


def start(silence: Silence) -> None:
    """Take the current state as reported and follow the log from here on. Does nothing if already running.

    Called for each new destination, because the worker looks for the first one only once a second.
    """
    if is_running():
        return
    with writing():
        if is_running():
            return
        seen_after = clock.now() - silence.asset
        change_log.begin(Follower.EVENTS)
        execute(
            "INSERT INTO event_asset (asset_id, is_live, location_id, observed_at) "
            "SELECT a.id, 1, iif(p.last_seen_at > ?, p.location_id, NULL), p.row_at "
            "FROM asset a LEFT JOIN position p ON p.asset_id = a.id WHERE a.deleted_at IS NULL",
            (seen_after,),
        )
        execute(
            f"INSERT INTO event_reader (reader_id, is_offline) SELECT id, is_offline FROM ({_READERS})",
            (clock.now() - silence.reader,),
        )


def stop() -> None:
    """Stop following the log of changes. That of events keeps them until they expire."""
    with writing():
        change_log.leave(Follower.EVENTS)
        for table in ("event_asset", "event_reader"):
            execute(f"DELETE FROM {table}")


def is_running() -> bool:
    return change_log.is_followed_by(Follower.EVENTS)


def log_changes(silence: Silence) -> int:
    """Log the events of the next changes. Returns the number of changes.

    Raises HistoryUnavailable.
    """
    if not change_log.has_news(Follower.EVENTS):
        return 0
    history_engine.check_reachable()  # before others wait for this transaction
    with writing():
        changes = change_log.take(Follower.EVENTS, MOST_CHANGES)
        keys = {kind: {change.a for change in changes if change.kind == kind} for kind in _FOLLOWED}
        records, passages = ({change.a for change in changes if change.kind == kind and change.c} for kind in _NEWS)
        _report({*stays.assets_of(keys[Kind.STAY]), *keys[Kind.POSITION], *records}, records, silence)
        _report_passages(passages)
        _report_values(keys[Kind.VALUES])
    return len(changes)


_FOLLOWED = (Kind.STAY, Kind.POSITION, Kind.VALUES)
_NEWS = (Kind.ASSET, Kind.PASSAGE)


def _report_values(asset_ids: Collection[int]) -> None:
    """Log the latest sensor values of assets."""
    if not asset_ids:
        return
    rows = [_Asset(*row) for row in execute(_SELECT_ASSETS, (json_text.text(sorted(asset_ids)),))]
    locations = Locations([row.location_id for row in rows])
    latest = asset_values.of_assets(asset_ids)
    new_events = []
    for row in rows:
        values = latest.get(row.id)
        if values is None or row.deleted_at is not None:
            continue
        data = {
            "asset": {"id": row.id, "external_key": row.external_key, "name": row.name},
            "location": locations.shown(row.location_id),
            "values": _shown_values(values),
        }
        at = max(values.battery_at or 0, values.temperature_at or 0, values.pressed_at or 0)
        within = locations.within(row.location_id)
        new_events.append(NewEvent(row.organization_id, EventKind.ASSET_MEASURED, row.id, at, within, (), data))
    events.add(new_events)


def _shown_values(values: AssetValues) -> dict[str, Any]:
    times = {"battery_at": values.battery_at, "temperature_at": values.temperature_at, "pressed_at": values.pressed_at}
    return {
        "battery": values.battery,
        "is_battery_low": values.battery is not None and values.battery <= asset_values.LOW,
        "volts": None if values.millivolts is None else values.millivolts / 1000,
        "temperature": None if values.temperature is None else values.temperature / 100,
        **{name: None if at is None else clock.rfc3339(at) for name, at in times.items()},
    }


def _report_passages(numbers: Collection[int]) -> None:
    """Log passages as they are now. One that late reads change is logged again, with a higher revision."""
    rows = passage_report.passages_numbered(numbers)
    locations = Locations([row.location_id for row in rows])
    events.add(
        [
            NewEvent(
                *(row.organization_id, EventKind.ASSET_PASSED, row.asset_id, row.at),
                *(locations.within(row.location_id), ()),
                {
                    "asset": {"id": row.asset_id, "external_key": row.asset_key, "name": row.asset_name},
                    "location": locations.shown(row.location_id),
                    "door": {"id": row.door_id, "name": row.door_name},
                    "passage": {
                        "id": row.no,
                        "direction": row.direction.name.lower(),
                        "confidence": row.confidence,
                        "revision": row.revision,
                    },
                },
            )
            for row in rows
        ]
    )


def log_unseen(silence: Silence, limit: int = MOST_CHANGES) -> int:
    """Log assets that became unseen, or were read again at the same location. Returns their number."""
    seen_after = clock.now() - silence.asset
    # Before the transaction, because this scans all assets.
    overdue = execute(_OVERDUE, {"seen_after": seen_after, "limit": limit}).fetchall()
    if overdue:
        with writing():
            _report({asset_id for (asset_id,) in overdue}, set(), silence)
    return len(overdue)


_OVERDUE = """
    SELECT t.asset_id FROM event_asset t JOIN position p ON p.asset_id = t.asset_id
    WHERE t.is_live = 1 AND (t.location_id IS NULL) = (p.last_seen_at > :seen_after) LIMIT :limit
"""


def log_readers(silence: Silence) -> int:
    """Log readers that went offline or came back online. Returns their number."""
    changed = execute(_CHANGED_READERS, (clock.now() - silence.reader,)).fetchall()
    if not changed:
        return 0
    with writing():
        locations = Locations([row[5] for row in changed])
        new_events = []
        for reader_id, organization_id, name, is_offline, last_message_at, location_id in changed:
            kind = EventKind.READER_OFFLINE if is_offline else EventKind.READER_ONLINE
            data = {
                "reader": {"id": reader_id, "name": name},
                "location": locations.shown(location_id),
                "last_heard_at": clock.rfc3339(last_message_at),
            }
            at = clock.now() if is_offline else last_message_at
            new_events.append(NewEvent(organization_id, kind, reader_id, at, locations.within(location_id), (), data))
        events.add(new_events)
        execute_many(
            "INSERT INTO event_reader (reader_id, is_offline) VALUES (?, ?) "
            "ON CONFLICT DO UPDATE SET is_offline = excluded.is_offline",
            [(row[0], row[3]) for row in changed],
        )
    return len(changed)


_READERS = """
    SELECT r.id, r.organization_id, r.name, (s.is_offline OR s.last_heard_at < ?) AS is_offline, s.last_heard_at,
           r.location_id
    FROM reader r JOIN reader_state s ON s.reader_id = r.id WHERE r.deleted_at IS NULL AND r.is_enabled = 1
"""
_CHANGED_READERS = (
    f"SELECT now.* FROM ({_READERS}) now LEFT JOIN event_reader t ON t.reader_id = now.id "
    "WHERE t.is_offline IS NOT now.is_offline AND NOT (t.is_offline IS NULL AND now.is_offline = 1)"
)


def _report(asset_ids: Collection[int], changed_records: Collection[int], silence: Silence) -> None:
    ids = json_text.text(sorted(asset_ids))
    assets = [_Asset(*row) for row in execute(_SELECT_ASSETS, (ids,))]
    reported = {row[0]: _Reported(bool(row[1]), *row[2:]) for row in execute(_SELECT_REPORTED, (ids,))}
    batches: list[_AssetEvents] = []
    for asset in assets:
        before = reported.get(asset.id, _Reported())
        if asset.deleted_at is not None and not before.is_live:
            continue  # created and deleted in between, or reported before
        batches.append(_AssetEvents(asset, before, asset.id in changed_records, silence))
    locations = Locations([location_id for batch in batches for location_id in batch.location_ids()])
    events.add([event for batch in batches for event in batch.events(locations)])
    execute_many(_SET_REPORTED, [batch.reported for batch in batches])
    change_log.add_positions([batch.asset.id for batch in batches if batch.is_unfinished])


_SELECT_ASSETS = """
    SELECT a.id, a.organization_id, a.external_key, a.name, a.updated_at, a.deleted_at, p.location_id, p.last_seen_at,
           p.dwell_started_at, p.row_at
    FROM asset a LEFT JOIN position p ON p.asset_id = a.id WHERE a.id IN (SELECT value FROM json_each(?)) ORDER BY a.id
"""
_SELECT_REPORTED = """
    SELECT asset_id, is_live, location_id, observed_at FROM event_asset
    WHERE asset_id IN (SELECT value FROM json_each(?))
"""
_SET_REPORTED = """
    INSERT INTO event_asset (asset_id, is_live, location_id, observed_at) VALUES (?, ?, ?, ?)
    ON CONFLICT DO UPDATE SET is_live = excluded.is_live, location_id = excluded.location_id,
                              observed_at = excluded.observed_at
"""


class _AssetEvents:
    """The events of one asset."""

    def __init__(self, asset: _Asset, before: _Reported, is_record_changed: bool, silence: Silence) -> None:
        self.asset = asset
        self.is_unfinished = False
        self._before = before
        self._is_record_changed = is_record_changed
        self._silence = silence
        self._until = before.observed_at
        self._steps = [] if asset.deleted_at is not None else self._find_steps()
        last = self._steps[-1] if self._steps else None
        is_live = asset.deleted_at is None
        location_id = (last.location_id if last else before.location_id) if is_live else None
        self.reported = (asset.id, int(is_live), location_id, self._until)

    def location_ids(self) -> Iterator[int | None]:
        yield self._before.location_id
        yield from (step.location_id for step in self._steps)

    def events(self, locations: Locations) -> Iterator[NewEvent]:
        at = self._before.location_id
        record = self._record_event()
        if record and record is not EventKind.ASSET_DELETED:
            is_new = record is EventKind.ASSET_CREATED  # attaching a tag does not change `updated_at`
            yield self._event(record, self.asset.updated_at if is_new else clock.now(), locations, at)
        for step in self._steps:
            if step.location_id is None:
                seen = {"last_seen_at": clock.rfc3339(self.asset.last_seen_at)} if self.asset.last_seen_at else {}
                yield self._event(EventKind.ASSET_UNSEEN, step.at, locations, at, **seen)
            elif at is None:
                yield self._event(EventKind.ASSET_ARRIVED, step.at, locations, step.location_id)
            else:
                event = self._event(EventKind.ASSET_MOVED, step.at, locations, step.location_id)
                before = {"previous_location": locations.shown(at)}
                yield event._replace(within_before=locations.within(at), data={**event.data, **before})
            at = step.location_id
        if record is EventKind.ASSET_DELETED:
            yield self._event(record, self.asset.deleted_at or 0, locations, at)

    def _record_event(self) -> EventKind | None:
        if self.asset.deleted_at is not None:
            return EventKind.ASSET_DELETED
        if not self._before.is_live:
            return EventKind.ASSET_CREATED
        return EventKind.ASSET_CHANGED if self._is_record_changed else None

    def _event(
        self, kind: EventKind, at: int, locations: Locations, location_id: int | None, **more: object
    ) -> NewEvent:
        asset = self.asset
        shown = {"id": asset.id, "external_key": asset.external_key, "name": asset.name}
        data = {"asset": shown, "location": locations.shown(location_id), **more}
        return NewEvent(asset.organization_id, kind, asset.id, at, locations.within(location_id), (), data)

    def _find_steps(self) -> list[_Step]:
        """Return the stays since the last reported one, plus a step to the current location if they end elsewhere."""
        asset, before = self.asset, self._before
        if asset.last_seen_at is None:
            return [_Step(clock.now(), None)] if before.location_id else []
        is_seen = asset.last_seen_at > clock.now() - self._silence.asset
        if before.location_id is None and not is_seen:
            return []
        steps, at = [], before.location_id
        began = stays.stays_after(asset.id, _NEVER if self._until is None else self._until, MOST_STAYS)
        for observed_at, location_id in began:
            if location_id != at:
                steps.append(_Step(observed_at, location_id))
                at = location_id
            self._until = observed_at
        if len(began) == MOST_STAYS:
            self.is_unfinished = True
            return steps
        self._until = asset.row_at
        if not is_seen:
            steps.append(_Step(asset.last_seen_at + self._silence.asset, None))
        elif at != asset.location_id:
            since = asset.last_seen_at if at is None else asset.dwell_started_at
            steps.append(_Step(since or asset.last_seen_at, asset.location_id))
        return steps


_NEVER = -(2**62)


class Locations:
    """Locations as shown in events, and their ancestors."""

    def __init__(self, ids: Collection[int | None]) -> None:
        ids_json = json_text.text(sorted({one for one in ids if one is not None}))
        rows = execute(_SELECT_LOCATIONS, (ids_json,)).fetchall()
        self._parents: Mapping[int, int | None] = {row[0]: row[1] for row in rows}
        self._shown = {row[0]: {"id": row[0], "external_key": row[2], "name": row[3]} for row in rows}

    def shown(self, location_id: int | None) -> dict[str, Any] | None:
        return None if location_id is None else self._shown[location_id]

    def within(self, location_id: int | None) -> set[int]:
        """Return a location and its nearest ancestors. Each event keeps them, so there are at most `MOST_LEVELS`."""
        ids: set[int] = set()
        while location_id is not None and location_id not in ids and len(ids) < MOST_LEVELS:
            ids.add(location_id)
            location_id = self._parents.get(location_id)
        return ids


_SELECT_LOCATIONS = f"""
    WITH RECURSIVE path (id, level) AS (
        SELECT value, 1 FROM json_each(?)
        UNION SELECT l.parent_id, level + 1 FROM location l JOIN path ON path.id = l.id
        WHERE l.parent_id IS NOT NULL AND level < {MOST_LEVELS}
    )
    SELECT l.id, l.parent_id, l.external_key, l.name FROM location l WHERE l.id IN (SELECT id FROM path)
"""
