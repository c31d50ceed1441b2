"""Rows of the feed, and the lines that bring a copy of them up to date.

A line either deletes the rows with some values, or puts a row. The state of a row is read when the line is made, so the
same changes applied again do no harm.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any

from edge import clock
from edge.database.connection import execute
from edge.tracking import history_engine
from edge.validation import json_text
from edge.validation.bodies import fields_of

DIRECTIONS = ("unknown", "in", "out", "turned back", "withdrawn")
Line = dict[str, Any]


def put(table: str, row: dict[str, Any]) -> Line:
    return {"op": "put", "table": table, "row": row}


def delete(table: str, **key: Any) -> Line:
    return {"op": "delete", "table": table, "key": key}


def moment(micros: int | None) -> str | None:
    """Return a time with microseconds, since times are keys of stays."""
    return None if micros is None else f"{clock.rfc3339(micros)[:-4]}{micros % clock.SECOND:06d}Z"


class Scope:
    """The rows that a reader may see: those of its organization, of one site if it has chosen one, and of people only
    if the organization lets the API show their positions.
    """

    def __init__(self, organization_id: int, site_no: int | None, *, hides_people: bool) -> None:
        self.organization_id = organization_id
        self.site_no = site_no
        self.hides_people = hides_people

    def has_site(self, site_no: int | None) -> bool:
        return self.site_no is None or site_no == self.site_no


def of_sites(scope: Scope, table: str, ids: Iterable[int]) -> list[Line]:
    """Return sites, or doors, of the sites that the reader has chosen."""
    site = "id" if table == "site" else "site_id"
    return [put(table, row) for row in _stored(scope, table, ids) if scope.has_site(row[site])]


_DATES = ("created_at", "updated_at", "deleted_at")
# By table, the key first; `column AS name` if the name differs.
_COLUMNS = {
    "site": ("no AS id", "code", "name", "removed_at"),
    "door": ("id", "name", "location_id", "deleted_at", "site_no AS site_id"),
    "passage": (
        *("no AS id", "door_id", "asset_id", "at", "direction", "confidence", "since", "until", "decided_at"),
        *("revision", "site_no AS site_id", "asset_id IN (SELECT asset_id FROM tracked_person) AS is_person"),
    ),
    **{
        kind: (*first, *(one.name for one in fields_of(kind) if not one.name.startswith("parent_")), *_DATES)
        for kind, first in (("location", ("id", "parent_id")), ("asset", ("id",)))
    },
}
_TIMES = {"valid_from", "valid_to", "removed_at", "at", "since", "until", "decided_at", *_DATES}


def _stored(scope: Scope, table: str, ids: Iterable[int]) -> list[dict[str, Any]]:
    """Return the rows of a table by key, with times as text."""
    columns = _COLUMNS[table]
    key, names = columns[0].partition(" ")[0], [one.rpartition(" ")[2] for one in columns]
    found = execute(
        f"SELECT {', '.join(columns)} FROM {table} WHERE {key} IN (SELECT value FROM json_each(?)) "
        f"AND +organization_id = ? ORDER BY {key}",
        (_json(ids), scope.organization_id),
    )
    rows = [dict(zip(names, values, strict=True)) for values in found]
    return [{**row, **{name: moment(row[name]) for name in _TIMES & row.keys()}} for row in rows]


def records(scope: Scope, table: str, ids: Iterable[int]) -> list[Line]:
    """Return assets or locations with their tags. A deleted record keeps its row, since its history does."""
    tags: dict[int, list[Line]] = {}
    for tag_id, record_id, tag_type, value in execute(
        f"SELECT id, {table}_id, tag_type, value FROM tag WHERE {table}_id IN (SELECT value FROM json_each(?)) "
        "AND deleted_at IS NULL ORDER BY id",
        (_json(ids),),
    ):
        shown = {"id": tag_id, "asset_id": None, "location_id": None, f"{table}_id": record_id}
        tags.setdefault(record_id, []).append(put("tag", {**shown, "type": tag_type, "value": value}))
    lines = []
    for row in _stored(scope, table, ids):
        row["is_active"] = bool(row["is_active"])
        if "metadata" in row:
            row["metadata"] = json_text.raw_or_none(row["metadata"])
        lines += [put(table, row), delete("tag", **{f"{table}_id": row["id"]}), *tags.get(row["id"], ())]
    return lines


def passages(scope: Scope, owners: dict[int, int | None]) -> list[Line]:
    """Return passages by number. Of a deleted one, the value is its organization."""
    rows = _stored(scope, "passage", owners)
    gone = owners.keys() - {row["id"] for row in rows}
    lines = [delete("passage", id=no) for no in owners if no in gone and owners[no] == scope.organization_id]
    for row in rows:
        is_person = row.pop("is_person")
        if not scope.has_site(row["site_id"]):
            continue
        if is_person and scope.hides_people:
            lines.append(delete("passage", id=row["id"]))
        else:
            converted = {"direction": DIRECTIONS[row["direction"]], "confidence": row["confidence"] / 1000}
            lines.append(put("passage", {**row, **converted}))
    return lines


Track = tuple[int, int, int | None, bool]  # number, asset, site, is hidden


def tracks(scope: Scope, numbers: Iterable[int]) -> dict[int, Track]:
    """Return those of these tracks that the reader receives."""
    rows = execute(
        "SELECT no, asset_id, site_no, is_person FROM track WHERE no IN (SELECT value FROM json_each(?)) "
        "AND +organization_id = ?",
        (_json(numbers), scope.organization_id),
    )
    return {
        no: (no, asset_id, site_no, bool(is_person) and scope.hides_people)
        for no, asset_id, site_no, is_person in rows
        if scope.has_site(site_no)
    }


_STAY = (
    "h.position_no, h.observed_at, h.seq, h.seen_for, h.delay, h.rssi, s.location_id, "
    "ifnull(s.reader_id, s.remote_reader), s.port, NOT EXISTS (SELECT 1 FROM history n "
    "WHERE n.position_no = h.position_no AND (n.observed_at, n.seq) > (h.observed_at, h.seq))"
)
StayRow = tuple[int, int, int, int, int, int | None, int | None, int | None, int | None, bool]


def stays_at(known: dict[int, Track], instants: Collection[tuple[int, int]]) -> list[Line]:
    """Return the stays that began at these instants (track, time).

    The stay before is included, because it ends, or lasts again, if its next one comes or goes.
    """
    shown = [[track, at] for track, at in sorted(instants) if track in known and not known[track][3]]
    with history_engine.lending(lambda: history_engine.lent_rows.around(shown)):
        rows = _rows_at(shown)
    present = {(row[0], row[1]) for row in rows}
    horizon = _horizon()
    lines = [
        delete("stay", track=track, began_at=moment(at))
        for track, at in shown
        if (track, at) in present or at >= horizon  # retention may have dropped earlier ones
    ]
    return [*lines, *(_stay(known, row) for row in rows)]


def _rows_at(shown: Sequence[Sequence[int]]) -> list[StayRow]:
    """Return the rows that began at these instants, and at the instant before each."""
    before = execute(
        "SELECT k.value ->> 0, (SELECT max(observed_at) FROM history WHERE position_no = k.value ->> 0 "
        "AND observed_at < k.value ->> 1) FROM json_each(?) k",
        (json_text.text(shown),),
    )
    earlier = [[track, at] for track, at in before if at is not None]
    chosen = sorted({(track, at) for track, at in (*shown, *earlier)})
    return execute(
        f"SELECT {_STAY} FROM json_each(?) k CROSS JOIN history h "
        "ON h.position_no = k.value ->> 0 AND h.observed_at = k.value ->> 1 "
        "LEFT JOIN source s ON s.no = h.source_no ORDER BY h.position_no, h.observed_at, h.seq",
        (json_text.text(chosen),),
    ).fetchall()


def _shown(known: dict[int, Track]) -> list[int]:
    return sorted(no for no, (_, _, _, is_hidden) in known.items() if not is_hidden)


def lending_after(known: dict[int, Track], after: tuple[int, int, int], limit: int) -> AbstractContextManager[None]:
    """Let `stays_after` return the next rows of these tracks by key, at most `limit` in all."""
    # One more, which says whether the last one is the newest of its track.
    return history_engine.lending(lambda: history_engine.lent_rows.of_tracks(_shown(known), after, limit + 1))


def lending_oldest(known: dict[int, Track], tracks: Collection[int], most: int) -> AbstractContextManager[None]:
    """Let `stays_after` return the oldest rows of each of these tracks, at most `most` of each."""
    shown = {no: known[no] for no in tracks}
    return history_engine.lending(lambda: history_engine.lent_rows.oldest(_shown(shown), most + 1))


def stays_after(
    known: dict[int, Track], track: int, at: int, seq: int, limit: int
) -> tuple[list[Line], StayRow | None]:
    """Return the next stays of a track, and the last row. With PostgreSQL, of the rows that are lent."""
    if known[track][3]:
        return [], None
    rows = execute(
        f"SELECT {_STAY} FROM history h LEFT JOIN source s ON s.no = h.source_no WHERE h.position_no = ? "
        "AND (h.observed_at, h.seq) > (?, ?) ORDER BY h.observed_at, h.seq LIMIT ?",
        (track, at, seq, limit),
    ).fetchall()
    return [_stay(known, row) for row in rows], rows[-1] if rows else None


def _stay(known: dict[int, Track], row: StayRow) -> Line:
    """Return the line of a stay.

    PostgreSQL can have one whose source is newer than the page's snapshot of this database. A later page has it again.
    """
    track, at, seq, seen_for, delay, rssi, location_id, reader_id, port, is_newest = row
    if location_id is None:
        return delete("stay", track=track, began_at=moment(at), seq=seq)
    _, asset_id, site_no, _ = known[track]
    return put(
        "stay",
        {
            "track": track,
            "began_at": moment(at),
            "seq": seq,
            "asset_id": asset_id,
            "location_id": location_id,
            "ended_at": None if is_newest else moment(at + seen_for),
            "received_at": moment(at + delay),
            "reader_id": reader_id,
            "antenna": port,
            "rssi": None if rssi is None else rssi / 10,
            "site_id": site_no,
        },
    )


def _horizon() -> int:
    row = execute("SELECT horizon FROM feed").fetchone()
    return row[0] if row else 0


def _json(values: Iterable[int]) -> str:
    return json_text.text(sorted(values))
