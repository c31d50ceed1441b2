"""Pages of the feed: a first copy in the order of keys, then the changes since its begin.

Each page is read in one snapshot of the database. Its last line is the cursor, so a page that was cut off has none and
is fetched again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from edge.database import change_log
from edge.database.change_log import Change, Kind
from edge.database.connection import column, execute, reading
from edge.feed import cursors, rows
from edge.feed.cursors import Cursor, Place, Reader
from edge.feed.rows import Line, Scope
from edge.sync.store import outgoing
from edge.tracking import tracked_people

MOST_CHANGES = 1_000
MOST_ROWS = 2_000  # of stays, in one page
TRACKS_AT_ONCE = 20  # that are sent again, in one query of PostgreSQL
MOST_METADATA = 4 << 20  # bytes of metadata and tags; at least one record
TABLES = ("site", "location", "door", "asset", "stay", "passage")  # in the order of the copy
_RECORDS = {Kind.ASSET: "asset", Kind.LOCATION: "location"}
_KEYS = {"site": "no", "location": "id", "door": "id", "asset": "id", "passage": "no"}
_BEGIN = (0, -(1 << 62), -1)
_FIRST = Place(0, _BEGIN)
_INSIDE_TRACK = 9  # in place of a table: after the copy, inside a track that is sent again


class Page(NamedTuple):
    """`has_more`: the next page is not empty."""

    lines: Sequence[Line]
    cursor: Cursor
    has_more: bool


def first_page(organization_id: int, api_key_id: str, site_no: int | None) -> Page:
    """Begin a copy. The first line tells the reader to delete its rows."""
    reader, cursor = cursors.begin(organization_id, api_key_id, site_no)
    page = _copied(reader, cursor._replace(place=_FIRST))
    return page._replace(lines=[{"op": "reset"}, *page.lines])


def next_page(organization_id: int, cursor: Cursor) -> Page:
    """Return the page after a cursor. Raises cursors.Gone, or HistoryUnavailable while the stays cannot be read."""
    reader = cursors.resume(organization_id, cursor)
    if cursor.place is None:
        return _changed(reader, cursor)
    if cursor.place.table == _INSIDE_TRACK:
        return _continued(reader, cursor, cursor.place)
    return _copied(reader, cursor)


def _scope(reader: Reader) -> Scope:
    hides_people = tracked_people.setting(reader.organization_id).is_hidden_in_api
    return Scope(reader.organization_id, reader.site_no, hides_people=hides_people)


# The first copy ---------------------------------------------------------------------------------------------------


def _copied(reader: Reader, cursor: Cursor) -> Page:
    """Return the next rows by key. Changes made meanwhile follow, because the changes begin before the copy."""
    place = cursor.place or _FIRST
    if place.table >= len(TABLES):
        return Page([], cursor._replace(place=None), True)
    with reading():
        scope, table = _scope(reader), TABLES[place.table]
        if table == "stay":
            lines, key = _copied_stays(scope, place.key)
        else:
            lines, last = _copied_rows(scope, table, place.key[0])
            key = None if last is None else (last, *_BEGIN[1:])
    following = Place(place.table + 1, _BEGIN) if key is None else Place(place.table, key)
    is_last = following.table == len(TABLES)
    return Page(lines, cursor._replace(place=None if is_last else following), True)


def _copied_rows(scope: Scope, table: str, after: int) -> tuple[list[Line], int | None]:
    """Return the next rows of a table and their last key, None at the end.

    The limit is for the rows of all organizations: a page takes about the same time for each.
    """
    name = _KEYS[table]
    stored = execute(
        f"SELECT {name}, organization_id FROM {table} WHERE {name} > ? ORDER BY {name} LIMIT ?", (after, MOST_CHANGES)
    ).fetchall()
    ids = [key for key, organization_id in stored if organization_id == scope.organization_id]
    last = stored[-1][0] if len(stored) == MOST_CHANGES else None
    if table in _RECORDS.values() and ids:
        fitting = outgoing.count_fitting(scope.organization_id, ids, MOST_METADATA, table)
        if fitting < len(ids):
            ids = ids[:fitting]
            last = ids[-1]
    if table in _RECORDS.values():
        return rows.records(scope, table, ids), last
    if table == "passage":
        return [line for line in rows.passages(scope, dict.fromkeys(ids)) if line["op"] == "put"], last
    return rows.of_sites(scope, table, ids), last


def _copied_stays(scope: Scope, key: tuple[int, int, int]) -> tuple[list[Line], tuple[int, int, int] | None]:
    """Return the next stays, track by track, and the last key; None at the end."""
    track, at, seq = key
    numbers = column("SELECT no FROM track WHERE no >= ? ORDER BY no LIMIT ?", (track, MOST_CHANGES))
    known = rows.tracks(scope, numbers)
    lines: list[Line] = []
    with rows.lending_after(known, key, MOST_ROWS):
        for number in sorted(known):
            after = (at, seq) if number == track else _BEGIN[1:]
            more, last = rows.stays_after(known, number, *after, limit=MOST_ROWS - len(lines))
            lines += more
            if len(lines) >= MOST_ROWS and last is not None:
                return lines, (number, last[1], last[2])
    return lines, (numbers[-1] + 1, *_BEGIN[1:]) if len(numbers) == MOST_CHANGES else None


# The changes ------------------------------------------------------------------------------------------------------


def _changed(reader: Reader, cursor: Cursor) -> Page:
    with reading():
        newest = change_log.newest()
        due = change_log.after(cursor.number, MOST_CHANGES)
        number = due[-1].seq if len(due) == MOST_CHANGES else newest
        due, number = _with_fitting_records(reader.organization_id, due, number)
        lines, number, rest = _lines(_scope(reader), due, number)
    following = cursors.advance(reader, cursor, number)._replace(place=rest)
    return Page(lines, following, rest is not None or number < newest)


def _with_fitting_records(organization_id: int, due: list[Change], number: int) -> tuple[list[Change], int]:
    """Return the leading changes whose records have not too much metadata and tags, and the number of the last one."""
    fitting: set[tuple[int, int]] = set()
    for kind, table in _RECORDS.items():
        ids = list(dict.fromkeys(change.a for change in due if abs(change.kind) == kind))
        count = outgoing.count_fitting(organization_id, ids, MOST_METADATA // len(_RECORDS), table) if ids else 0
        fitting.update((kind, record_id) for record_id in ids[:count])
    for at, change in enumerate(due):
        if abs(change.kind) in _RECORDS and (abs(change.kind), change.a) not in fitting:
            return due[:at], due[at - 1].seq
    return due, number


def _lines(scope: Scope, due: Sequence[Change], number: int) -> tuple[list[Line], int, Place | None]:
    """Return the lines of some changes, and how far they go: the last change, and the place inside the next one."""

    def of(kind: Kind) -> list[Change]:
        return [change for change in due if abs(change.kind) == kind]  # negative: the hub refused it

    def ids(kind: Kind) -> set[int]:
        return {change.a for change in of(kind)}

    whole = list(dict.fromkeys(change.a for change in of(Kind.WHOLE_TRACK)))
    instants = {(change.a, change.b) for change in of(Kind.STAY) if change.b is not None}
    known = rows.tracks(scope, {*(track for track, _ in instants), *whole})
    of_tracks, rest = _whole_tracks(known, [track for track in whole if track in known])
    if rest is not None:
        number = next(change.seq for change in of(Kind.WHOLE_TRACK) if change.a == rest.key[0]) - 1
        before = [change for change in due if change.seq <= number]
        finished, _, _ = _lines(scope, before, number)
        # Later changes follow with the next pages; this track goes on from its place.
        return [*finished, *_from(of_tracks, rest.key[0])], number, rest
    gone_tracks = {change.a for change in of(Kind.TRACK) if change.b == scope.organization_id}
    lines = [
        *rows.of_sites(scope, "site", ids(Kind.SITE)),
        *rows.records(scope, "location", ids(Kind.LOCATION)),
        *rows.of_sites(scope, "door", ids(Kind.DOOR)),
        *rows.records(scope, "asset", ids(Kind.ASSET)),
        *(rows.delete("stay", track=track) for track in sorted(gone_tracks)),
        *of_tracks,
        *rows.stays_at(known, {(track, at) for track, at in instants if track not in whole}),
        *rows.passages(scope, {change.a: change.b for change in of(Kind.PASSAGE)}),
    ]
    return lines, number, None


def _whole_tracks(known: dict[int, rows.Track], whole: Sequence[int]) -> tuple[list[Line], Place | None]:
    """Return the lines of these tracks, and the place inside the one that does not fit into the page."""
    lines: list[Line] = []
    for at in range(0, len(whole), TRACKS_AT_ONCE):
        group = whole[at : at + TRACKS_AT_ONCE]
        with rows.lending_oldest(known, group, MOST_ROWS + 1):
            for track in group:
                lines.append(rows.delete("stay", track=track))
                more, last = rows.stays_after(known, track, *_BEGIN[1:], limit=MOST_ROWS - len(lines) + 1)
                lines += more
                if last is not None and len(lines) > MOST_ROWS:
                    return lines, Place(_INSIDE_TRACK, (track, last[1], last[2]))
    return lines, None


def _from(lines: list[Line], track: int) -> list[Line]:
    """Return the lines of the last track only."""
    first = next(at for at, line in enumerate(lines) if line.get("key") == {"track": track})
    return lines[first:]


def _continued(reader: Reader, cursor: Cursor, place: Place) -> Page:
    """Return the next stays of a track that did not fit into the last page."""
    with reading():
        track, at, seq = place.key
        known = rows.tracks(_scope(reader), [track])
        with rows.lending_after(known, place.key, MOST_ROWS):
            lines, last = rows.stays_after(known, track, at, seq, MOST_ROWS) if track in known else ([], None)
        due = change_log.after(cursor.number, 1)
    if last is not None and len(lines) >= MOST_ROWS:
        return Page(lines, cursor._replace(place=Place(_INSIDE_TRACK, (track, last[1], last[2]))), True)
    return Page(lines, cursors.advance(reader, cursor, due[0].seq if due else cursor.number), True)
