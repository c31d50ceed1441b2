"""Events in order of their time, and the number of events: both examine all events that match, within bounds."""

from __future__ import annotations

import hashlib
import heapq
from collections.abc import Iterator
from typing import NamedTuple
from zoneinfo import ZoneInfo

from edge.database.connection import reading
from edge.epcis import query
from edge.epcis.names import Names
from edge.epcis.query import Event, Found, Query
from edge.errors import EdgeError

MOST_EXAMINED = 50_000  # rows
Key = tuple[int, int]  # time, digest: the same for the same event, so pages follow each other


class TooLarge(EdgeError):
    """More events match than the client accepts."""


class TooComplex(EdgeError):
    """Too many rows would have to be examined."""


class Order(NamedTuple):
    """`limit`: number of events of all pages, None for all."""

    by_record_time: bool
    is_descending: bool
    limit: int | None

    def key(self, one: Found) -> Key:
        at = one.recorded_at if self.by_record_time else one.at
        return (-at if self.is_descending else at), _digest(one)


class Place(NamedTuple):
    """The last event of a page, and how many there were so far."""

    key: Key
    sent: int


def check_count(organization_id: int, wanted: Query, names: Names, zone: ZoneInfo, most: int) -> None:
    """Raise TooLarge if more than `most` events match, and TooComplex if that takes too long to find."""
    with reading():
        for number, _ in enumerate(_matching(organization_id, wanted, names, zone), start=1):
            if number > most:
                raise TooLarge(f"More than {most} events match. Use more filters, or pages without maxEventCount")


def page(
    organization_id: int, wanted: Query, order: Order, names: Names, zone: ZoneInfo, place: Place | None, limit: int
) -> tuple[list[Event], Place | None]:
    """Return the next events in order, and the place from which to go on; None at the end. Raises TooComplex."""
    sent = place.sent if place else 0
    count = limit if order.limit is None else min(limit, order.limit - sent)
    if count <= 0:
        return [], None
    with reading():
        matching = _matching(organization_id, wanted, names, zone)
        following = (one for one in matching if place is None or order.key(one) > place.key)
        first = heapq.nsmallest(count + 1, following, key=order.key)
        chosen = first[:count]
        events = query.of_events(organization_id, chosen, names, zone)
    is_last = len(first) <= count or (order.limit is not None and sent + count >= order.limit)
    return events, None if is_last else Place(order.key(chosen[-1]), sent + count)


def _matching(organization_id: int, wanted: Query, names: Names, zone: ZoneInfo) -> Iterator[Found]:
    examined = 0
    for rows, cost in query.walk(organization_id, wanted):
        examined += cost
        if wanted.event_ids is not None:
            made = query.of_events(organization_id, rows, names, zone)
            rows = [one for one, event in zip(rows, made, strict=True) if event["eventID"] in wanted.event_ids]
        yield from rows
        if examined > MOST_EXAMINED:
            raise TooComplex(
                f"More than {MOST_EXAMINED} rows would have to be examined. Use MATCH_epc, or pages without orderBy "
                "and maxEventCount"
            )


def _digest(one: Found) -> int:
    """Return a number that does not depend on how the event was found, nor on its declaration as an error."""
    text = repr(one._replace(error_at=None, recorded_at=0))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:7], "big")
