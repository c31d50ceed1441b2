"""Recording of scans: updates the current position and the history of assets.

A scan is one sighting of one asset at one location. History stores stays instead of sightings: a row for every move,
for every scan by a person, and for every time a fixed reader reads the asset again after `gap` (interface: Tracking).
Rows are ordered by time of observation. Nearly every scan is the newest of its asset and at its current location, and
needs no query. `decision_rule` decides the moves, for whole batches; a read that arrives too late for that goes to
`insert_late`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import cached_property

from msgspec.structs import replace

from edge import clock
from edge.clock import SECOND
from edge.database.connection import execute_many, writing
from edge.tracking import held_back, history_engine, recent_reads
from edge.tracking.counted_reads import CountedReads
from edge.tracking.decision_rule import IDLE, Rule, last_at
from edge.tracking.late_reads import insert_late, last_read_second, replace_rows, rows_from, stayed_with
from edge.tracking.packed_reads import ALWAYS, Recent
from edge.tracking.portal_rule import PORTAL
from edge.tracking.recent_reads import KEPT_FOR, UNKNOWN, RecentReads, Sign
from edge.tracking.retrace import (
    ByPerson,
    Held,
    KnownRow,
    State,
    Step,
    Traced,
    first_from,
    is_out_of_reach,
    is_proved_by,
    pauses_after,
    reach_back,
    retrace,
    seen_before,
    since_of,
)
from edge.tracking.signal_strength import Detection
from edge.tracking.signs import ReaderOutages, Signs
from edge.tracking.stays import (
    CLOSE_STAY,
    INSERT_ROW,
    NewRow,
    Position,
    Scan,
    ScanSource,
    add_track,
    load_positions,
    newest_seq,
    number_of,
    row_of_step,
    row_values,
    scan_of,
    write_positions,
)


def record(
    scans: Sequence[Scan],
    gap: int,
    recent: RecentReads | None = None,
    signs: Collection[Sign] = (),
    received_at: int = 0,
) -> list[bool]:
    """Record scans in their order. Return for each whether it changed anything; False for a repeat.

    `gap` in microseconds: after that time without a read, the next read of a fixed reader gets its own row; 0 keeps
    every scan. With `recent` and a gap, locations that read the same asset compete; otherwise every read counts.
    `signs` are the readers' signs of life received until `received_at`.
    """
    if not scans and not (signs and recent and gap):
        return []
    if scans:
        history_engine.check_own_reads()
    with writing():
        if recent and not gap:
            recent.forget_positions({scan.asset_id for scan in scans})  # the following changes bypass `recent`
        batch = _Batch(gap, scans, recent if gap else None, received_at)
        batch.add_signs(signs)
        are_new = [batch.enter(scan) for scan in scans]
        batch.write()
    return are_new


def settle(recent: RecentReads, gap: int, until: int) -> list[Scan]:
    """Decide held reads, assuming that everything read until the second `until` is known.

    Returns the resulting scans: the last one of each asset that moved. Call until it returns none.
    """
    with writing():
        due = recent.held.take_due(until)
        recent.bring_back(due)
        batch = _Batch(gap, [], recent)
        moved = batch.settle(due, until)
        batch.write()
    return moved


def record_by_person(scan: Scan) -> int:
    """Record one scan of a person, always in its own row. Return the `seq` that `take_back` needs."""
    with writing():
        record([scan], gap=0)
        seq = newest_seq(scan.asset_id, scan.observed_at)
        reconsider(scan.asset_id, scan.observed_at)
    return seq


def reconsider(asset_id: int, observed_at: int, *, is_undone: bool = False) -> None:
    """Decide again after a person's scan was added or undone, as far back as the reads are kept.

    A read that was held back when an undone scan came may count now. If that scan was the only one, it may be the first
    sighting.
    """
    second = observed_at // SECOND
    with writing():
        if not recent_reads.was_read(asset_id, (second - IDLE * is_undone) * SECOND):
            return
        whole = recent_reads.load({asset_id}, 0).get(asset_id)
        position = load_positions({asset_id}).get(asset_id)
        if whole and whole.complete_from <= second:
            batch = _Batch(recent_reads.gap(), [], None)
            if position is None:
                position, second = batch.begin(asset_id, whole), whole.detections[0].second
            held = batch.retrace(asset_id, position, whole, second, clock.now() // SECOND - 1)
            batch.write()
            read = held_back.row_of(asset_id, whole, held) if held else None
            if read:
                held_back.store(read)


class _Batch:
    """Positions of one batch in memory, and the history rows to write."""

    def __init__(self, gap: int, scans: Sequence[Scan], recent: RecentReads | None, received_at: int = 0) -> None:
        self._gap = gap
        self._recent = recent
        self._received_at = max([scan.received_at for scan in scans], default=received_at)
        asset_ids = {scan.asset_id for scan in scans}
        self._positions: dict[int, Position] = {}
        self._sources: dict[tuple[int, int | None, int | None], int] = {}
        if recent is not None:
            self._positions, self._sources = recent.positions, recent.sources
            recent.bring_back(asset_ids)
        if not asset_ids <= self._positions.keys():
            self._have_positions(asset_ids)
        self._scans = scans
        self._looked_back: set[int] = set()  # asset ids
        self._touched: dict[int, Position] = {}
        self._doubtful: dict[int, int] = {}  # asset -> first second to decide again
        self._late: set[int] = set()  # assets with existing decisions that may change
        self._closed: list[tuple[int, int, int, int]] = []
        self._opened: list[NewRow] = []
        self._on_disk: tuple[dict[int, int | None], Signs] | None = None  # readers by source, and their signs

    @cached_property
    def _counted(self) -> CountedReads:
        return CountedReads(self._scans)

    def enter(self, scan: Scan) -> bool:
        if self._recent is not None and scan.reader_id is not None:
            return self._weigh(self._recent, scan)
        if scan.reader_id is not None and self._gap:
            self._counted.note(scan, self._source(scan))
        return self._count(scan)

    def begin(self, asset_id: int, recent: Recent) -> Position:
        """Record the first of these reads of an asset without a position. `retrace` decides whether it counts."""
        first = recent.detections[0]
        scan = scan_of(asset_id, first)
        position = self._first(
            replace(scan, observed_at=first.first_at, received_at=first.first_at + first.delay), Rule.FIRST
        )
        self._positions[asset_id] = position
        return position

    def add_signs(self, signs: Collection[Sign]) -> None:
        """Add signs of life of readers. Late ones may change earlier decisions."""
        reads = self._recent
        to_decide = reads.add_signs(signs) if reads and signs else {}
        if not reads or not to_decide:
            return
        reads.bring_back(to_decide)
        self._have_positions(to_decide)
        known = {one: second for one, second in to_decide.items() if one in self._positions}
        short = {one for one, second in known.items() if (recent := reads.of(one)) and second < recent.exact_from}
        for one in known:
            if reads.of(one) is None:  # dropped from memory after newer reads of other assets
                reads.start(one, last_read_second(self._positions[one]) + 1)
                short.add(one)
        if short:
            self._looked_back.update(short)
            reads.look_back(short, min(known[one] for one in short))
        self._doubtful.update(known)
        self._late.update(known)

    def settle(self, due: Sequence[int], until: int) -> list[Scan]:
        """Decide the held reads of these assets again, assuming that everything until that second is known."""
        reads = self._recent
        if reads is None:
            return []
        self._have_positions(due)
        moved = []
        for asset_id in due:
            recent, position, held = reads.of(asset_id), self._positions.get(asset_id), reads.held.of(asset_id)
            if recent is None or position is None or held is None:
                reads.held.release(asset_id)
                continue
            was_at = position.location_id
            recent.settled_until = max(recent.settled_until, until)
            self._keep(reads, asset_id, self.retrace(asset_id, position, recent, held.second, until))
            reads.held.put_off(asset_id, until)
            last = last_at(recent.detections, len(recent.detections), position.location_id)
            if position.location_id != was_at and last:
                moved.append(scan_of(asset_id, last))
        reads.held.store(until, lambda asset_id, held: held_back.row_of(asset_id, reads.of(asset_id), held))
        return moved

    def write(self) -> None:
        reads = self._recent
        if reads is not None:
            for asset_id in list(self._doubtful):
                self._decide(reads, self._positions[asset_id], asset_id)
            reads.write(self._received_at, self._gap)
        elif self._gap:
            self._counted.write(self._received_at, self._gap)
        self._flush()
        write_positions(list(self._touched.values()))

    def _have_positions(self, asset_ids: Collection[int]) -> None:
        self._positions |= load_positions(set(asset_ids) - self._positions.keys())

    def _count(self, scan: Scan) -> bool:
        """Record a scan without weighing it."""
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
            if not insert_late(position, scan, self._source(scan), self._gap, self._counted):
                return False
        self._touched[position.no] = position
        return True

    def _weigh(self, reads: RecentReads, scan: Scan) -> bool:
        """Take a reader's scan as evidence. Only reads at other locations wait for a decision."""
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
            if self._is_too_late(reads, scan):  # dropped from memory after newer reads of other assets
                recent = self._look_back(reads, scan, None)
            else:
                recent = reads.start_after_pause(asset_id, second, last_read_second(position))
        newest, is_newest = recent.newest, at > position.last_seen_at
        is_late = second <= max(newest, recent.settled_until) or second < recent.complete_from
        if is_late and is_out_of_reach(position.row_at, position.row_rule, recent, second):
            recent = self._look_back(reads, scan, recent)
            if second < recent.complete_from:
                self._decide(reads, position, asset_id)
                return self._count(scan)
        is_first = recent.is_empty  # until now only people scanned the asset
        if not recent.add(
            at, scan.location_id, scan.rssi, scan.weight, source_no, scan.quality, delay, scan.rssi_offset
        ):
            return False
        is_newest_read = is_first or (is_newest and second >= newest)
        known_from = recent.known_from(max(position.last_seen_at // SECOND, newest)) if is_newest_read else UNKNOWN
        reads.note(scan, source_no, known_from)
        self._touched[position.no] = position
        is_new = self._is_plain(reads, position, scan, recent, newest)
        if asset_id in self._doubtful and is_late:
            self._late.add(asset_id)
        if recent.is_full and asset_id not in self._looked_back:
            self._decide(reads, position, asset_id)
            recent.drop_old()
        return is_new

    def _is_plain(self, reads: RecentReads, position: Position, scan: Scan, recent: Recent, newest: int) -> bool:
        """Record a read at the current location, or schedule the decision. Return True if it changed anything.

        The read follows those until the second `newest`.
        """
        at, asset_id, second = scan.observed_at, scan.asset_id, scan.observed_at // SECOND
        held = reads.held.of(asset_id)
        if asset_id in self._doubtful:
            self._doubtful[asset_id] = min(self._doubtful[asset_id], second)
        elif held is not None:
            self._doubtful[asset_id] = min(held.second, second)
        elif scan.location_id != position.location_id or _is_better_reason(scan, position):
            self._doubtful[asset_id] = second
        elif (
            at > position.last_seen_at
            and second > recent.settled_until
            and (second > newest or (second == newest and recent.is_newest_only(scan.location_id)))
        ):
            if at - position.last_seen_at > self._gap:
                self._append_scan(position, scan, Rule.AGAIN)
            position.last_seen_at = at
        elif at >= position.row_at and recent.is_only(scan.location_id):
            return False
        else:
            self._doubtful[asset_id] = second
        return True

    def _look_back(self, reads: RecentReads, scan: Scan, recent: Recent | None) -> Recent:
        """Load the reads around a late read from disk, once for all assets with late reads in the batch."""
        asset_id = scan.asset_id
        if asset_id not in self._looked_back and scan.received_at - scan.observed_at < KEPT_FOR:
            late = [one for one in self._scans if one.asset_id == asset_id or self._is_too_late(reads, one)]
            asset_ids = {one.asset_id for one in late}
            self._looked_back |= asset_ids
            for one in late:
                if reads.of(one.asset_id) is None:
                    reads.start(one.asset_id, last_read_second(self._positions[one.asset_id]) + 1)
            reads.look_back(asset_ids, min(one.observed_at for one in late) // SECOND)
        return reads.of(asset_id) or recent or reads.start(asset_id, last_read_second(self._positions[asset_id]) + 1)

    def _is_too_late(self, reads: RecentReads, scan: Scan) -> bool:
        """Return True if reads of about that time are on disk only."""
        if scan.received_at - scan.observed_at >= KEPT_FOR:
            return False
        recent, position = reads.of(scan.asset_id), self._positions.get(scan.asset_id)
        if recent is None:
            is_dropped = reads.is_swept(scan.observed_at // SECOND)
            return position is not None and (is_dropped or scan.observed_at <= position.last_seen_at + IDLE * SECOND)
        return scan.observed_at // SECOND < recent.exact_from

    def _decide(self, reads: RecentReads, position: Position, asset_id: int) -> None:
        second, recent = self._doubtful.pop(asset_id, None), reads.of(asset_id)
        if second is not None and recent:
            held = self.retrace(asset_id, position, recent, second, is_late=asset_id in self._late)
            self._keep(reads, asset_id, held)

    def _keep(self, reads: RecentReads, asset_id: int, held: Held | None) -> None:
        if held:
            reads.held.put(asset_id, held)
        else:
            reads.held.release(asset_id)

    def retrace(
        self, asset_id: int, position: Position, recent: Recent, second: int, until: int = 0, *, is_late: bool = True
    ) -> Held | None:
        """Decide again from a second on, and change history where the result differs. Return the read that is held.

        `until`: see `settle`. `is_late`: decisions from that second on may exist.
        """
        detections = recent.detections
        known_until = max(recent.settled_until, recent.newest if is_late else 0)
        second = max(reach_back(detections, second, known_until), recent.complete_from)
        is_proved = is_late and is_proved_by(position.row_at, position.row_rule, recent, second)
        if is_proved:
            second = position.row_at // SECOND
            recent, detections = self._reaching(asset_id, recent, detections, second)
        horizon = max(until, recent.newest - 1, recent.settled_until)
        self._touched[position.no] = position
        if position.row_at < second * SECOND:
            row = KnownRow(position.location_id, position.row_at, position.row_rule, position.last_seen_at)
            traced = self._trace(asset_id, position, recent, detections, second, row, (), horizon)
            for step in traced.steps:
                self._append_step(position, step)
            position.last_seen_at = max(position.last_seen_at, traced.seen_at or 0)
            return traced.held
        self._flush()
        before, rows = rows_from(position, second * SECOND)
        if before and not is_proved and is_proved_by(before.observed_at, before.rule, recent, second):
            second = before.observed_at // SECOND
            recent, detections = self._reaching(asset_id, recent, detections, second)
            before, rows = rows_from(position, second * SECOND)
        people = [
            ByPerson(row.observed_at, row.location_id, key) for key, row in enumerate(rows) if row.rule == Rule.PERSON
        ]
        known = KnownRow(before.location_id, before.observed_at, before.rule, before.ended_at) if before else None
        traced = self._trace(asset_id, position, recent, detections, second, known, people, horizon)
        replace_rows(position, before, rows, traced.steps, traced.seen_at or position.last_seen_at)
        return traced.held

    def _reaching(
        self, asset_id: int, recent: Recent, detections: list[Detection], second: int
    ) -> tuple[Recent, list[Detection]]:
        """Return all reads that matter from that second on, loaded from disk if memory lacks them."""
        if second >= recent.exact_from or self._recent is None or asset_id in self._looked_back:
            return recent, detections
        self._looked_back.add(asset_id)
        self._recent.look_back({asset_id}, second)
        recent = self._recent.of(asset_id) or recent
        return recent, recent.detections

    def _trace(
        self,
        asset_id: int,
        position: Position,
        recent: Recent,
        detections: Sequence[Detection],
        second: int,
        row: KnownRow | None,
        people: Sequence[ByPerson],
        horizon: int,
    ) -> Traced:
        state = State(None, 0, None)
        readers = self._outages_of(asset_id)
        begin = first_from(detections, second)
        if row:
            seen_at = seen_before(detections, begin, second, row, recent)
            is_known = last_at(detections, begin, row.location_id) is not None and not pauses_after(detections, begin)
            stayed = None if is_known else stayed_with(position, row.began_at, seen_at)
            state = State(row.location_id, since_of(row.began_at, row.rule), seen_at, stayed)
        traced = retrace(detections, begin, state, people, self._gap, readers, horizon)
        if traced.steps:
            recent.decided_row, recent.decided_in = traced.steps[-1].observed_at, traced.steps[-1].decided_in
        return traced

    def _outages_of(self, asset_id: int) -> ReaderOutages:
        if self._recent is not None:
            reads = self._recent
            return ReaderOutages(asset_id, reads.readers, reads.signs, reads.held.ask)
        if self._on_disk is None:
            self._on_disk = recent_reads.load_readers(), recent_reads.load_signs()
        return ReaderOutages(asset_id, *self._on_disk)

    def _first(self, scan: Scan, rule: Rule) -> Position:
        at = scan.observed_at
        rule = rule if scan.reader_id is not None else Rule.PERSON
        no = add_track(scan, rule)
        self._opened.append(row_values(no, 0, self._source(scan), scan, rule=rule))
        return Position(no, scan.location_id, at, at, at, 0, rule, 1)

    def _append_scan(self, position: Position, scan: Scan, rule: Rule) -> None:
        row = row_values(position.no, 0, self._source(scan), scan, rule=rule)
        self._append(position, row, scan.location_id)

    def _append_step(self, position: Position, step: Step) -> None:
        if step.detection:
            position.last_seen_at = max(position.row_at, step.ended_at or 0)
            self._append(position, row_of_step(position.no, step, step.detection), step.location_id)

    def _append(self, position: Position, row: NewRow, location_id: int) -> None:
        """Add the newest row, which closes the stay before it."""
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
            if self._recent is not None:
                self._recent.readers[number] = scan.reader_id
        return number


def _is_better_reason(scan: Scan, position: Position) -> bool:
    """Return True if a read at the current location may be a stronger reason for the stay."""
    return scan.weight >= PORTAL and scan.observed_at // SECOND == position.row_at // SECOND
