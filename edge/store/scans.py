"""Where assets are and were: the one place that writes positions and history.

A scan is one sighting of one asset at one location. History keeps stays, not sightings: a row for every move, for every
scan by a person, and for every time a fixed reader sees the asset again after `gap` (contract: Tracking). Order is
that of observation. Nearly all scans are the newest of their asset, where the asset is already, and need no query of
their own. `evidence` decides what is a move, over whole batches; a read that comes too late for that is put in its
place by `insert_late`.
"""

from __future__ import annotations

from collections.abc import Sequence

from edge.clock import SECOND
from edge.store import recent_reads
from edge.store.database import execute, execute_many, writing
from edge.store.evidence import Rule
from edge.store.heard import Weight
from edge.store.recent import ALWAYS, Recent
from edge.store.recent_reads import KEPT_FOR, UNKNOWN, RecentReads
from edge.store.retrace import ByPerson, State, Step, first_from, last_look, retrace, since_of
from edge.store.sources import ScanSource, number_of
from edge.store.stay_changes import insert_late, last_read_second, replace_rows, rows_from
from edge.store.stays import (
    CLOSE_STAY,
    INSERT_ROW,
    NewRow,
    Position,
    Scan,
    load_positions,
    row_of_step,
    row_values,
    write_positions,
)

_PORTAL = int(Weight.RFID_PORTAL)  # Python 3.11 takes as long to look a member of an Enum up as to call a function


def record(scans: Sequence[Scan], gap: int, recent: RecentReads | None = None) -> list[bool]:
    """Record scans in their order; for each, returns whether it was news (False: a repeat, nothing changed).

    `gap` in microseconds: after a longer time unseen, a fixed reader's scan gets a row of its own; 0 keeps every scan.
    With `recent`, locations that hear the same asset compete for it; without it, or without a gap, every read counts.
    """
    if not scans:
        return []
    with writing():
        if recent and not gap:
            recent.forget_positions({scan.asset_id for scan in scans})  # they are changed without it
        batch = _Batch(gap, scans, recent if gap else None)
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
        reconsider(scan.asset_id, scan.observed_at)
    return seq


def reconsider(asset_id: int, observed_at: int) -> None:
    """A person's scan was added or undone: decide anew what readers heard from then on, as far as it is kept."""
    second = observed_at // SECOND
    with writing():
        if not recent_reads.was_heard(asset_id, second * SECOND):
            return
        whole = recent_reads.load({asset_id}, 0).get(asset_id)
        position = load_positions({asset_id}).get(asset_id)
        if position and whole and whole.complete_from <= second:
            batch = _Batch(recent_reads.gap(), [], None)
            batch.retrace(position, whole, second)
            batch.write()


class _Batch:
    """The positions of one batch in memory, and the history rows still to be written."""

    def __init__(self, gap: int, scans: Sequence[Scan], recent: RecentReads | None) -> None:
        self._gap = gap
        self._recent = recent
        self._received_at = max([scan.received_at for scan in scans], default=0)
        asset_ids = {scan.asset_id for scan in scans}
        self._positions: dict[int, Position] = {}
        self._sources: dict[tuple[int, int | None, int | None], int] = {}
        if recent is not None:
            self._positions, self._sources = recent.positions, recent.sources
            recent.bring_back(asset_ids)
        self._positions |= load_positions(asset_ids - self._positions.keys())
        self._scans = scans
        self._looked_back: set[int] = set()  # assets
        self._touched: dict[int, Position] = {}
        self._doubtful: dict[int, int] = {}  # asset -> the second from which on it is to be decided anew
        self._closed: list[tuple[int, int, int, int]] = []
        self._opened: list[NewRow] = []

    def enter(self, scan: Scan) -> bool:
        if self._recent is not None and scan.reader_id is not None:
            return self._weigh(self._recent, scan)
        return self._count(scan)

    def write(self) -> None:
        reads = self._recent
        if reads is not None:
            for asset_id, second in self._doubtful.items():
                if recent := reads.of(asset_id):
                    self.retrace(self._positions[asset_id], recent, second)
            for asset_id in self._looked_back:
                if recent := reads.of(asset_id):
                    recent.drop_old()
            reads.write(self._received_at, self._gap)
        self._flush()
        write_positions(list(self._touched.values()))

    def _count(self, scan: Scan) -> bool:
        """Enter a scan that counts as it is."""
        position = self._positions.get(scan.asset_id)
        if position is None:
            self._positions[scan.asset_id] = self._first(scan, Rule.EVERY_READ)
            return True
        is_fixed = scan.reader_id is not None
        if scan.observed_at > position.last_seen_at:
            seen_again = is_fixed and 0 < scan.observed_at - position.last_seen_at <= self._gap
            if not (seen_again and scan.location_id == position.location_id):
                self._append_scan(position, scan, Rule.EVERY_READ)
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

    def _weigh(self, reads: RecentReads, scan: Scan) -> bool:
        """Take a reader's scan as evidence. If it is where the asset is, that is all; otherwise it is decided later."""
        at, asset_id = scan.observed_at, scan.asset_id
        position = self._positions.get(asset_id)
        source_no = self._source(scan)
        second, delay = at // SECOND, scan.received_at - at
        if position is None:
            reads.start(asset_id, ALWAYS).add(
                at, scan.location_id, scan.rssi, scan.weight, source_no, scan.quality, delay, scan.rssi_offset
            )
            reads.note(scan, source_no, ALWAYS)
            self._positions[asset_id] = self._first(scan, Rule.FIRST)
            return True
        recent = reads.of(asset_id)
        if recent is None:
            recent = reads.start(asset_id, last_read_second(position) + 1)
        is_newest = at > position.last_seen_at
        if not is_newest and second < recent.exact_from:
            recent = self._look_back(reads, scan, recent)
            if second < recent.complete_from:
                self._decide(reads, position, asset_id)
                return self._count(scan)
        is_first = recent.is_empty  # before it, only people scanned the asset
        if not recent.add(
            at, scan.location_id, scan.rssi, scan.weight, source_no, scan.quality, delay, scan.rssi_offset
        ):
            return False
        is_told_since = is_newest or is_first
        reads.note(scan, source_no, recent.known_from(position.last_seen_at) if is_told_since else UNKNOWN)
        if recent.is_full:
            self._decide(reads, position, asset_id)
            recent.drop_old()
        self._touched[position.no] = position
        if asset_id in self._doubtful:
            self._doubtful[asset_id] = min(self._doubtful[asset_id], second)
        elif scan.location_id != position.location_id or _tells_why(scan, position):
            self._doubtful[asset_id] = second
        elif is_newest:
            if at - position.last_seen_at > self._gap:
                self._append_scan(position, scan, Rule.AGAIN)
            position.last_seen_at = at
        elif at >= position.row_at and recent.is_only(scan.location_id):
            return False
        else:
            self._doubtful[asset_id] = second
        return True

    def _look_back(self, reads: RecentReads, scan: Scan, recent: Recent) -> Recent:
        """From disk, what was heard around a late read: once, for all assets that have late reads in the batch."""
        if scan.asset_id not in self._looked_back and scan.received_at - scan.observed_at < KEPT_FOR:
            late = [one for one in self._scans if _is_late(one, reads.of(one.asset_id))]
            self._looked_back.update(one.asset_id for one in late)
            reads.look_back(self._looked_back, min(one.observed_at for one in late) // SECOND)
        return reads.of(scan.asset_id) or recent

    def _decide(self, reads: RecentReads, position: Position, asset_id: int) -> None:
        second, recent = self._doubtful.pop(asset_id, None), reads.of(asset_id)
        if second is not None and recent:
            self.retrace(position, recent, second)

    def retrace(self, position: Position, recent: Recent, second: int) -> None:
        """Decide anew from a second on, and change history where it says otherwise."""
        heard, start = recent.heard, second * SECOND
        begin = first_from(heard, second)
        seen_at = max((one.last_at for one in last_look(heard, begin)), default=None)
        self._touched[position.no] = position
        if position.row_at < start:
            state = State(
                position.location_id,
                since_of(position.row_at, position.row_rule),
                seen_at or _seen_before(start, position.row_at, position.last_seen_at, recent),
            )
            steps, seen_at = retrace(heard, begin, state, (), self._gap)
            for step in steps:
                self._append_step(position, step)
            position.last_seen_at = max(position.last_seen_at, seen_at or 0)
            return
        self._flush()
        before, rows = rows_from(position, start)
        state = State(None, 0, None)
        if before:
            since = since_of(before.observed_at, before.rule)
            state = State(
                before.location_id, since, seen_at or _seen_before(start, before.observed_at, before.ended_at, recent)
            )
        people = [
            ByPerson(row.observed_at, row.location_id, key) for key, row in enumerate(rows) if row.rule == Rule.PERSON
        ]
        steps, seen_at = retrace(heard, begin, state, people, self._gap)
        replace_rows(position, before, rows, steps, seen_at or position.last_seen_at)

    def _first(self, scan: Scan, rule: Rule) -> Position:
        at = scan.observed_at
        rule = rule if scan.reader_id is not None else Rule.PERSON
        no = execute(
            "INSERT INTO track (asset_id, organization_id, location_id, last_seen_at, dwell_started_at, row_at, "
            "row_seq, row_rule, history_rows) VALUES (?, ?, ?, ?, ?, ?, 0, ?, 1) RETURNING no",
            (scan.asset_id, scan.organization_id, scan.location_id, at, at, at, rule),
        ).fetchone()[0]
        self._opened.append(row_values(no, 0, self._source(scan), scan, rule=rule))
        return Position(no, scan.location_id, at, at, at, 0, rule, 1)

    def _append_scan(self, position: Position, scan: Scan, rule: Rule) -> None:
        row = row_values(position.no, 0, self._source(scan), scan, rule=rule)
        self._append(position, row, scan.location_id)

    def _append_step(self, position: Position, step: Step) -> None:
        if step.heard:
            position.last_seen_at = max(position.row_at, step.ended_at or 0)
            self._append(position, row_of_step(position.no, step, step.heard), step.location_id)

    def _append(self, position: Position, row: NewRow, location_id: int) -> None:
        """Add the newest row, which ends the stay before it."""
        stayed = position.last_seen_at - position.row_at
        self._closed.append((stayed, position.no, position.row_at, position.row_seq))
        self._opened.append(row)
        at, rule = row[1], row[8]
        if location_id != position.location_id:
            position.location_id = location_id
            position.dwell_started_at = at
        position.row_at, position.row_seq, position.row_rule = at, 0, rule
        position.history_rows += 1

    def _flush(self) -> None:
        if self._opened:
            execute_many(INSERT_ROW, self._opened)
            self._opened = []
        if self._closed:
            execute_many(CLOSE_STAY, self._closed)
            self._closed = []

    def _source(self, scan: Scan) -> int:
        key = (scan.location_id, scan.reader_id, scan.port)
        number = self._sources.get(key)
        if number is None:
            number = self._sources[key] = number_of(scan.organization_id, ScanSource(*key))
        return number


def _is_late(scan: Scan, recent: Recent | None) -> bool:
    second, delay = scan.observed_at // SECOND, scan.received_at - scan.observed_at
    return recent is not None and second < recent.exact_from and delay < KEPT_FOR


def _seen_before(start: int, began_at: int, ended_at: int, recent: Recent) -> int:
    """When an asset was last seen before `start`, in a stay of which no read before it is known."""
    if ended_at < start:
        return ended_at
    return began_at if recent.complete_from * SECOND <= began_at else start - 1


def _tells_why(scan: Scan, position: Position) -> bool:
    """Whether a read where the asset is may be a better reason for it to be there."""
    return scan.weight >= _PORTAL and scan.observed_at // SECOND == position.row_at // SECOND
