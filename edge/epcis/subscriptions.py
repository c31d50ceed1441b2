"""Webhooks with EPCIS bodies: changes of EPCIS events go to the log of events, which names their moments.

Triggers note each change in the transaction of the write (`edge.database.triggers`), so late reads, batches of sites,
undo and corrections count like new reads. They exist only while a webhook sends EPCIS. `log_changes` writes the noted
moments to the log; what happened at them is read when a message is made.

The events of a message are those of `GET /epcis/events`, with the same ids, and those that went are declared as errors.
Each attempt has the same body unless the history has changed in between; then a later message has the change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from typing import NamedTuple
from zoneinfo import ZoneInfo

from edge import clock
from edge.database.connection import are_people_hidden, execute, hide_people, writing
from edge.database.triggers import EPCIS_TRIGGERS
from edge.epcis import query, sources
from edge.epcis.documents import query_document
from edge.epcis.names import Names
from edge.epcis.sources import Found
from edge.events import log
from edge.events.destinations import EPCIS_MOVES, Destination
from edge.events.detection import Locations
from edge.events.log import Event, EventKind, NewEvent
from edge.tracking import tracked_people
from edge.validation import json_text

MOST_NOTED = 1_000  # per transaction
MOST_MOMENTS = 100  # in one message
_INSIDE = "SELECT location_id FROM door WHERE id = ?"
ZoneSource = Callable[[], ZoneInfo]


class Subscriptions:
    """EPCIS events for the worker of events. `base` is the address of this box; `zone` returns the time zone."""

    def __init__(self, base: str, zone: ZoneSource) -> None:
        self._base = base
        self._zone = zone

    def log_changes(self, *, is_needed: bool) -> int:
        return log_changes(is_needed=is_needed)

    def body(self, row: Destination, event: Event | None) -> bytes | None:
        return body(row, event, self._base, self._zone())


def body(destination: Destination, event: Event | None, base: str, zone: ZoneInfo) -> bytes | None:
    """Return the document for an event, or None if there is nothing to send. `base` is the address of this box.

    Without an event, the document is a test. Raises HistoryUnavailable.
    """
    if event is None:
        return json_text.encode(query_document([], clock.now(), destination.name))
    organization_id = destination.organization_id
    with _people_hidden(organization_id):
        found = _chosen(destination, sources.found_at(organization_id, event.subject_id, event.data["moments"]))
        made = query.of_events(organization_id, found, Names(organization_id, base), zone)
    return json_text.encode(query_document(made, event.at, destination.name)) if made else None


@contextmanager
def _people_hidden(organization_id: int) -> Iterator[None]:
    """Hide people from this thread's queries as from an API key."""
    before = are_people_hidden()
    hide_people(tracked_people.setting(organization_id).is_hidden_in_api(None))
    try:
        yield
    finally:
        hide_people(before)


def _chosen(destination: Destination, found: Sequence[Found]) -> list[Found]:
    """Return the events of the kinds and the location that the destination has chosen."""
    kinds, place = set(destination.event_kinds), destination.location_id
    found = [
        one for one in found if (EventKind.ASSET_PASSED in kinds if one.door_id else not kinds.isdisjoint(EPCIS_MOVES))
    ]
    if place is None:
        return found
    inside = {door: row[0] for door in {one.door_id for one in found} for row in execute(_INSIDE, (door,))}
    at = [inside.get(one.door_id) if one.door_id else one.location_id for one in found]
    locations = Locations(at)
    return [one for one, location_id in zip(found, at, strict=True) if place in locations.within(location_id)]


class _Noted(NamedTuple):
    """A moment, rounded down to milliseconds, at which an event of an asset came or went. Carriers have no location."""

    asset_id: int
    organization_id: int
    at: int
    location_id: int | None


def log_changes(*, is_needed: bool) -> int:
    """Log some of the noted moments. Returns their number. The triggers come and go with `is_needed`."""
    is_running = execute("SELECT 1 FROM epcis").fetchone() is not None
    if not is_needed:
        if is_running:
            _stop()
        return 0
    if not is_running:
        _start()
    if execute("SELECT 1 FROM epcis_pending LIMIT 1").fetchone() is None:
        return 0
    with writing():
        return _log_noted()


def _start() -> None:
    with writing():
        execute("INSERT INTO epcis (one) VALUES (1)")
        for statement in EPCIS_TRIGGERS.values():
            execute(statement)


def _stop() -> None:
    """Remove the triggers. Events that were taken away stay errors."""
    with writing():
        for name in EPCIS_TRIGGERS:
            execute(f"DROP TRIGGER IF EXISTS {name}")
        execute("DELETE FROM epcis_pending")
        execute("DELETE FROM epcis")


def _log_noted() -> int:
    noted = execute(_NOTED, (MOST_NOTED,)).fetchall()
    log.add(_events([_Noted(*row[1:-1]) for row in noted if row[-1]]))
    execute("DELETE FROM epcis_pending WHERE no <= ?", (noted[-1][0],))
    return len(noted)


_NOTED = """
    SELECT n.no, n.asset_id, a.organization_id, n.at,
        CASE n.kind WHEN 1 THEN n.place_id WHEN 4 THEN (SELECT location_id FROM door WHERE id = n.place_id) END,
        EXISTS (SELECT 1 FROM event_destination d
                WHERE d.organization_id = a.organization_id AND d.body_format = 'epcis')
    FROM epcis_pending n JOIN asset a ON a.id = n.asset_id ORDER BY n.no LIMIT ?
"""


def _events(noted: Sequence[_Noted]) -> Iterator[NewEvent]:
    """Yield the events of the log: some moments of one asset each."""
    locations = Locations([one.location_id for one in noted])
    in_order = sorted(noted, key=lambda one: (one.asset_id, one.at))
    for asset_id, group in groupby(in_order, key=lambda one: one.asset_id):
        ones = list(group)
        moments = sorted({one.at for one in ones})
        for start in range(0, len(moments), MOST_MOMENTS):
            part = moments[start : start + MOST_MOMENTS]
            within = {place for one in ones if one.at in part for place in locations.within(one.location_id)}
            organization_id, data = ones[0].organization_id, {"moments": part}
            yield NewEvent(organization_id, EventKind.ASSET_HISTORY, asset_id, part[-1], within, (), data)
