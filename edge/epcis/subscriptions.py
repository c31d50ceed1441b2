"""Webhooks with EPCIS bodies: changes of EPCIS events go to the log of events, which names their moments.

They follow the log of changes (`edge.epcis.changes`), so late reads, batches of sites, undo and corrections count like
new reads. `log_changes` writes the moments of changes to the log of events. The events of a moment are read when a
message is made.

The events of a message are those of `GET /epcis/events`, with the same ids, and those that went are declared as errors.
Each attempt has the same body unless the history has changed in between; then a later message has the change.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import groupby
from zoneinfo import ZoneInfo

from edge import clock
from edge.database import change_log
from edge.database.connection import are_people_hidden, execute, hide_people, writing
from edge.database.triggers import Follower
from edge.epcis import changes, query, sources
from edge.epcis.documents import query_document
from edge.epcis.names import Names
from edge.epcis.sources import Found
from edge.events import log
from edge.events.destinations import EPCIS_MOVES, event_kinds
from edge.events.detection import Locations
from edge.events.family import Destination
from edge.events.log import Event, EventKind, NewEvent
from edge.tracking import tracked_people
from edge.validation import json_text

MOST_NOTED = 1_000  # per transaction
MOST_MOMENTS = 100  # in one message
_INSIDE = "SELECT location_id FROM door WHERE id = ?"


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
    hide_people(tracked_people.setting(organization_id).is_hidden_in_api)
    try:
        yield
    finally:
        hide_people(before)


def _chosen(destination: Destination, found: Sequence[Found]) -> list[Found]:
    """Return the events of the kinds and the location that the destination has chosen."""
    kinds, place = set(event_kinds(destination)), destination.settings["location_id"]
    found = [
        one for one in found if (EventKind.ASSET_PASSED in kinds if one.door_id else not kinds.isdisjoint(EPCIS_MOVES))
    ]
    if place is None:
        return found
    inside = {door: row[0] for door in {one.door_id for one in found} for row in execute(_INSIDE, (door,))}
    at = [inside.get(one.door_id) if one.door_id else one.location_id for one in found]
    locations = Locations(at)
    return [one for one, location_id in zip(found, at, strict=True) if place in locations.within(location_id)]


def log_changes(*, is_needed: bool) -> int:
    """Log the moments of the next changes. Returns the number of changes. Follows the log only if `is_needed`."""
    if change_log.is_followed_by(Follower.EPCIS) != is_needed:
        _follow(is_needed=is_needed)
    if not change_log.has_news(Follower.EPCIS):
        return 0
    with writing():
        number, found = changes.take(MOST_NOTED)
        log.add(_events(found))
    return number


def _follow(*, is_needed: bool) -> None:
    """Begin or end. Events that were taken away stay errors."""
    with writing():
        if is_needed:
            execute("INSERT INTO epcis (one) VALUES (1)")
            change_log.begin(Follower.EPCIS)
        else:
            while changes.take(MOST_NOTED)[0]:
                pass
            execute("DELETE FROM epcis")
            change_log.leave(Follower.EPCIS)


def _events(found: Collection[changes.Changed]) -> Iterator[NewEvent]:
    """Yield the events of the log: some moments of one asset each, if its organization has such a webhook."""
    doors = {one.place_id for one in found if one.kind in _OF_DOORS}
    inside = {door: row[0] for door in doors for row in execute(_INSIDE, (door,))}
    moments = {(one.asset_id, one.at, _location(one, inside)) for one in found}
    locations = Locations([location_id for _, _, location_id in moments])
    owners = dict(execute(_OWNERS, (json_text.text(list({one.asset_id for one in found})),)).fetchall())
    in_order = sorted((one for one in moments if one[0] in owners), key=lambda one: one[:2])
    for asset_id, group in groupby(in_order, key=lambda one: one[0]):
        ones = list(group)
        times = sorted({at for _, at, _ in ones})
        for start in range(0, len(times), MOST_MOMENTS):
            part = times[start : start + MOST_MOMENTS]
            within = {place for _, at, location_id in ones if at in part for place in locations.within(location_id)}
            data = {"moments": part}
            yield NewEvent(owners[asset_id], EventKind.ASSET_HISTORY, asset_id, part[-1], within, (), data)


def _location(one: changes.Changed, inside: Mapping[int, int | None]) -> int | None:
    """Return where an event was. Carriers have no location."""
    if one.kind in _OF_DOORS:
        return inside.get(one.place_id)
    return one.place_id if one.kind == 1 else None


_OF_DOORS = (4, 5)
_OWNERS = """
    SELECT a.id, a.organization_id FROM asset a WHERE a.id IN (SELECT value FROM json_each(?)) AND EXISTS (
        SELECT 1 FROM destination d WHERE d.organization_id = a.organization_id AND d.family = 'event_destination'
        AND d.settings ->> 'body_format' = 'epcis')
"""
