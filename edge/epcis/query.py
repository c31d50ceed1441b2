"""Queries of events, page by page.

The events have no order over all assets: stays come track by track, then errors of undone scans, passages, carriers
and other corrections. So each page uses primary keys only and examines a bounded number of rows; a page with few
matches may be empty and have a next page.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from edge import clock
from edge.database.connection import are_people_hidden, execute, reading
from edge.doors.passage_rule import Direction
from edge.epcis import places
from edge.epcis.event_ids import event_id
from edge.epcis.lent_stays import lending_at
from edge.epcis.names import Names
from edge.tracking import history_engine
from edge.tracking.shown_positions import is_asset_shown

MOST_EXAMINED = 2_000  # rows, or tracks without rows
LONGEST_PERIOD = 7 * clock.DAY  # that is looked up in PostgreSQL by time
MOST_OF_PERIOD = 10_000  # stays of such a period
Event = dict[str, Any]
_EVER = 1 << 61
ERROR_REASON = "did_not_occur"


class Query(NamedTuple):
    """Filters. Empty collections are those that match nothing; None is no filter."""

    types: Collection[str] | None = None
    actions: Collection[str] | None = None
    since: int = -_EVER
    until: int = _EVER
    recorded_since: int = -_EVER
    recorded_until: int = _EVER
    declared_since: int = -_EVER
    declared_until: int = _EVER
    steps: Collection[str] | None = None
    dispositions: Collection[str] | None = None
    event_ids: Collection[str] | None = None
    has_error: bool | None = None
    places: Collection[int] | None = None  # bizLocation
    read_points: Collection[int] | None = None  # locations
    read_doors: Collection[int] | None = None
    assets: Collection[int] | None = None  # in epcList or childEPCs
    parents: Collection[int] | None = None
    any_assets: Collection[int] | None = None


class Found(NamedTuple):
    """An event before it is named. Times are in µs; `error_at` is None unless it is declared as wrong."""

    type: str
    at: int
    recorded_at: int
    asset_id: int
    location_id: int | None = None  # bizLocation
    read_at: int | None = None  # location of the read point
    door_id: int | None = None
    carrier_id: int | None = None
    action: str = "OBSERVE"
    step: str | None = None
    disposition: str | None = None
    error_at: int | None = None


Key = tuple[int, ...]
Place = tuple[int, Key]  # source, key of its last row
_Rows = list[tuple[Key, list[Found]]]
_StayKey = tuple[int, int, int]  # track, begin, number
_Track = tuple[int, int, int, bool]  # number, organization, asset, is a person
_SELECT_TRACKS = "SELECT no, organization_id, asset_id, is_person FROM track WHERE"


def page(
    organization_id: int, query: Query, names: Names, zone: ZoneInfo, place: Place | None, limit: int
) -> tuple[list[Event], Place | None]:
    """Return the next events, and the place from which to go on; None at the end. Raises HistoryUnavailable."""
    source, key = place or (0, ())
    events: list[Event] = []
    examined = 0
    with reading():
        known_places = places.all_of(organization_id)
        while source < len(_SOURCES):
            rows, cost, key_after = _SOURCES[source](organization_id, query, key)
            with_places = [(at, [_with_places(known_places, one) for one in group]) for at, group in rows]
            chosen = [(at, [one for one in group if _matches(query, one)]) for at, group in with_places]
            names.load(*_records(one for _, group in chosen for one in group))
            for at, group in chosen:
                made = [_named(one, names, zone) for one in group]
                events += [event for event in made if query.event_ids is None or event["eventID"] in query.event_ids]
                if len(events) >= limit:
                    return _shown(events, names), (source, at)
            examined += cost
            source, key = (source, key_after) if key_after else (source + 1, ())
            if examined >= MOST_EXAMINED and source < len(_SOURCES):
                return _shown(events, names), (source, key)
    return _shown(events, names), None


def walk(organization_id: int, query: Query) -> Iterator[tuple[list[Found], int]]:
    """Yield all events that match, part by part with the number of rows that were examined, without `event_ids`."""
    known_places = places.all_of(organization_id)
    for source in _SOURCES:
        key: Key = ()
        while True:
            rows, cost, key = source(organization_id, query, key)
            found = [_with_places(known_places, one) for _, group in rows for one in group]
            yield [one for one in found if _matches(query, one)], cost
            if not key:
                break


def of_events(organization_id: int, found: Sequence[Found], names: Names, zone: ZoneInfo) -> list[Event]:
    """Return events in the form of `page`."""
    known_places = places.all_of(organization_id)
    chosen = [_with_places(known_places, one) for one in found]
    names.load(*_records(iter(chosen)))
    return [_named(one, names, zone) for one in chosen]


def _with_places(known_places: Mapping[tuple[places.Kind, int], places.Place], one: Found) -> Found:
    """Return the event with the words of its place."""
    if not known_places or one.carrier_id is not None:
        return one
    key: tuple[places.Kind, int] = ("location", one.read_at or 0) if one.door_id is None else ("door", one.door_id)
    place = known_places.get(key)
    return one._replace(step=place.biz_step or one.step, disposition=place.disposition) if place else one


def _records(events: Iterator[Found]) -> tuple[set[int], set[int]]:
    rows = list(events)
    assets = {one.asset_id for one in rows} | {one.carrier_id for one in rows if one.carrier_id is not None}
    places = {at for one in rows for at in (one.location_id, one.read_at) if at is not None}
    return assets, places


def _matches(query: Query, one: Found) -> bool:
    is_read_there = query.read_points is None and query.read_doors is None
    is_read_there |= one.read_at is not None and one.read_at in (query.read_points or ())
    is_read_there |= one.door_id is not None and one.door_id in (query.read_doors or ())
    return (
        is_read_there
        and query.since <= one.at < query.until
        and query.recorded_since <= one.recorded_at < query.recorded_until
        and (one.error_at is None or query.declared_since <= one.error_at < query.declared_until)
        and _is_in(query.types, one.type)
        and _is_in(query.actions, one.action)
        and _is_in(query.steps, one.step)
        and _is_in(query.dispositions, one.disposition)
        and _is_in(query.places, one.location_id)
        and _is_in(query.assets, one.asset_id)
        and _is_in(query.parents, one.carrier_id)
        and (query.any_assets is None or not {one.asset_id, one.carrier_id}.isdisjoint(query.any_assets))
        and (query.has_error is None or query.has_error == (one.error_at is not None))
    )


def _is_in(allowed: Collection[Any] | None, value: object) -> bool:
    return allowed is None or value in allowed


def _named(one: Found, names: Names, zone: ZoneInfo) -> Event:
    event: Event = {
        "type": one.type,
        "eventTime": clock.rfc3339(one.at),
        "eventTimeZoneOffset": _offset(one.at, zone),
        "recordTime": clock.rfc3339(one.recorded_at),
    }
    if one.carrier_id is None:
        event["epcList"] = [names.asset(one.asset_id)]
    else:
        event |= {"parentID": names.asset(one.carrier_id), "childEPCs": [names.asset(one.asset_id)]}
    event["action"] = one.action
    if one.step:
        event["bizStep"] = one.step
    if one.disposition:
        event["disposition"] = one.disposition
    if one.door_id is not None:
        event["readPoint"] = {"id": names.door(one.door_id)}
    elif one.read_at is not None:
        event["readPoint"] = {"id": names.location(one.read_at)}
    if one.location_id is not None:
        event["bizLocation"] = {"id": names.location(one.location_id)}
    event["eventID"] = event_id(event)
    if one.error_at is not None:
        event["errorDeclaration"] = {"declarationTime": clock.rfc3339(one.error_at), "reason": ERROR_REASON}
    return event


def _shown(events: list[Event], names: Names) -> list[Event]:
    """Show the names in the form that the client prefers; the ids are of Digital Links in any case."""
    if names.as_urn:
        for event in events:
            for field in ("epcList", "childEPCs"):
                if field in event:
                    event[field] = [names.shown(name) for name in event[field]]
            if "parentID" in event:
                event["parentID"] = names.shown(event["parentID"])
    return events


def _offset(at: int, zone: ZoneInfo) -> str:
    offset = clock.to_datetime(at).astimezone(zone).utcoffset()
    minutes = round(offset.total_seconds() / 60) if offset else 0
    return f"{'-' if minutes < 0 else '+'}{abs(minutes) // 60:02}:{abs(minutes) % 60:02}"


# Sources: each returns rows with their keys, their cost, and the key to go on from, empty at the end. -------------


def _assets_of(query: Query) -> list[int] | None:
    """Return the assets that events can be about, None for all."""
    chosen = [set(one) for one in (query.assets, query.any_assets) if one is not None]
    return sorted(set.intersection(*chosen)) if chosen else None


def _one_of(query: Query, column: str) -> tuple[str, tuple[str, ...]]:
    """Return a condition for the chosen assets, with its value; both empty for all assets."""
    assets = _assets_of(query)
    if assets is None:
        return "", ()
    return f"{column} IN (SELECT value FROM json_each(?)) AND", (json.dumps(assets),)


def _stays(organization_id: int, query: Query, key: Key) -> tuple[_Rows, int, Key]:
    if not _is_in(query.types, "ObjectEvent") or query.has_error is True or query.parents is not None:
        return [], 0, ()
    track, at, seq = key or (-1, -_EVER, -1)
    start = (track, at, seq)
    in_period = _rows_of_period(query, start)
    if in_period is None:
        tracks = _next_tracks(query, start[0])
        following: Key = (tracks[-1][0] + 1, -_EVER, -1) if len(tracks) == MOST_EXAMINED else ()
    else:
        tracks = _tracks_numbered({row[0] for row in in_period})
        following = in_period[-1][:3] if len(in_period) == MOST_EXAMINED else ()
    shown = _shown_tracks(organization_id, tracks)

    def stored() -> Sequence[tuple[Any, ...]]:
        if in_period is not None:
            return in_period
        return history_engine.lent_rows.of_tracks(list(shown), start, MOST_EXAMINED, query.since, query.until)

    with history_engine.lending(stored):
        rows = _rows_of_tracks(shown, query, start)
    if len(rows) >= MOST_EXAMINED:
        following = rows[-1][0]
    return rows, len(rows) + len(tracks), following


def _shown_tracks(organization_id: int, tracks: Sequence[_Track]) -> dict[int, int]:
    """Return the assets of those of these tracks that may be shown, by track."""
    return {
        no: asset_id
        for no, owner, asset_id, is_person in tracks
        if owner == organization_id and not (is_person and are_people_hidden())
    }


def _next_tracks(query: Query, number: int) -> list[_Track]:
    """Return the next tracks from a number on."""
    assets = _assets_of(query)
    if assets is None:
        return execute(f"{_SELECT_TRACKS} no >= ? ORDER BY no LIMIT ?", (number, MOST_EXAMINED)).fetchall()
    return execute(
        f"{_SELECT_TRACKS} asset_id IN (SELECT value FROM json_each(?)) AND no >= ? ORDER BY no LIMIT ?",
        (json.dumps(assets), number, MOST_EXAMINED),
    ).fetchall()


def _tracks_numbered(numbers: Collection[int]) -> list[_Track]:
    sql = f"{_SELECT_TRACKS} no IN (SELECT value FROM json_each(?)) ORDER BY no"
    return execute(sql, (json.dumps(list(numbers)),)).fetchall()


def _rows_of_period(query: Query, after: _StayKey) -> list[tuple[Any, ...]] | None:
    """Return the next rows by key of a short period with few stays, from PostgreSQL, which has an index for that.

    Otherwise return None: then all tracks are examined one after the other.
    """
    if not history_engine.is_remote() or _assets_of(query) is not None:
        return None
    if min(query.until, clock.now() + clock.DAY) - query.since > LONGEST_PERIOD:
        return None
    rows = history_engine.lent_rows.of_short_period(query.since, query.until, MOST_OF_PERIOD)
    return None if rows is None else sorted(row for row in rows if row[:3] > after)[:MOST_EXAMINED]


def _rows_of_tracks(shown: Mapping[int, int], query: Query, start: _StayKey) -> _Rows:
    """Return the next stays of these tracks (with their assets). With PostgreSQL, of the rows that are lent."""
    rows: _Rows = []
    for no, asset_id in shown.items():
        after = start[1:] if no == start[0] else (-_EVER, -1)
        stored = execute(
            "SELECT h.observed_at, h.seq, h.delay, s.location_id FROM history h JOIN source s ON s.no = h.source_no "
            "WHERE h.position_no = ? AND (h.observed_at, h.seq) > (?, ?) AND h.observed_at >= ? AND h.observed_at < ? "
            "ORDER BY h.observed_at, h.seq LIMIT ?",
            (no, *after, query.since, query.until, MOST_EXAMINED - len(rows)),
        ).fetchall()
        rows += [
            ((no, began, number), [Found("ObjectEvent", began, began + delay, asset_id, place, place)])
            for began, number, delay, place in stored
        ]
        if len(rows) >= MOST_EXAMINED:
            break
    return rows


def stays_at(organization_id: int, asset_id: int, since: int, until: int) -> list[Found]:
    """Return the stays of an asset that began from `since` and before `until`. With PostgreSQL, those that are lent."""
    asked = Query(assets={asset_id}, since=since, until=until)
    shown = _shown_tracks(organization_id, _next_tracks(asked, -1))
    return [one for _, group in _rows_of_tracks(shown, asked, (-1, -_EVER, -1)) for one in group]


def _undone_scans(organization_id: int, query: Query, key: Key) -> tuple[_Rows, int, Key]:
    """Return the events that undone scans had. A stay that another scan confirms is no error."""
    if not _is_in(query.types, "ObjectEvent") or query.has_error is False or query.parents is not None:
        return [], 0, ()
    one_of, asset_ids = _one_of(query, "s.asset_id")
    page = f"{one_of} (s.asset_id, s.observed_at) > (?, ?) ORDER BY s.asset_id, s.observed_at LIMIT ?"
    values = (*asset_ids, *(key or (-1, -_EVER)), MOST_EXAMINED)
    with lending_at(lambda: (row[:2] for row in execute(f"{_MOMENTS_OF_SCANS} {page}", values) if row[2])):
        stored = execute(f"{SELECT_UNDONE} {page}", values).fetchall()
    is_full = len(stored) == MOST_EXAMINED
    if is_full and stored[0][:2] != stored[-1][:2]:  # scans of one moment are not divided
        stored = [row for row in stored if row[:2] != stored[-1][:2]]
    rows = undone_rows(organization_id, stored)
    return rows, len(stored), (stored[-1][0], stored[-1][1]) if is_full else ()


_IS_STAY = (
    "EXISTS (SELECT 1 FROM track t JOIN history h ON h.position_no = t.no AND h.observed_at BETWEEN "
    "{at} / 1000 * 1000 AND {at} / 1000 * 1000 + 999 JOIN source q ON q.no = h.source_no "
    "AND q.location_id = {place} WHERE t.asset_id = {asset})"
)
SELECT_UNDONE = (
    "SELECT s.asset_id, s.observed_at, s.received_at, s.undone_at, s.location_id, s.organization_id, "
    "s.undone_at IS NOT NULL AND s.seq IS NOT NULL AND s.location_id IS NOT NULL "
    f"AND {is_asset_shown('s.asset_id')} "
    f"AND NOT {_IS_STAY.format(asset='s.asset_id', at='s.observed_at', place='s.location_id')} "
    "FROM handheld_scan s WHERE s.asset_id IS NOT NULL AND"
)


_MOMENTS_OF_SCANS = (
    "SELECT s.asset_id, s.observed_at, s.undone_at IS NOT NULL FROM handheld_scan s WHERE s.asset_id IS NOT NULL AND"
)


def undone_rows(organization_id: int, stored: Sequence[Any]) -> _Rows:
    """Return the events of undone scans, by asset and time. Several scans can have had the same event."""
    rows: dict[Key, dict[int, Found]] = {}
    for asset_id, at, received_at, undone_at, place, owner, is_error in stored:
        if is_error and owner == organization_id:
            one = Found("ObjectEvent", at, received_at, asset_id, place, place, error_at=undone_at)
            rows.setdefault((asset_id, at), {}).setdefault(place, one)
    return [(key, list(group.values())) for key, group in rows.items()]


def _passages(organization_id: int, query: Query, key: Key) -> tuple[_Rows, int, Key]:
    """Return the events of passages inward and outward, with those that were reported before a later decision."""
    if not _is_in(query.types, "ObjectEvent") or query.parents is not None:
        return [], 0, ()
    after = key or (0, 0)
    one_of, asset_ids = _one_of(query, "asset_id")
    number = "+no" if one_of else "no"  # by the index of the assets, if some are chosen
    stored = execute(
        f"{SELECT_PASSAGES} WHERE {one_of} {number} >= ? ORDER BY no LIMIT ?", (*asset_ids, after[0], MOST_EXAMINED)
    ).fetchall()
    rows = passage_rows(organization_id, stored)
    last = (stored[-1][0] + 1, 0) if len(stored) == MOST_EXAMINED else ()
    return [row for row in rows if row[0] > after], len(stored), last


SELECT_PASSAGES = (
    "SELECT no, p.organization_id, door_id, asset_id, at, direction, decided_at, revision, d.location_id, "
    f"{is_asset_shown('asset_id')} FROM passage p JOIN door d ON d.id = p.door_id"
)


def passage_rows(organization_id: int, stored: Sequence[Any]) -> _Rows:
    rows: _Rows = []
    for no, owner, door_id, asset_id, at, direction, decided_at, revision, inside, is_visible in stored:
        if owner != organization_id or not is_visible:
            continue
        passed = Found("ObjectEvent", at, decided_at, asset_id, door_id=door_id)
        variants = {
            Direction.IN: passed._replace(location_id=inside, step="arriving"),
            Direction.OUT: passed._replace(step="departing"),
        }
        for way, one in variants.items():
            if way == direction:
                rows.append(((no, way), [one]))
            elif revision:
                rows.append(((no, way), [one._replace(error_at=max(decided_at, at))]))
    return rows


def _loads(organization_id: int, query: Query, key: Key) -> tuple[_Rows, int, Key]:
    if not _is_in(query.types, "AssociationEvent") or query.has_error is True:
        return [], 0, ()
    after = key or (-1, -_EVER, 0)
    one_of, asset_ids = _one_of(query, "l.asset_id") if query.any_assets is None else ("", ())
    stored = execute(
        f"{SELECT_LOADS} WHERE {one_of} (l.asset_id, l.loaded_at) >= (?, ?) ORDER BY l.asset_id, l.loaded_at LIMIT ?",
        (*asset_ids, *after[:2], MOST_EXAMINED),
    ).fetchall()
    rows = load_rows(organization_id, stored)
    last = (stored[-1][0], stored[-1][1] + 1, 0) if len(stored) == MOST_EXAMINED else ()
    return [row for row in rows if row[0] > after], len(stored), last


SELECT_LOADS = (
    "SELECT l.asset_id, l.loaded_at, l.carrier_id, l.unloaded_at, a.organization_id, "
    f"{is_asset_shown('l.asset_id')} AND {is_asset_shown('l.carrier_id')} FROM carrier_load l "
    "JOIN asset a ON a.id = l.asset_id"
)


def load_rows(organization_id: int, stored: Sequence[Any]) -> _Rows:
    rows: _Rows = []
    for asset_id, loaded_at, carrier_id, unloaded_at, owner, is_visible in stored:
        if owner != organization_id or not is_visible:
            continue
        on = Found("AssociationEvent", loaded_at, loaded_at, asset_id, carrier_id=carrier_id, action="ADD")
        rows.append(((asset_id, loaded_at, 1), [on]))
        if unloaded_at is not None:
            off = on._replace(at=unloaded_at, recorded_at=unloaded_at, action="DELETE")
            rows.append(((asset_id, loaded_at, 2), [off]))
    return rows


def _withdrawn(organization_id: int, query: Query, key: Key) -> tuple[_Rows, int, Key]:
    """Return the events that a correction took away while a webhook sent EPCIS."""
    if query.has_error is False:
        return [], 0, ()
    one_of, asset_ids = _one_of(query, "w.asset_id") if query.any_assets is None else ("", ())
    number = "+w.no" if one_of else "w.no"
    page = f"{one_of} {number} > ? ORDER BY w.no LIMIT ?"
    values = (*asset_ids, *(key or (0,)), MOST_EXAMINED)
    moments = f"SELECT w.asset_id, w.at, w.kind FROM epcis_withdrawn w WHERE {page}"
    with lending_at(lambda: (row[:2] for row in execute(moments, values) if row[2] == 1)):  # stays
        stored = execute(f"{SELECT_WITHDRAWN} WHERE {page}", values).fetchall()
    rows = withdrawn_rows(organization_id, stored)
    return rows, len(stored), (stored[-1][0],) if len(stored) == MOST_EXAMINED else ()


# Not while the same event is there, or is declared as an error of an undone scan.
_IS_THERE = f"""CASE w.kind
    WHEN 1 THEN {_IS_STAY.format(asset="w.asset_id", at="w.at", place="w.place_id")} OR EXISTS (
        SELECT 1 FROM handheld_scan s WHERE s.asset_id = w.asset_id AND s.observed_at BETWEEN w.at AND w.at + 999
        AND s.location_id = w.place_id AND s.undone_at IS NOT NULL AND s.seq IS NOT NULL)
    WHEN 2 THEN EXISTS (SELECT 1 FROM carrier_load l WHERE l.asset_id = w.asset_id AND l.carrier_id = w.place_id
        AND l.loaded_at BETWEEN w.at AND w.at + 999)
    WHEN 3 THEN EXISTS (SELECT 1 FROM carrier_load l WHERE l.asset_id = w.asset_id AND l.carrier_id = w.place_id
        AND l.unloaded_at BETWEEN w.at AND w.at + 999)
    ELSE EXISTS (SELECT 1 FROM passage p WHERE p.asset_id = w.asset_id AND p.door_id = w.place_id
        AND p.at BETWEEN w.at AND w.at + 999 AND (p.direction = w.kind - 3 OR p.revision > 0)) END"""
SELECT_WITHDRAWN = (
    "SELECT w.no, w.organization_id, w.asset_id, w.at, w.kind, w.place_id, w.recorded_at, w.declared_at, "
    f"(SELECT location_id FROM door WHERE id = w.place_id), {is_asset_shown('w.asset_id')} AND NOT {_IS_THERE} "
    "FROM epcis_withdrawn w"
)


def withdrawn_rows(organization_id: int, stored: Sequence[Any]) -> _Rows:
    rows: _Rows = []
    for no, owner, asset_id, at, kind, place, recorded_at, declared_at, inside, is_visible in stored:
        if owner != organization_id or not is_visible:
            continue
        one = Found("ObjectEvent", at, recorded_at, asset_id, error_at=max(declared_at, at))
        carried = one._replace(type="AssociationEvent", carrier_id=place)
        made = {
            1: one._replace(location_id=place, read_at=place),
            2: carried._replace(action="ADD"),
            3: carried._replace(action="DELETE"),
            4: one._replace(door_id=place, location_id=inside, step="arriving"),
            5: one._replace(door_id=place, step="departing"),
        }[kind]
        rows.append(((no,), [made]))
    return rows


_SOURCES = (_stays, _undone_scans, _passages, _loads, _withdrawn)
_LENGTHS = ((0, 3), (0, 2), (0, 2), (0, 3), (0, 1))


def is_place(place: Place) -> bool:
    """Return True if the place can be one of `page`."""
    source, key = place
    return 0 <= source < len(_SOURCES) and len(key) in _LENGTHS[source]
