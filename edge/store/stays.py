"""The stays that make up history, and how one is changed after the fact.

A scan that is the newest of its asset only opens or prolongs the last stay (`scans`). One that arrives late, or that
its person takes back, changes what lies before: it splits a stay, moves the beginning of one, or joins two.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple

from edge.clock import SECOND
from edge.store.database import execute, execute_many, writing
from edge.store.evidence import Heard, Rule, Weight
from edge.store.retrace import Step


class Quality(IntEnum):
    """Whose clock gave the time of a scan."""

    READER = 0
    RECEIVED = 1  # the reader gave no credible time
    CORRECTED = 2  # the reader's, less its constant offset
    UNTRUSTED = 3  # the box's own clock was behind what it had recorded before
    HANDHELD = 4
    CARRIED = 5  # not seen itself: its carrier was


class Scan(NamedTuple):
    """One sighting of one asset. `port` is None where the reader has no antennas, `reader_id` for a person's scan."""

    organization_id: int
    asset_id: int
    location_id: int
    reader_id: int | None
    port: int | None
    observed_at: int
    received_at: int
    quality: Quality
    rssi: float | None = None
    weight: Weight = Weight.RFID_ZONE


class Position:
    """A position being changed: read once, written once for a whole batch."""

    __slots__ = (
        "dwell_started_at",
        "history_rows",
        "last_seen_at",
        "location_id",
        "no",
        "row_at",
        "row_rule",
        "row_seq",
        "stored_location_id",
    )

    def __init__(
        self,
        no: int,
        location_id: int,
        last_seen_at: int,
        dwell_started_at: int,
        row_at: int,
        row_seq: int,
        row_rule: int,
        history_rows: int,
    ) -> None:
        self.no = no
        self.location_id = self.stored_location_id = location_id
        self.last_seen_at = last_seen_at
        self.dwell_started_at = dwell_started_at
        self.row_at = row_at
        self.row_seq = row_seq
        self.row_rule = row_rule
        self.history_rows = history_rows


class StayRow(NamedTuple):
    """A stored history row with the end of its stay."""

    observed_at: int
    seq: int
    ended_at: int
    source_no: int
    location_id: int
    by_person: bool
    delay: int
    quality: int
    rssi: int | None
    rule: int


# position_no, observed_at, seq, seen_for, source_no, delay, quality, rssi, rule
NewRow = tuple[int, int, int, int, int, int, int, int | None, int]

INSERT_ROW = (
    "INSERT INTO history (position_no, observed_at, seq, seen_for, source_no, delay, quality, rssi, rule) "
    "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
CLOSE_STAY = (
    "UPDATE history SET seen_for = ?1 WHERE position_no = ?2 AND observed_at = ?3 AND seq = ?4 AND seen_for <> ?1"
)


def row_values(
    position_no: int, seq: int, source_no: int, scan: Scan, seen_for: int = 0, rule: Rule = Rule.EVERY_READ
) -> NewRow:
    rule = rule if scan.reader_id is not None else Rule.PERSON
    delay = scan.received_at - scan.observed_at
    return (position_no, scan.observed_at, seq, seen_for, source_no, delay, scan.quality, _tenths(scan.rssi), rule)


def row_of_step(position_no: int, step: Step, heard: Heard, seq: int = 0) -> NewRow:
    delay, quality, rssi = heard.delay, heard.quality, _tenths(heard.rssi)
    return (position_no, step.observed_at, seq, 0, heard.source_no, delay, quality, rssi, step.rule)


def _tenths(rssi: float | None) -> int | None:
    return None if rssi is None else round(rssi * 10)


def load_positions(asset_ids: set[int]) -> dict[int, Position]:
    found = execute(
        "SELECT asset_id, no, location_id, last_seen_at, dwell_started_at, row_at, row_seq, row_rule, history_rows "
        "FROM track WHERE site_no IS NULL AND asset_id IN (SELECT value FROM json_each(?))",
        (json.dumps(list(asset_ids)),),
    )
    return {asset_id: Position(*columns) for asset_id, *columns in found}


def write_positions(positions: Sequence[Position]) -> None:
    execute_many(
        "UPDATE track SET last_seen_at = ?, dwell_started_at = ?, row_at = ?, row_seq = ?, row_rule = ?, "
        "history_rows = ? WHERE no = ?",
        [
            (p.last_seen_at, p.dwell_started_at, p.row_at, p.row_seq, p.row_rule, p.history_rows, p.no)
            for p in positions
        ],
    )
    moved = [(p.location_id, p.no) for p in positions if p.location_id != p.stored_location_id]
    execute_many("UPDATE track SET location_id = ? WHERE no = ?", moved)


def insert_late(position: Position, scan: Scan, source_no: int, gap: int) -> bool:
    """Put a scan in its place among older rows; False if it is known already. Corrects `position`."""
    at, gap = scan.observed_at, gap if scan.reader_id is not None else 0
    before = _rows_until(position, at)
    if scan.reader_id is not None and any(_covers(row, scan, source_no, gap) for row in before):
        return False  # two scans by people are two rows, also within one instant
    previous = before[0] if before else None
    following = _row_after(position, at)

    if previous and gap and previous.location_id == scan.location_id and at - previous.ended_at <= gap:
        _set_end(position, previous, at)
        _join(position, previous._replace(ended_at=at), following, gap)
    else:
        seq = previous.seq + 1 if previous and previous.observed_at == at else 0
        seen_for = 0
        if previous and previous.ended_at > at:
            _set_end(position, previous, at)
            if previous.location_id == scan.location_id:
                seen_for = previous.ended_at - at
            else:
                _come_back(position, previous, following)
                following = None
        execute(INSERT_ROW, row_values(position.no, seq, source_no, scan, seen_for))
        position.history_rows += 1
        _join(position, _row_of(position, at, seq), following, gap)
    _settle(position)
    return True


def rows_from(position: Position, at: int) -> tuple[StayRow | None, list[StayRow]]:
    """The last row that began before `at`, and all from then on, in order."""
    before = _rows_until(position, at - 1, limit=1)
    query = _SELECT_ROW + "AND h.observed_at >= ? ORDER BY h.observed_at, h.seq"
    rows = [_with_end(position, StayRow(*row)) for row in execute(query, (position.no, at))]
    return (before[0] if before else None), rows


def last_read_second(position: Position) -> int:
    """The second in which a reader last saw the asset, -1 if none did. A person may have scanned it since."""
    if position.row_rule != Rule.PERSON or position.last_seen_at > position.row_at:
        return position.last_seen_at // SECOND
    last: int | None = execute(
        "SELECT max(h.observed_at + h.seen_for) FROM history h JOIN source s ON s.no = h.source_no "
        "WHERE h.position_no = ? AND (s.reader_id IS NOT NULL OR h.seen_for > 0)",
        (position.no,),
    ).fetchone()[0]
    return -1 if last is None else last // SECOND


def replace_rows(
    position: Position, before: StayRow | None, rows: Sequence[StayRow], steps: Sequence[Step], seen_at: int
) -> None:
    """Make `rows`, which follow `before`, what `steps` say, touching only what differs. Corrects `position`."""
    found = [_stored(rows, step) for step in steps]
    for row in rows:
        if row not in found:
            _delete(position, row)
    taken = {(row.observed_at, row.seq) for row in found if row}
    keys = []
    for step, stored in zip(steps, found, strict=True):
        seq = stored.seq if stored else int((step.observed_at, 0) in taken)
        if stored is None and step.heard:
            execute(INSERT_ROW, row_of_step(position.no, step, step.heard, seq))
            position.history_rows += 1
        keys.append((step.observed_at, seq))
    if before:
        keys.insert(0, (before.observed_at, before.seq))
    ends = [step.ended_at for step in steps][0 if before else 1 :]
    for (at, seq), end in zip(keys, [*ends, None], strict=True):
        execute(CLOSE_STAY, (0 if end is None else max(0, end - at), position.no, at, seq))
    position.last_seen_at = max(seen_at, keys[-1][0])
    _settle(position)


def _stored(rows: Sequence[StayRow], step: Step) -> StayRow | None:
    if step.by_person:
        return rows[step.by_person.key]
    for row in rows:
        if step.heard and (row.observed_at, row.source_no, row.rule) == (
            step.observed_at,
            step.heard.source_no,
            step.rule,
        ):
            return row
    return None


def _covers(row: StayRow, scan: Scan, source_no: int, gap: int) -> bool:
    """Whether a stored row already tells what the scan tells."""
    if gap:
        return row.location_id == scan.location_id and row.observed_at <= scan.observed_at <= row.ended_at
    return row.source_no == source_no and row.observed_at == scan.observed_at


def _come_back(position: Position, stay: StayRow, following: StayRow | None) -> None:
    """A stay turns out to be two: the asset was elsewhere in between, and back when the stay ended at the latest.

    A stay that ends where the next row begins was cut there before; nothing is known of a return in between.
    """
    if following is None or following.observed_at > stay.ended_at:
        execute(INSERT_ROW, (position.no, stay.ended_at, 0, 0, stay.source_no, 0, stay.quality, stay.rssi, 0))
        position.history_rows += 1


def _join(position: Position, row: StayRow | None, following: StayRow | None, gap: int) -> None:
    """A row that turns out to be no move and no new sighting, because the asset was seen there shortly before, goes."""
    if row is None or following is None or not gap or following.by_person or row.by_person:
        return
    if following.location_id == row.location_id and following.observed_at - row.ended_at <= gap:
        _delete(position, following)
        _set_end(position, row, following.ended_at)


def _settle(position: Position) -> None:
    """After rows changed in the middle: which is the newest now, and since when is the asset where it is."""
    newest = _rows_until(position, position.last_seen_at, limit=1)[0]
    position.row_at, position.row_seq, position.row_rule = newest.observed_at, newest.seq, newest.rule
    position.location_id = newest.location_id
    elsewhere = execute(
        "SELECT h.observed_at, h.seq FROM history h JOIN source s ON s.no = h.source_no "
        "WHERE h.position_no = ? AND s.location_id <> ? ORDER BY h.observed_at DESC, h.seq DESC LIMIT 1",
        (position.no, newest.location_id),
    ).fetchone() or (-(2**62), 0)
    position.dwell_started_at = execute(
        "SELECT observed_at FROM history WHERE position_no = ? AND (observed_at, seq) > (?, ?) "
        "ORDER BY observed_at, seq LIMIT 1",
        (position.no, *elsewhere),
    ).fetchone()[0]


_SELECT_ROW = (
    "SELECT h.observed_at, h.seq, h.observed_at + h.seen_for, h.source_no, s.location_id, s.reader_id IS NULL, "
    "h.delay, h.quality, h.rssi, h.rule FROM history h JOIN source s ON s.no = h.source_no WHERE h.position_no = ? "
)


def _rows_until(position: Position, at: int, limit: int = 8) -> list[StayRow]:
    """The last rows that began at `at` or before, newest first. Eight reach past all rows of one instant."""
    query = _SELECT_ROW + "AND h.observed_at <= ? ORDER BY h.observed_at DESC, h.seq DESC LIMIT ?"
    return [_with_end(position, StayRow(*row)) for row in execute(query, (position.no, at, limit))]


def _row_after(position: Position, at: int) -> StayRow | None:
    query = _SELECT_ROW + "AND h.observed_at > ? ORDER BY h.observed_at, h.seq LIMIT 1"
    for row in execute(query, (position.no, at)):
        return _with_end(position, StayRow(*row))
    return None


def _row_of(position: Position, at: int, seq: int) -> StayRow | None:
    for row in execute(_SELECT_ROW + "AND h.observed_at = ? AND h.seq = ?", (position.no, at, seq)):
        return StayRow(*row)
    return None


def _with_end(position: Position, row: StayRow) -> StayRow:
    is_newest = (row.observed_at, row.seq) == (position.row_at, position.row_seq)
    return row._replace(ended_at=position.last_seen_at) if is_newest else row


def _set_end(position: Position, row: StayRow, end: int) -> None:
    execute(CLOSE_STAY, (end - row.observed_at, position.no, row.observed_at, row.seq))


def _delete(position: Position, row: StayRow) -> None:
    execute(
        "DELETE FROM history WHERE position_no = ? AND observed_at = ? AND seq = ?",
        (position.no, row.observed_at, row.seq),
    )
    position.history_rows -= 1


def take_back(asset_id: int, observed_at: int, seq: int, gap: int) -> None:
    """Remove one person's scan: position and history become what they would be without it.

    Where a fixed reader saw the asset at that place afterwards, the stay begins with that sighting instead.
    """
    with writing():
        position = load_positions({asset_id}).get(asset_id)
        row = _row_of(position, observed_at, seq) if position else None
        if position is None or row is None:
            return
        row = _with_end(position, row)
        before = [other for other in _rows_until(position, observed_at) if (other.observed_at, other.seq) < row[:2]]
        previous = before[0] if before else None
        is_newest = (position.row_at, position.row_seq) == (row.observed_at, row.seq)
        _delete(position, row)
        if row.ended_at > row.observed_at:
            _keep_confirmed(position, previous, row)
        elif previous and is_newest:
            position.last_seen_at = previous.ended_at
        elif previous:
            _join(position, previous, _row_after(position, observed_at), gap)
        if position.history_rows:
            _settle(position)
            write_positions([position])
        else:
            execute("DELETE FROM track WHERE no = ?", (position.no,))


def _keep_confirmed(position: Position, previous: StayRow | None, row: StayRow) -> None:
    """After a scan that is taken back a fixed reader went on seeing the asset there: that stays."""
    if previous and previous.location_id == row.location_id:
        _set_end(position, previous, row.ended_at)
    else:
        values = (position.no, row.ended_at, 0, 0, row.source_no, row.delay, row.quality, row.rssi, 0)
        execute(INSERT_ROW, values)
        position.history_rows += 1
