"""Queries of events: page by page, in order of their time, and their number.

Without an order, stays come track by track, then errors of undone scans, passages, carriers and other corrections. So
each page examines a bounded number of rows; a page with few matches may be empty and have a next page. In order, and
for their number, all events that match are examined, within bounds.
"""

from __future__ import annotations

import hashlib
import heapq
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple
from zoneinfo import ZoneInfo

from edge.database.connection import reading
from edge.epcis import documents, places, sources
from edge.epcis.documents import Event
from edge.epcis.names import Names
from edge.epcis.sources import Found, Query, is_in
from edge.errors import EdgeError

MOST_IN_ORDER = 50_000  # rows
IN_ORDER = 99  # source of a place in order, whose key is that of its last event and how many there were so far
Place = tuple[int, sources.Key]  # source, key of its last row
OrderKey = tuple[int, int]  # time, digest: the same for the same event, so pages follow each other


class TooLarge(EdgeError):
    """More events match than the client accepts."""


class TooComplex(EdgeError):
    """Too many rows would have to be examined."""


class Order(NamedTuple):
    """`limit`: number of events of all pages, None for all."""

    by_record_time: bool
    is_descending: bool
    limit: int | None

    def key(self, one: Found) -> OrderKey:
        at = one.recorded_at if self.by_record_time else one.at
        return (-at if self.is_descending else at), _digest(one)


def page(
    organization_id: int, query: Query, names: Names, zone: ZoneInfo, place: Place | None, limit: int
) -> tuple[list[Event], Place | None]:
    """Return the next events, and the place from which to go on; None at the end. Raises HistoryUnavailable."""
    chosen: list[Found] = []
    examined = 0
    with reading():
        for rows, cost, following in _walk(organization_id, query, names, zone, place or (0, ())):
            for at, group in rows:
                chosen += group
                if len(chosen) >= limit:
                    return of_events(organization_id, chosen, names, zone), at
            examined += cost
            if examined >= sources.MOST_EXAMINED:
                return of_events(organization_id, chosen, names, zone), following
        return of_events(organization_id, chosen, names, zone), None


def check_count(organization_id: int, query: Query, names: Names, zone: ZoneInfo, most: int) -> None:
    """Raise TooLarge if more than `most` events match, and TooComplex if that takes too long to find."""
    with reading():
        for number, _ in enumerate(_all(organization_id, query, names, zone), start=1):
            if number > most:
                raise TooLarge(f"More than {most} events match. Use more filters, or pages without maxEventCount")


def page_in_order(
    organization_id: int, query: Query, order: Order, names: Names, zone: ZoneInfo, place: Place | None, limit: int
) -> tuple[list[Event], Place | None]:
    """Return the next events in order, and the place from which to go on; None at the end. Raises TooComplex."""
    *after, sent = place[1] if place else (0,)
    count = limit if order.limit is None else min(limit, order.limit - sent)
    if count <= 0:
        return [], None
    with reading():
        matching = _all(organization_id, query, names, zone)
        following = (one for one in matching if place is None or order.key(one) > tuple(after))
        first = heapq.nsmallest(count + 1, following, key=order.key)
        chosen = first[:count]
        events = of_events(organization_id, chosen, names, zone)
    is_last = len(first) <= count or (order.limit is not None and sent + count >= order.limit)
    return events, None if is_last else (IN_ORDER, (*order.key(chosen[-1]), sent + count))


def is_place(place: Place, *, is_in_order: bool) -> bool:
    """Return True if the place can be one of `page_in_order`, or otherwise of `page`."""
    source, key = place
    if is_in_order:
        return source == IN_ORDER and len(key) == 3 and key[2] >= 0
    return sources.is_place(source, key)


def of_events(organization_id: int, found: Sequence[Found], names: Names, zone: ZoneInfo) -> list[Event]:
    """Return events as documents have them."""
    known_places = places.all_of(organization_id)
    return documents.events([_with_places(known_places, one) for one in found], names, zone)


def _all(organization_id: int, query: Query, names: Names, zone: ZoneInfo) -> Iterator[Found]:
    examined = 0
    for rows, cost, _ in _walk(organization_id, query, names, zone, (0, ())):
        examined += cost
        yield from (one for _, group in rows for one in group)
        if examined > MOST_IN_ORDER:
            raise TooComplex(
                f"More than {MOST_IN_ORDER} rows would have to be examined. Use MATCH_epc, or pages without orderBy "
                "and maxEventCount"
            )


def _walk(
    organization_id: int, query: Query, names: Names, zone: ZoneInfo, place: Place
) -> Iterator[tuple[list[tuple[Place, list[Found]]], int, Place | None]]:
    """Yield all events that match, part by part with the number of rows that were examined, and the next place."""
    known_places = places.all_of(organization_id)
    source, key = place
    while source < sources.COUNT:
        rows, cost, key = sources.next_rows(source, organization_id, query, key)
        found = [((source, at), [_with_places(known_places, one) for one in group]) for at, group in rows]
        chosen = [(at, [one for one in group if _matches(query, one)]) for at, group in found]
        if query.event_ids is not None:
            chosen = [(at, _with_ids(query.event_ids, group, names, zone)) for at, group in chosen]
        source += not key
        yield chosen, cost, (source, key) if source < sources.COUNT else None


def _with_ids(ids: Collection[str], found: Sequence[Found], names: Names, zone: ZoneInfo) -> list[Found]:
    made = documents.events(found, names, zone)
    return [one for one, event in zip(found, made, strict=True) if event["eventID"] in ids]


def _with_places(known_places: Mapping[tuple[places.Kind, int], places.Place], one: Found) -> Found:
    """Return the event with the words of its place."""
    if not known_places or one.carrier_id is not None:
        return one
    key: tuple[places.Kind, int] = ("location", one.read_at or 0) if one.door_id is None else ("door", one.door_id)
    place = known_places.get(key)
    return one._replace(step=place.biz_step or one.step, disposition=place.disposition) if place else one


def _matches(query: Query, one: Found) -> bool:
    is_read_there = query.read_points is None and query.read_doors is None
    is_read_there |= one.read_at is not None and one.read_at in (query.read_points or ())
    is_read_there |= one.door_id is not None and one.door_id in (query.read_doors or ())
    return (
        is_read_there
        and query.since <= one.at < query.until
        and query.recorded_since <= one.recorded_at < query.recorded_until
        and (one.error_at is None or query.declared_since <= one.error_at < query.declared_until)
        and is_in(query.types, one.type)
        and is_in(query.actions, one.action)
        and is_in(query.steps, one.step)
        and is_in(query.dispositions, one.disposition)
        and is_in(query.places, one.location_id)
        and is_in(query.assets, one.asset_id)
        and is_in(query.parents, one.carrier_id)
        and (query.any_assets is None or not {one.asset_id, one.carrier_id}.isdisjoint(query.any_assets))
        and (query.has_error is None or query.has_error == (one.error_at is not None))
    )


def _digest(one: Found) -> int:
    """Return a number that does not depend on how the event was found, nor on its declaration as an error."""
    text = repr(one._replace(error_at=None, recorded_at=0))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:7], "big")
