"""Where events come from: stays, errors of undone scans, passages, carriers and other corrections.

Each source returns events by primary key, so a page examines a bounded number of rows. All but the stays are tables
that are read in the same way, see `Table`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

from edge import clock
from edge.database.connection import are_people_hidden, execute, reading
from edge.doors.passage_rule import Direction
from edge.epcis import changes
from edge.tracking import history_engine, stays
from edge.tracking.shown_positions import is_asset_shown

MOST_EXAMINED = 2_000  # rows, or tracks without rows
LONGEST_PERIOD = 7 * clock.DAY  # that is looked up in PostgreSQL by time
MOST_OF_PERIOD = 10_000  # stays of such a period
_EVER = 1 << 61
_MILLISECOND = 1_000


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
Rows = list[tuple[Key, list[Found]]]
_StayKey = tuple[int, int, int]  # track, begin, number
_Track = tuple[int, int, int, bool]  # number, organization, asset, is a person
_SELECT_TRACKS = "SELECT no, organization_id, asset_id, is_person FROM track WHERE"


def found_at(organization_id: int, asset_id: int, moments: Sequence[int]) -> list[Found]:
    """Return the events of an asset in these milliseconds, given in µs.

    Moments that changed since and are not in the log yet are left out, since a later message has them. So an event that
    goes before it is logged was never sent.
    """
    with reading():
        noted = changes.waiting_at(asset_id)
        shown = [at for at in moments if at not in noted]
        with _lending_at(lambda: ((asset_id, at) for at in shown)):
            found = [one for at in shown for one in _found_at(organization_id, asset_id, at)]
    return list(dict.fromkeys(found))


def _found_at(organization_id: int, asset_id: int, at: int) -> Iterator[Found]:
    until = at + _MILLISECOND - 1
    asked = Query(assets={asset_id}, since=at, until=until + 1)
    shown = _shown_tracks(organization_id, _next_tracks(asked, -1))
    rows = _rows_of_tracks(shown, asked, (-1, -_EVER, -1))
    for table in _TABLES:
        stored = execute(f"{table.select} AND {table.at}", {"asset": asset_id, "at": at, "until": until})
        rows += table.rows(organization_id, stored)
    yield from (one for _, group in rows for one in group if at <= one.at <= until)


def next_rows(source: int, organization_id: int, query: Query, key: Key) -> tuple[Rows, int, Key]:
    """Return the next rows of a source with their keys, their cost, and the key to go on from, empty at the end."""
    if source == 0:
        return _next_stays(organization_id, query, key)
    return _TABLES[source - 1].next_rows(organization_id, query, key)


def is_place(source: int, key: Key) -> bool:
    """Return True if the key can be one of `next_rows`."""
    lengths = (3, *(len(table.key) + table.has_parts for table in _TABLES))
    return 0 <= source < COUNT and len(key) in (0, lengths[source])


def is_in(allowed: Collection[Any] | None, value: object) -> bool:
    return allowed is None or value in allowed


def _assets_of(query: Query) -> list[int] | None:
    """Return the assets that events can be about, None for all."""
    chosen = [set(one) for one in (query.assets, query.any_assets) if one is not None]
    return sorted(set.intersection(*chosen)) if chosen else None


def _lending_at(moments: Callable[[], Iterable[tuple[int, int]]]) -> AbstractContextManager[None]:
    """Lend the stays that began in the milliseconds of these moments (asset, time in µs), if PostgreSQL has them.

    They say whether an event that was undone or withdrawn is there again.
    """

    def stored() -> Sequence[tuple[Any, ...]]:
        chosen = {(asset_id, at // _MILLISECOND * _MILLISECOND) for asset_id, at in moments()}
        tracks = {asset_id: stays.tracks_of(asset_id) for asset_id, _ in chosen}
        return history_engine.lent_rows.within(
            [(track, at, at + _MILLISECOND - 1) for asset_id, at in chosen for track in tracks[asset_id]]
        )

    return history_engine.lending(stored)


# Stays ------------------------------------------------------------------------------------------------------------


def _next_stays(organization_id: int, query: Query, key: Key) -> tuple[Rows, int, Key]:
    if not is_in(query.types, "ObjectEvent") or query.has_error is True or query.parents is not None:
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


def _rows_of_tracks(shown: Mapping[int, int], query: Query, start: _StayKey) -> Rows:
    """Return the next stays of these tracks (with their assets). With PostgreSQL, of the rows that are lent."""
    rows: Rows = []
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


# Tables -----------------------------------------------------------------------------------------------------------


class Table(NamedTuple):
    """A table with events, by its primary key. With parts, a row can have several events.

    `type` and `is_error` are None if it has events of both kinds. `columns` follow the key as arguments of `events`,
    which returns events with their parts. `tables` ends with a condition, and `at` is that for an event of `:asset`
    from `:at` to `:until`. `stays`: asset, time, and whether a stay of this moment decides if a row is an event.
    """

    type: str | None
    is_error: bool | None
    asset: str
    owner: str
    is_shown: str
    key: Sequence[str]
    columns: str
    tables: str
    at: str
    events: Callable[..., Iterable[tuple[int, Found]]]
    stays: str = ""
    has_parts: bool = False

    @property
    def select(self) -> str:
        return f"SELECT {self.owner}, {self.is_shown}, {', '.join(self.key)}, {self.columns} FROM {self.tables}"

    def rows(self, organization_id: int, stored: Iterable[tuple[Any, ...]]) -> Rows:
        """Return the events of stored rows by key. Several rows, such as scans, can have had the same event."""
        rows: dict[Key, dict[int | None, Found]] = {}
        for owner, is_shown, *values in stored:
            if owner == organization_id and is_shown:
                for part, one in self.events(*values):
                    key = (*values[: len(self.key)], *([part] if self.has_parts else []))
                    rows.setdefault(key, {}).setdefault(one.location_id, one)
        return [(key, list(group.values())) for key, group in rows.items()]

    def next_rows(self, organization_id: int, query: Query, key: Key) -> tuple[Rows, int, Key]:
        """Return the next rows with their keys, see `next_rows` of the module. Those of one key are not divided."""
        has_carriers = self.type != "ObjectEvent"
        is_excluded = self.is_error is not None and query.has_error is not None and query.has_error != self.is_error
        if is_excluded or not (self.type is None or is_in(query.types, self.type)):
            return [], 0, ()
        if query.parents is not None and not has_carriers:
            return [], 0, ()
        length = len(self.key)
        page, values = self._page(None if has_carriers and query.any_assets is not None else _assets_of(query))
        values += [*(key or (-1, -_EVER))[:length], MOST_EXAMINED]
        with _lending_at(lambda: self._moments(page, values)) if self.stays else nullcontext():
            stored = execute(f"{self.select} AND {page}", values).fetchall()
        cost, following = len(stored), ()
        if cost == MOST_EXAMINED:
            last = stored[-1][2 : length + 2]
            if not self.has_parts and stored[0][2 : length + 2] != last:
                stored = [row for row in stored if row[2 : length + 2] != last]
                last = stored[-1][2 : length + 2]
            following = (*last[:-1], last[-1] + 1, 0) if self.has_parts else last
        return [row for row in self.rows(organization_id, stored) if row[0] > key], cost, following

    def _page(self, assets: list[int] | None) -> tuple[str, list[Any]]:
        """Return the condition, order and limit of the next rows, with the values for chosen assets."""
        columns, marks = ", ".join(self.key), ", ".join("?" * len(self.key))
        after = f"({columns}) {'>=' if self.has_parts else '>'} ({marks}) ORDER BY {columns} LIMIT ?"
        if assets is None:
            return after, []
        number = "+" if len(self.key) == 1 else ""  # by the index of the assets
        return f"{self.asset} IN (SELECT value FROM json_each(?)) AND {number}{after}", [json.dumps(assets)]

    def _moments(self, page: str, values: Sequence[Any]) -> Iterator[tuple[int, int]]:
        for asset_id, at, is_decided in execute(f"SELECT {self.stays} FROM {self.tables} AND {page}", values):
            if is_decided:
                yield asset_id, at


def _of_scan(asset_id: int, at: int, received_at: int, undone_at: int, place: int) -> Iterator[tuple[int, Found]]:
    yield 0, Found("ObjectEvent", at, received_at, asset_id, place, place, error_at=undone_at)


def _passed(one: Found, way: int, inside: int | None) -> Found:
    """Return the event of a passage inward or outward."""
    if way == Direction.IN:
        return one._replace(location_id=inside, step="arriving")
    return one._replace(step="departing")


def _of_passage(
    _no: int, door: int, asset_id: int, at: int, direction: int, decided_at: int, revision: int, inside: int | None
) -> Iterator[tuple[int, Found]]:
    """Return the event of a passage inward or outward, and the one that was reported before a later decision."""
    for way in (Direction.IN, Direction.OUT):
        one = _passed(Found("ObjectEvent", at, decided_at, asset_id, door_id=door), way, inside)
        if way == direction:
            yield way, one
        elif revision:
            yield way, one._replace(error_at=max(decided_at, at))


def _of_load(asset_id: int, loaded_at: int, carrier_id: int, unloaded_at: int | None) -> Iterator[tuple[int, Found]]:
    on = Found("AssociationEvent", loaded_at, loaded_at, asset_id, carrier_id=carrier_id, action="ADD")
    yield 1, on
    if unloaded_at is not None:
        yield 2, on._replace(at=unloaded_at, recorded_at=unloaded_at, action="DELETE")


def _of_correction(
    _no: int, asset_id: int, at: int, kind: int, place: int, recorded_at: int, declared_at: int, inside: int | None
) -> Iterator[tuple[int, Found]]:
    one = Found("ObjectEvent", at, recorded_at, asset_id, error_at=max(declared_at, at))
    if kind == _STAY:
        yield 0, one._replace(location_id=place, read_at=place)
    elif kind in _ACTIONS:
        yield 0, one._replace(type="AssociationEvent", carrier_id=place, action=_ACTIONS[kind])
    else:
        yield 0, _passed(one._replace(door_id=place), kind - 3, inside)


_STAY, _ACTIONS = 1, {2: "ADD", 3: "DELETE"}  # kinds of `epcis_withdrawn`
_IS_STAY = (
    "EXISTS (SELECT 1 FROM track t JOIN history h ON h.position_no = t.no AND h.observed_at BETWEEN "
    "{at} / 1000 * 1000 AND {at} / 1000 * 1000 + 999 JOIN source q ON q.no = h.source_no "
    "AND q.location_id = {place} WHERE t.asset_id = {asset})"
)
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
_TABLES = (
    Table(
        *("ObjectEvent", True, "s.asset_id", "s.organization_id"),
        "s.undone_at IS NOT NULL AND s.seq IS NOT NULL AND s.location_id IS NOT NULL "
        f"AND {is_asset_shown('s.asset_id')} "  # a stay that another scan confirms is no error
        f"AND NOT {_IS_STAY.format(asset='s.asset_id', at='s.observed_at', place='s.location_id')}",
        ("s.asset_id", "s.observed_at"),
        "s.received_at, s.undone_at, s.location_id",
        "handheld_scan s WHERE s.asset_id IS NOT NULL",
        "s.asset_id = :asset AND s.observed_at BETWEEN :at AND :until",
        _of_scan,
        stays="s.asset_id, s.observed_at, s.undone_at IS NOT NULL",
    ),
    Table(
        *("ObjectEvent", None, "asset_id", "p.organization_id", is_asset_shown("asset_id")),
        ("no",),
        "door_id, asset_id, at, direction, decided_at, revision, d.location_id",
        "passage p JOIN door d ON d.id = p.door_id WHERE true",
        "asset_id = :asset AND at BETWEEN :at AND :until",
        _of_passage,
        has_parts=True,
    ),
    Table(
        *("AssociationEvent", False, "l.asset_id", "a.organization_id"),
        f"{is_asset_shown('l.asset_id')} AND {is_asset_shown('l.carrier_id')}",
        ("l.asset_id", "l.loaded_at"),
        "l.carrier_id, l.unloaded_at",
        "carrier_load l JOIN asset a ON a.id = l.asset_id WHERE true",
        "l.asset_id = :asset AND (l.loaded_at BETWEEN :at AND :until OR l.unloaded_at BETWEEN :at AND :until)",
        _of_load,
        has_parts=True,
    ),
    Table(  # events that a correction took away while a webhook sent EPCIS
        *(None, True, "w.asset_id", "w.organization_id", f"{is_asset_shown('w.asset_id')} AND NOT {_IS_THERE}"),
        ("w.no",),
        "w.asset_id, w.at, w.kind, w.place_id, w.recorded_at, w.declared_at, "
        "(SELECT location_id FROM door WHERE id = w.place_id)",
        "epcis_withdrawn w WHERE true",
        "w.asset_id = :asset AND w.at = :at",
        _of_correction,
        stays="w.asset_id, w.at, w.kind = 1",
    ),
)
COUNT = 1 + len(_TABLES)
