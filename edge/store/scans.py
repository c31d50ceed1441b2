"""Where assets are and were: the one place that writes positions and history.

A scan is one sighting of one asset at one place. History keeps stays, not sightings: a row for every move, for every
scan by a person, and for every time a fixed reader sees the asset again after `gap` (contract: Tracking). Order is
that of observation. Nearly all scans are the newest of their asset and need no query of their own; a late one is put
in its place by `insert_late`.
"""

from __future__ import annotations

from collections.abc import Sequence

from edge.store.database import execute, execute_many, writing
from edge.store.stays import (
    CLOSE_STAY,
    INSERT_ROW,
    Position,
    Scan,
    insert_late,
    load_positions,
    row_values,
    write_positions,
)


def record(scans: Sequence[Scan], gap: int) -> list[bool]:
    """Record scans in their order; for each, whether it told anything new (False: a repeat, nothing changed).

    `gap` in microseconds: unseen for longer, a fixed reader's next scan is a row of its own; 0 keeps every scan.
    """
    if not scans:
        return []
    with writing():
        batch = _Batch(gap, scans)
        news = [batch.enter(scan) for scan in scans]
        batch.write()
    return news


def record_by_person(scan: Scan) -> int:
    """Record one scan of a person, always as a row of its own; returns the `seq` that `take_back` needs."""
    with writing():
        record([scan], gap=0)
        seq: int = execute(
            "SELECT h.seq FROM history h JOIN track t ON t.no = h.position_no "
            "WHERE t.asset_id = ? AND t.site_no IS NULL AND h.observed_at = ? ORDER BY h.seq DESC LIMIT 1",
            (scan.asset_id, scan.observed_at),
        ).fetchone()[0]
    return seq


class _Batch:
    """The positions of one batch in memory, and the history rows still to be written."""

    def __init__(self, gap: int, scans: Sequence[Scan]) -> None:
        self._gap = gap
        self._positions = load_positions({scan.asset_id for scan in scans})
        self._sources: dict[tuple[int, int | None, int | None], int] = {}
        self._touched: dict[int, Position] = {}
        self._closed: list[tuple[int, int, int, int]] = []
        self._opened: list[tuple[int, int, int, int, int, int, int, int | None]] = []

    def enter(self, scan: Scan) -> bool:
        position = self._positions.get(scan.asset_id)
        if position is None:
            self._positions[scan.asset_id] = self._first(scan)
            return True
        is_fixed = scan.reader_id is not None
        if scan.observed_at > position.last_seen_at:
            seen_again = is_fixed and 0 < scan.observed_at - position.last_seen_at <= self._gap
            if not (seen_again and scan.location_id == position.location_id):
                self._append(position, scan)
            position.last_seen_at = scan.observed_at
        elif (
            is_fixed and self._gap and scan.location_id == position.location_id and scan.observed_at >= position.row_at
        ):
            return False
        else:
            self._flush()
            if not insert_late(position, scan, self._source(scan), self._gap):
                return False
        self._touched[position.no] = position
        return True

    def write(self) -> None:
        self._flush()
        write_positions(list(self._touched.values()))

    def _first(self, scan: Scan) -> Position:
        at = scan.observed_at
        no = execute(
            "INSERT INTO track (asset_id, organization_id, location_id, last_seen_at, dwell_started_at, row_at, "
            "row_seq, history_rows) VALUES (?, ?, ?, ?, ?, ?, 0, 1) RETURNING no",
            (scan.asset_id, scan.organization_id, scan.location_id, at, at, at),
        ).fetchone()[0]
        self._opened.append(row_values(no, 0, self._source(scan), scan))
        return Position(no, scan.location_id, at, at, at, 0, 1)

    def _append(self, position: Position, scan: Scan) -> None:
        """The newest row yet: the stay before it is over."""
        stayed = position.last_seen_at - position.row_at
        if stayed:
            self._closed.append((stayed, position.no, position.row_at, position.row_seq))
        self._opened.append(row_values(position.no, 0, self._source(scan), scan))
        if scan.location_id != position.location_id:
            position.location_id = scan.location_id
            position.dwell_started_at = scan.observed_at
        position.row_at, position.row_seq = scan.observed_at, 0
        position.history_rows += 1

    def _flush(self) -> None:
        if self._opened:
            execute_many(INSERT_ROW, self._opened)
            self._opened = []
        if self._closed:
            execute_many(CLOSE_STAY, self._closed)
            self._closed = []

    def _source(self, scan: Scan) -> int:
        place = (scan.location_id, scan.reader_id, scan.port)
        if place not in self._sources:
            self._sources[place] = _source_no(scan.organization_id, *place)
        return self._sources[place]


def _source_no(organization_id: int, location_id: int, reader_id: int | None, port: int | None) -> int:
    place = (location_id, reader_id or 0, -1 if port is None else port)
    found = execute(
        "SELECT no FROM source WHERE location_id = ? AND ifnull(reader_id, 0) = ? AND ifnull(port, -1) = ? "
        "AND site_no IS NULL",
        place,
    ).fetchone()
    if found is None:
        found = execute(
            "INSERT INTO source (organization_id, location_id, reader_id, port) VALUES (?, ?, ?, ?) RETURNING no",
            (organization_id, location_id, reader_id, port),
        ).fetchone()
    number: int = found[0]
    return number
