"""The log of outbound events: what happened, in the order it became known, kept for some days.

Every destination reads the same log from a position of its own, so that a slow one delays nobody. `event_making` fills
it; `event_destinations` knows who receives it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from enum import StrEnum
from typing import Any, NamedTuple

import orjson

from edge import clock
from edge.database.connection import execute, execute_many, writing


class EventKind(StrEnum):
    ASSET_MOVED = "asset.moved"  # seen at another location
    ASSET_ARRIVED = "asset.arrived"  # seen for the first time, again after unseen, or in the filter's location
    ASSET_UNSEEN = "asset.unseen"  # not seen any more for as long as the settings say
    ASSET_CREATED = "asset.created"
    ASSET_CHANGED = "asset.changed"  # its record
    ASSET_DELETED = "asset.deleted"
    READER_OFFLINE = "reader.offline"
    READER_ONLINE = "reader.online"


KINDS = tuple(EventKind)
MOST_ROWS = 1_000_000  # of all organizations; some 300 MB
_ID = re.compile(r"evt_([0-9]{1,18})_([0-9a-f]{16})")


class NewEvent(NamedTuple):
    """`within` holds the location it happened in and all above it; `within_before` the same from before a move."""

    organization_id: int
    kind: EventKind
    subject_id: int
    at: int
    within: Collection[int]
    within_before: Collection[int]
    data: dict[str, Any]


class Event(NamedTuple):
    """As `NewEvent`, in the log."""

    seq: int
    nonce: str
    kind: EventKind
    subject_id: int
    at: int
    within: Collection[int]
    within_before: Collection[int]
    data: dict[str, Any]

    @property
    def id(self) -> str:
        """The same at every attempt, and never used for another event."""
        return f"evt_{self.seq}_{self.nonce}"


class Filter(NamedTuple):
    """Which events somebody wants; `location_id` includes its sub-locations."""

    kinds: Collection[str]
    location_id: int | None = None

    def kind_of(self, event: Event) -> EventKind | None:
        """The kind of the event for this filter; None: it does not match. A move into the location is an arrival."""
        is_in = self._covers(event.within)
        if event.kind in (EventKind.ASSET_MOVED, EventKind.ASSET_ARRIVED):
            was_in = event.kind is EventKind.ASSET_MOVED and self._covers(event.within_before)
            if is_in and not was_in and EventKind.ASSET_ARRIVED in self.kinds:
                return EventKind.ASSET_ARRIVED
            is_move = event.kind is EventKind.ASSET_MOVED and (is_in or was_in)
            return EventKind.ASSET_MOVED if is_move and EventKind.ASSET_MOVED in self.kinds else None
        return event.kind if is_in and event.kind in self.kinds else None

    def _covers(self, within: Collection[int]) -> bool:
        return self.location_id is None or self.location_id in within


def body(event: Event, kind: str) -> bytes:
    """What a receiver gets, in the form that Standard Webhooks recommends."""
    told = {"id": event.id, "type": kind, "timestamp": clock.rfc3339(event.at), "data": event.data}
    return orjson.dumps(told)


def add(events: Iterable[NewEvent]) -> None:
    """Append to the log, within the transaction that notes what was told."""
    made_at = clock.now()
    execute_many(
        "INSERT INTO event (nonce, organization_id, kind, subject_id, at, made_at, within, within_before, data) "
        "VALUES (lower(hex(randomblob(8))), ?, ?, ?, ?, ?, ?, ?, ?)",
        [
            (
                *(event.organization_id, event.kind, event.subject_id, event.at, made_at),
                *(orjson.dumps(sorted(within)).decode() for within in (event.within, event.within_before)),
                orjson.dumps(event.data).decode(),
            )
            for event in events
        ],
    )


def after(organization_id: int, seq: int, limit: int) -> list[Event]:
    """The oldest events after a position in the log."""
    return _events("WHERE organization_id = ? AND seq > ? ORDER BY seq LIMIT ?", (organization_id, seq, limit))


def newest_of(organization_id: int) -> Event | None:
    """The last one of an organization that is still kept."""
    found = _events("WHERE organization_id = ? ORDER BY seq DESC LIMIT 1", (organization_id,))
    return found[0] if found else None


def with_numbers(organization_id: int, numbers: Collection[int]) -> dict[int, Event]:
    """Of these, those that are still in the log."""
    wanted = orjson.dumps(list(numbers)).decode()
    found = _events("WHERE organization_id = ? AND seq IN (SELECT value FROM json_each(?))", (organization_id, wanted))
    return {event.seq: event for event in found}


def newest() -> int:
    """The last number that was given out, even if its event has been dropped since."""
    row = execute("SELECT seq FROM sqlite_sequence WHERE name = 'event'").fetchone()
    return row[0] if row else 0


def oldest_kept() -> int:
    """All events from this number on are still in the log."""
    row = execute("SELECT min(seq) FROM event").fetchone()
    return newest() + 1 if row[0] is None else row[0]


def count_between(organization_id: int, seq: int, until: int) -> int:
    """How many of an organization's events lie after one number, up to another; whatever their kind."""
    number: int = execute(
        "SELECT count(*) FROM event WHERE organization_id = ? AND seq > ? AND seq <= ?", (organization_id, seq, until)
    ).fetchone()[0]
    return number


def position_of(organization_id: int, event_id: str) -> int | None:
    """The position after an event in the log; None where that is no longer known."""
    found = _ID.fullmatch(event_id)
    if found is None:
        return None
    row = execute(
        "SELECT seq FROM event WHERE seq = ? AND nonce = ? AND organization_id = ?",
        (int(found[1]), found[2], organization_id),
    ).fetchone()
    return row[0] if row else None


def drop_old(before: int, limit: int, most: int = MOST_ROWS) -> int:
    """Drop the oldest events that were made before a time, or exceed `most`; returns how many."""
    with writing():
        return execute(
            "DELETE FROM event WHERE seq IN (SELECT seq FROM (SELECT seq, made_at FROM event ORDER BY seq LIMIT ?) "
            "WHERE made_at < ? OR seq <= ?)",
            (limit, before, newest() - most),
        ).rowcount


def _events(where: str, values: tuple[Any, ...]) -> list[Event]:
    found = execute(f"SELECT seq, nonce, kind, subject_id, at, within, within_before, data FROM event {where}", values)
    return [
        Event(
            seq,
            nonce,
            EventKind(kind),
            subject,
            at,
            frozenset(orjson.loads(within)),
            frozenset(orjson.loads(before)),
            orjson.loads(data),
        )
        for seq, nonce, kind, subject, at, within, before, data in found
    ]
