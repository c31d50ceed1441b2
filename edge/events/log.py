"""The log of outbound events, in the order they became known, kept for some days.

Every destination reads the log from its own position, so a slow one does not delay the others. `detection` writes to
it; `destinations` lists the receivers.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from enum import StrEnum
from typing import Any, NamedTuple

from edge import clock
from edge.database.connection import execute, execute_many, find_scalar, scalar, writing
from edge.people.people import Role
from edge.tracking import tracked_people
from edge.validation import json_text


class EventKind(StrEnum):
    ASSET_MOVED = "asset.moved"  # read at another location
    ASSET_ARRIVED = "asset.arrived"  # first read, read again after unseen, or entered the filter's location
    ASSET_PASSED = "asset.passed"  # went through a door, or turned back in it
    ASSET_MEASURED = "asset.measured"  # battery or temperature of its tag changed, or its button was pressed
    ASSET_UNSEEN = "asset.unseen"  # not read for the configured time
    ASSET_CREATED = "asset.created"
    ASSET_CHANGED = "asset.changed"  # its record or its tags
    ASSET_DELETED = "asset.deleted"
    ASSET_HISTORY = "asset.history"  # its EPCIS events changed; for webhooks with EPCIS bodies only
    READER_OFFLINE = "reader.offline"
    READER_ONLINE = "reader.online"


KINDS = tuple(kind for kind in EventKind if kind is not EventKind.ASSET_HISTORY)
MOST_ROWS = 1_000_000  # of all organizations, about 300 MB
_ID = re.compile(r"evt_([0-9]{1,18})_([0-9a-f]{16})")


class NewEvent(NamedTuple):
    """An event to append. `within`: its location and all ancestors; `within_before`: the same before a move."""

    organization_id: int
    kind: EventKind
    subject_id: int
    at: int
    within: Collection[int]
    within_before: Collection[int]
    data: dict[str, Any]


class Event(NamedTuple):
    """A logged event; see `NewEvent`. `is_private`: where a person is, which the organization does not send.

    `is_of_person` does not depend on that setting.
    """

    seq: int
    nonce: str
    kind: EventKind
    subject_id: int
    at: int
    within: Collection[int]
    within_before: Collection[int]
    data: dict[str, Any]
    is_private: bool = False
    is_of_person: bool = False

    @property
    def id(self) -> str:
        """Return a unique id, identical for every delivery attempt."""
        return f"evt_{self.seq}_{self.nonce}"


class Filter(NamedTuple):
    """Event filter; `location_id` includes its sub-locations."""

    kinds: Collection[str]
    location_id: int | None = None

    def kind_of(self, event: Event) -> EventKind | None:
        """Return the event's kind for this filter, or None if it does not match.

        Entering the filter's location is an arrival.
        """
        if event.is_private:
            return None
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
    """Return the JSON body of an event, in the form recommended by Standard Webhooks."""
    event_json = {"id": event.id, "type": kind, "timestamp": clock.rfc3339(event.at), "data": event.data}
    return json_text.encode(event_json)


def add(events: Iterable[NewEvent]) -> None:
    """Append events. Call in the transaction that records the assets' reported state."""
    made_at = clock.now()
    execute_many(
        "INSERT INTO event (nonce, organization_id, kind, subject_id, at, made_at, within, within_before, data) "
        "VALUES (lower(hex(randomblob(8))), ?, ?, ?, ?, ?, ?, ?, ?)",
        [
            (
                *(event.organization_id, event.kind, event.subject_id, event.at, made_at),
                *(json_text.text(sorted(within)) for within in (event.within, event.within_before)),
                json_text.text(event.data),
            )
            for event in events
        ],
    )


def after(organization_id: int, seq: int, limit: int) -> list[Event]:
    """Return the oldest events after position `seq`."""
    return _events("WHERE organization_id = ? AND seq > ? ORDER BY seq LIMIT ?", (organization_id, seq, limit))


def all_after(seq: int, limit: int) -> list[tuple[int, Event]]:
    """Return the oldest events of all organizations after `seq`, each with its organization. For rules only."""
    rows = execute("SELECT seq, organization_id FROM event WHERE seq > ? ORDER BY seq LIMIT ?", (seq, limit)).fetchall()
    if not rows:
        return []
    sent = _events("WHERE seq > ? AND seq <= ? ORDER BY seq", (seq, rows[-1][0]))
    return [(organization_id, event) for (_, organization_id), event in zip(rows, sent, strict=True)]


def visible_to(role: Role | None, organization_id: int, batch: Sequence[Event]) -> Sequence[Event]:
    """Return events as a person with this role may see them. None is an API key, which sees them as they are."""
    if role is None or not tracked_people.setting(organization_id).is_hidden_from(role):
        return batch
    return [_without_location(event._replace(is_private=True)) if event.is_of_person else event for event in batch]


def newest_of(organization_id: int) -> Event | None:
    """Return the newest event kept for an organization."""
    events = _events("WHERE organization_id = ? ORDER BY seq DESC LIMIT 1", (organization_id,))
    return events[0] if events else None


def with_numbers(organization_id: int, numbers: Collection[int]) -> dict[int, Event]:
    """Return the events with these numbers that are still in the log, by number."""
    numbers_json = json_text.text(list(numbers))
    events = _events(
        "WHERE organization_id = ? AND seq IN (SELECT value FROM json_each(?))", (organization_id, numbers_json)
    )
    return {event.seq: event for event in events}


def newest() -> int:
    """Return the highest number ever assigned, even if its event was dropped."""
    row = execute("SELECT seq FROM sqlite_sequence WHERE name = 'event'").fetchone()
    return row[0] if row else 0


def oldest_kept() -> int:
    """Return the number from which on all events are kept."""
    row = execute("SELECT min(seq) FROM event").fetchone()
    return newest() + 1 if row[0] is None else row[0]


def count_between(organization_id: int, seq: int, until: int) -> int:
    """Count an organization's events with `seq < number <= until`, of all kinds."""
    return scalar(
        "SELECT count(*) FROM event WHERE organization_id = ? AND seq > ? AND seq <= ?", (organization_id, seq, until)
    )


def position_of(organization_id: int, event_id: str) -> int | None:
    """Return the position of an event id, or None if the event is not in the log."""
    match = _ID.fullmatch(event_id)
    if match is None:
        return None
    return find_scalar(
        "SELECT seq FROM event WHERE seq = ? AND nonce = ? AND organization_id = ?",
        (int(match[1]), match[2], organization_id),
    )


def drop_old(before: int, limit: int, most: int = MOST_ROWS) -> int:
    """Drop the oldest events: those made before `before` (µs) and those beyond `most`. Returns the number dropped."""
    with writing():
        return execute(
            "DELETE FROM event WHERE seq IN (SELECT seq FROM (SELECT seq, made_at FROM event ORDER BY seq LIMIT ?) "
            "WHERE made_at < ? OR seq <= ?)",
            (limit, before, newest() - most),
        ).rowcount


_IS_OF_PERSON = "subject_id IN (SELECT asset_id FROM tracked_person)"
_IS_HIDDEN = (
    "NOT EXISTS (SELECT 1 FROM people_setting s WHERE s.organization_id = event.organization_id AND s.is_in_api = 1)"
)
# Changes of the record of a person are sent, without the location.
_RECORD_KINDS = frozenset({EventKind.ASSET_CREATED, EventKind.ASSET_CHANGED, EventKind.ASSET_DELETED})


def _events(where: str, values: tuple[Any, ...]) -> list[Event]:
    privacy = f"{_IS_OF_PERSON} AND {_IS_HIDDEN}, {_IS_OF_PERSON}"
    rows = execute(
        f"SELECT seq, nonce, kind, subject_id, at, within, within_before, data, {privacy} FROM event {where}", values
    )
    return [_event(row) for row in rows]


def _event(row: Sequence[Any]) -> Event:
    event = Event._make(row)
    within, before, data = (json_text.decode(text) for text in row[5:8])
    event = event._replace(
        kind=EventKind(event.kind), within=frozenset(within), within_before=frozenset(before), data=data
    )
    return _without_location(event) if event.is_private else event


def _without_location(event: Event) -> Event:
    """Return an event of a person whose location is private: without it, or still private if it says no more."""
    if event.kind not in _RECORD_KINDS:
        return event
    return event._replace(
        within=frozenset(), within_before=frozenset(), data={**event.data, "location": None}, is_private=False
    )
