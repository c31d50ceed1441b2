"""Webhooks with EPCIS bodies: the events at the moments that an event of the log names.

They are those of `GET /epcis/events`, with the same ids, and those that went are declared as errors. Each attempt has
the same body unless the history has changed in between; then a later message has the change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from zoneinfo import ZoneInfo

from edge import clock
from edge.database.connection import are_people_hidden, hide_people
from edge.epcis import changes, moments, query
from edge.epcis.documents import query_document
from edge.epcis.names import Names
from edge.epcis.query import Found
from edge.events.destinations import EPCIS_MOVES, Destination
from edge.events.detection import Locations
from edge.events.log import Event, EventKind
from edge.tracking import tracked_people
from edge.validation import json_text

ZoneSource = Callable[[], ZoneInfo]


class Subscriptions:
    """EPCIS events for the worker of events. `base` is the address of this box; `zone` returns the time zone."""

    def __init__(self, base: str, zone: ZoneSource) -> None:
        self._base = base
        self._zone = zone

    def log_changes(self, *, is_needed: bool) -> int:
        return changes.log_changes(is_needed=is_needed)

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
        found = _chosen(destination, moments.found_at(organization_id, event.subject_id, event.data["moments"]))
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
    inside = moments.inside_of_doors(found)
    at = [inside.get(one.door_id) if one.door_id else one.location_id for one in found]
    locations = Locations(at)
    return [one for one, location_id in zip(found, at, strict=True) if place in locations.within(location_id)]
