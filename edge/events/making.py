"""How events come about: the current state is compared with what was told last, and the difference goes to the log.

Triggers note which assets may have an event, in the transaction of the write itself; this module looks at them soon
after. So no write can bypass it, an ingest batch pays for its moves only, and a kill neither loses nor repeats an
event: the event, and the note that it was told, are one transaction. The events of each asset form a chain: it arrives,
moves from where it was last told to be, is unseen. A late scan that changes only the past makes no event; one that is
undone makes a move to where the asset is now.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from enum import IntEnum
from typing import Any, NamedTuple

import orjson

from edge import clock
from edge.database.connection import execute, execute_many, writing
from edge.database.triggers import TRIGGERS
from edge.events import log as events
from edge.events.log import EventKind, NewEvent

MOST_CANDIDATES = 1_000  # in one transaction
MOST_STAYS = 200  # of one asset in one transaction; the rest follows in the next


class Candidate(IntEnum):
    """What `key` means in `event_candidate`."""

    TRACK = 1  # the number of a track
    GONE = 2  # an asset whose track is gone
    RECORD = 3  # an asset whose record or tags are new or changed


class Silence(NamedTuple):
    """After how many microseconds without a read an asset is unseen, and without a message a reader is offline."""

    asset: int
    reader: int


class _Told(NamedTuple):
    """What was told of an asset. `location_id` is None where nobody knows where it is."""

    is_live: bool = False
    location_id: int | None = None
    observed_at: int | None = None


class _Asset(NamedTuple):
    """How it is now; without the last four where it was never seen."""

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
    """Since when the asset is at a location; None: nobody knows where."""

    at: int
    location_id: int | None


def start(silence: Silence) -> None:
    """Take the current state as told, and note from now on what may have to be. Does nothing if it runs already."""
    with writing():
        if is_running():
            return
        seen_after = clock.now() - silence.asset
        for statement in TRIGGERS.values():
            execute(statement)
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
    """Make no more events; the log keeps what is in it until that is too old."""
    with writing():
        for name in TRIGGERS:
            execute(f"DROP TRIGGER IF EXISTS {name}")
        for table in ("event_candidate", "event_asset", "event_reader"):
            execute(f"DELETE FROM {table}")


def is_running() -> bool:
    names = orjson.dumps(list(TRIGGERS)).decode()
    found = execute(
        "SELECT count(*) FROM sqlite_schema WHERE type = 'trigger' AND name IN (SELECT value FROM json_each(?))",
        (names,),
    )
    return bool(found.fetchone()[0] == len(TRIGGERS))


def has_candidates() -> bool:
    return execute("SELECT 1 FROM event_candidate LIMIT 1").fetchone() is not None


def make(silence: Silence) -> int:
    """Log the events of the oldest candidates; returns how many candidates were looked at."""
    with writing():
        found = execute("SELECT no, kind, key FROM event_candidate ORDER BY no LIMIT ?", (MOST_CANDIDATES,)).fetchall()
        if not found:
            return 0
        execute("DELETE FROM event_candidate WHERE no <= ?", (found[-1][0],))
        tracks = [key for _, kind, key in found if kind == Candidate.TRACK]
        records = {key for _, kind, key in found if kind == Candidate.RECORD}
        gone = {key for _, kind, key in found if kind == Candidate.GONE}
        _tell({*_assets_of(tracks), *gone, *records}, records, silence)
    return len(found)


def make_unseen(silence: Silence, limit: int = MOST_CANDIDATES) -> int:
    """Log assets that have become unseen, or are seen again where they were; returns how many."""
    seen_after = clock.now() - silence.asset
    # Outside of the transaction, since it goes through all assets.
    overdue = execute(_OVERDUE, {"seen_after": seen_after, "limit": limit}).fetchall()
    if overdue:
        with writing():
            _tell({asset_id for (asset_id,) in overdue}, set(), silence)
    return len(overdue)


_OVERDUE = """
    SELECT t.asset_id FROM event_asset t JOIN position p ON p.asset_id = t.asset_id
    WHERE t.is_live = 1 AND (t.location_id IS NULL) = (p.last_seen_at > :seen_after) LIMIT :limit
"""


def make_readers(silence: Silence) -> int:
    """Log readers that went silent, said goodbye, or are heard again; returns how many."""
    changed = execute(_CHANGED_READERS, (clock.now() - silence.reader,)).fetchall()
    if not changed:
        return 0
    with writing():
        locations = _Locations([row[5] for row in changed])
        made = []
        for reader_id, organization_id, name, is_offline, heard_at, location_id in changed:
            kind = EventKind.READER_OFFLINE if is_offline else EventKind.READER_ONLINE
            data = {
                "reader": {"id": reader_id, "name": name},
                "location": locations.shown(location_id),
                "last_heard_at": clock.rfc3339(heard_at),
            }
            at = clock.now() if is_offline else heard_at
            made.append(NewEvent(organization_id, kind, reader_id, at, locations.within(location_id), (), data))
        events.add(made)
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


def _assets_of(tracks: Sequence[int]) -> set[int]:
    numbers = orjson.dumps(tracks).decode()
    found = execute("SELECT asset_id FROM track WHERE no IN (SELECT value FROM json_each(?))", (numbers,))
    return {asset_id for (asset_id,) in found}


def _tell(asset_ids: Collection[int], changed_records: Collection[int], silence: Silence) -> None:
    ids = orjson.dumps(sorted(asset_ids)).decode()
    assets = [_Asset(*row) for row in execute(_SELECT_ASSETS, (ids,))]
    told = {row[0]: _Told(bool(row[1]), *row[2:]) for row in execute(_SELECT_TOLD, (ids,))}
    made: list[_Made] = []
    for asset in assets:
        before = told.get(asset.id, _Told())
        if asset.deleted_at is not None and not before.is_live:
            continue  # created and deleted in between, or told before
        made.append(_Made(asset, before, asset.id in changed_records, silence))
    locations = _Locations([location_id for one in made for location_id in one.location_ids()])
    events.add([event for one in made for event in one.events(locations)])
    execute_many(_SET_TOLD, [one.told for one in made])
    execute_many(
        "INSERT INTO event_candidate (kind, key) SELECT 1, no FROM track WHERE asset_id = ?",
        [(one.asset.id,) for one in made if one.is_unfinished],
    )


_SELECT_ASSETS = """
    SELECT a.id, a.organization_id, a.external_key, a.name, a.updated_at, a.deleted_at, p.location_id, p.last_seen_at,
           p.dwell_started_at, p.row_at
    FROM asset a LEFT JOIN position p ON p.asset_id = a.id WHERE a.id IN (SELECT value FROM json_each(?)) ORDER BY a.id
"""
_SELECT_TOLD = """
    SELECT asset_id, is_live, location_id, observed_at FROM event_asset
    WHERE asset_id IN (SELECT value FROM json_each(?))
"""
_SET_TOLD = """
    INSERT INTO event_asset (asset_id, is_live, location_id, observed_at) VALUES (?, ?, ?, ?)
    ON CONFLICT DO UPDATE SET is_live = excluded.is_live, location_id = excluded.location_id,
                              observed_at = excluded.observed_at
"""


class _Made:
    """The events of one asset."""

    def __init__(self, asset: _Asset, before: _Told, is_record_changed: bool, silence: Silence) -> None:
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
        self.told = (asset.id, int(is_live), location_id, self._until)

    def location_ids(self) -> Iterator[int | None]:
        yield self._before.location_id
        yield from (step.location_id for step in self._steps)

    def events(self, locations: _Locations) -> Iterator[NewEvent]:
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
        self, kind: EventKind, at: int, locations: _Locations, location_id: int | None, **more: object
    ) -> NewEvent:
        asset = self.asset
        shown = {"id": asset.id, "external_key": asset.external_key, "name": asset.name}
        data = {"asset": shown, "location": locations.shown(location_id), **more}
        return NewEvent(asset.organization_id, kind, asset.id, at, locations.within(location_id), (), data)

    def _find_steps(self) -> list[_Step]:
        """The stays since the last one that was told, and a step to where the asset is now if they end elsewhere."""
        asset, before = self.asset, self._before
        if asset.last_seen_at is None:
            return [_Step(clock.now(), None)] if before.location_id else []
        is_seen = asset.last_seen_at > clock.now() - self._silence.asset
        if before.location_id is None and not is_seen:
            return []
        steps, at = [], before.location_id
        stays = execute(_STAYS_SINCE, (asset.id, _NEVER if self._until is None else self._until, MOST_STAYS)).fetchall()
        for observed_at, location_id in stays:
            if location_id != at:
                steps.append(_Step(observed_at, location_id))
                at = location_id
            self._until = observed_at
        if len(stays) == MOST_STAYS:
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
_STAYS_SINCE = """
    SELECT h.observed_at, s.location_id FROM track t JOIN history h ON h.position_no = t.no
    JOIN source s ON s.no = h.source_no WHERE t.asset_id = ? AND h.observed_at > ?
    ORDER BY h.observed_at, h.position_no, h.seq LIMIT ?
"""


class _Locations:
    """Locations as events show them, and the locations above each of them."""

    def __init__(self, ids: Collection[int | None]) -> None:
        wanted = orjson.dumps(sorted({one for one in ids if one is not None})).decode()
        rows = execute(_SELECT_LOCATIONS, (wanted,)).fetchall()
        self._parents: Mapping[int, int | None] = {row[0]: row[1] for row in rows}
        self._shown = {row[0]: {"id": row[0], "external_key": row[2], "name": row[3]} for row in rows}

    def shown(self, location_id: int | None) -> dict[str, Any] | None:
        return None if location_id is None else self._shown[location_id]

    def within(self, location_id: int | None) -> set[int]:
        found: set[int] = set()
        while location_id is not None and location_id not in found:
            found.add(location_id)
            location_id = self._parents.get(location_id)
        return found


_SELECT_LOCATIONS = """
    WITH RECURSIVE path (id) AS (
        SELECT value FROM json_each(?)
        UNION SELECT l.parent_id FROM location l JOIN path ON path.id = l.id WHERE l.parent_id IS NOT NULL
    )
    SELECT l.id, l.parent_id, l.external_key, l.name FROM location l JOIN path ON path.id = l.id
"""
