"""Changes to existing history: for late reads, undone scans and revised decisions."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from edge.clock import SECOND
from edge.database.connection import execute, execute_many, writing
from edge.tracking.counted_reads import CountedRead, CountedReads, first_after
from edge.tracking.decision_rule import Rule
from edge.tracking.retrace import Step
from edge.tracking.signal_strength import NO_RSSI, Detection
from edge.tracking.stays import (
    CLOSE_STAY,
    INSERT_ROW,
    Position,
    Scan,
    StayRow,
    load_positions,
    row_of_step,
    row_values,
    write_positions,
)


def insert_late(position: Position, scan: Scan, source_no: int, gap: int, counted: CountedReads) -> bool:
    """Insert a scan among older rows. Returns False if it is already known. Updates `position`.

    `counted` gives the reads before and after it if it splits a stay, as far as they are known.
    """
    at, gap = scan.observed_at, gap if scan.reader_id is not None else 0
    before = _rows_until(position, at)
    if scan.reader_id is not None and any(_covers(row, scan, source_no, gap) for row in before):
        return False  # scans by people are separate rows, even at one instant
    previous = before[0] if before else None
    following = _row_after(position, at)

    if previous and gap and previous.location_id == scan.location_id and at - previous.ended_at <= gap:
        _set_end(position, previous, at)
        _join(position, previous._replace(ended_at=at), following, gap)
    else:
        seq = previous.seq + 1 if previous and previous.observed_at == at else 0
        seen_for = 0
        if previous and previous.ended_at > at:
            last, again = counted.around(scan, previous.location_id, previous.observed_at, previous.ended_at)
            _set_end(position, previous, last.observed_at if last else at)
            if previous.location_id == scan.location_id:
                seen_for = previous.ended_at - at
            else:
                _come_back(position, previous, again, following)
                following = None
        execute(INSERT_ROW, row_values(position.no, seq, source_no, scan, seen_for))
        position.history_rows += 1
        _join(position, _row_of(position, at, seq), following, gap)
    _settle(position, scan.location_id if previous and previous.location_id == scan.location_id else None, at)
    return True


def rows_from(position: Position, at: int) -> tuple[StayRow | None, list[StayRow]]:
    """Return the last row that began before `at`, and all later rows in order."""
    before = _rows_until(position, at - 1, limit=1)
    query = _SELECT_ROW + "AND h.observed_at >= ? ORDER BY h.observed_at, h.seq"
    rows = [_with_end(position, StayRow(*row)) for row in execute(query, (position.no, at))]
    return (before[0] if before else None), rows


def relocate(
    position: Position, since: int, until: int, renamed: Mapping[int, int], gap: int, limit: int
) -> tuple[int | None, int]:
    """Change the source of rows, and join stays that become one. Updates `position`.

    Processes at most `limit` rows. Returns the time to continue from (None at the end), and the number of processed
    rows.
    """
    query = _SELECT_ROW + "AND h.observed_at BETWEEN ? AND ? ORDER BY h.observed_at, h.seq LIMIT ?"
    selected = execute(query, (position.no, since, until, limit)).fetchall()
    rows = [_with_end(position, StayRow(*row)) for row in selected]
    is_end = len(rows) < limit
    wrong = [row for row in rows if row.source_no in renamed]
    execute_many(
        "UPDATE history SET source_no = ? WHERE position_no = ? AND observed_at = ? AND seq = ?",
        [(renamed[row.source_no], position.no, row.observed_at, row.seq) for row in wrong],
    )
    if wrong:
        _join_around(position, wrong[0].observed_at, rows[-1].observed_at, gap, limit)
        _settle(position)
    if is_end:
        return None, len(rows)
    is_one_instant = rows[0].observed_at == rows[-1].observed_at
    return rows[-1].observed_at + is_one_instant, len(rows)  # there may be more rows at the last instant


def _join_around(position: Position, begin: int, end: int, gap: int, limit: int) -> None:
    """Join neighboring stays at one location, from the row before `begin` to the one after `end`."""
    row = next(iter(_rows_until(position, begin - 1, limit=1)), None)
    at, seq = (row.observed_at, row.seq) if row else (begin, -1)
    query = _SELECT_ROW + "AND (h.observed_at, h.seq) > (?, ?) ORDER BY h.observed_at, h.seq LIMIT ?"
    for values in execute(query, (position.no, at, seq, limit + 2)).fetchall():
        following = _with_end(position, StayRow(*values))
        rows_before = position.history_rows
        _join(position, row, following, gap)
        if row and position.history_rows < rows_before:
            row = row._replace(ended_at=max(row.ended_at, following.ended_at))
        else:
            row = following
        if following.observed_at > end:
            return


class RowCount(NamedTuple):
    """Rows of one asset in a period: those of some sources, how many of these are newest, and all."""

    asset_id: int
    rows: int
    current: int
    all_rows: int


def tracks_since(organization_id: int, after: int, since: int, limit: int) -> list[tuple[int, int]]:
    """Return number and row count of tracks numbered above `after` whose asset was seen at or after `since`."""
    return execute(_TRACKS_SINCE, (organization_id, after, since, limit)).fetchall()


def count_rows(tracks: Collection[int], sources: Collection[int], since: int, until: int) -> list[RowCount]:
    """Count the rows of these tracks that began in a period, both ends included."""
    values = (json.dumps(list(tracks)), json.dumps(list(sources)), since, until)
    return [RowCount(*row) for row in execute(_COUNT, values)]


_TRACKS_SINCE = """
SELECT no, history_rows FROM track
WHERE organization_id = ? AND no > ? AND last_seen_at >= ? AND site_no IS NULL ORDER BY no LIMIT ?
"""
# From the tracks to their rows by the primary key: `history` has no index by source.
_COUNT = """
SELECT t.asset_id, sum(h.source_no IN (SELECT value FROM json_each(?2))),
    sum(h.observed_at = t.row_at AND h.seq = t.row_seq AND h.source_no IN (SELECT value FROM json_each(?2))), count(*)
FROM json_each(?1) chosen CROSS JOIN track t ON t.no = chosen.value
CROSS JOIN history h ON h.position_no = t.no AND h.observed_at BETWEEN ?3 AND ?4
GROUP BY t.asset_id
"""


def last_read_second(position: Position) -> int:
    """Return the second of the last read by a reader, -1 if there is none. Later scans by people do not count."""
    if position.row_rule != Rule.PERSON or position.last_seen_at > position.row_at:
        return position.last_seen_at // SECOND
    last: int | None = execute(
        "SELECT max(h.observed_at + h.seen_for) FROM history h JOIN source s ON s.no = h.source_no "
        "WHERE h.position_no = ? AND (s.reader_id IS NOT NULL OR h.seen_for > 0)",
        (position.no,),
    ).fetchone()[0]
    return -1 if last is None else last // SECOND


def stayed_with(position: Position, began_at: int, seen_at: int) -> Detection | None:
    """Return the read at `seen_at` as far as history has it; None if no reader read the begin of the stay."""
    row = _row_of(position, began_at, 0)
    if row is None or row.by_person:
        return None
    tenths = NO_RSSI if row.rssi is None else row.rssi
    began = Detection(0, row.location_id, 0.0, 0, 0, 0, row.source_no, tenths, row.quality, row.delay)
    return began.as_in_history().at(seen_at)


def replace_rows(
    position: Position, before: StayRow | None, rows: Sequence[StayRow], steps: Sequence[Step], seen_at: int
) -> None:
    """Replace `rows`, which follow `before`, by `steps`, and write only differences. Updates `position`."""
    stored_rows = [_stored(rows, step) for step in steps]
    for row in rows:
        if row not in stored_rows:
            _delete(position, row)
    taken = {(row.observed_at, row.seq) for row in stored_rows if row}
    keys = []
    for step, stored in zip(steps, stored_rows, strict=True):
        seq = stored.seq if stored else int((step.observed_at, 0) in taken)
        if stored is None and step.detection:
            execute(INSERT_ROW, row_of_step(position.no, step, step.detection, seq))
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
        if step.detection and (row.observed_at, row.source_no, row.rule) == (
            step.observed_at,
            step.detection.source_no,
            step.rule,
        ):
            return row
    return None


def _covers(row: StayRow, scan: Scan, source_no: int, gap: int) -> bool:
    """Return True if a stored row already covers the scan."""
    if gap:
        return row.location_id == scan.location_id and row.observed_at <= scan.observed_at <= row.ended_at
    return row.source_no == source_no and row.observed_at == scan.observed_at


def _come_back(position: Position, stay: StayRow, again: CountedRead | None, following: StayRow | None) -> None:
    """Split a stay: the asset was elsewhere in between, and returned with the read `again`.

    If that read is no longer known, it returned by the end of the stay. A stay that ends where the next row begins was
    split earlier; whether the asset returned in between is unknown.
    """
    back_at = again.observed_at if again else stay.ended_at
    if following and following.observed_at <= back_at:
        return
    if again:
        rssi, delay = None if again.rssi is None else round(again.rssi * 10), again.delay
        seen_for = stay.ended_at - back_at
        row = (position.no, back_at, 0, seen_for, again.source_no, delay, again.quality, rssi, Rule.EVERY_READ)
    else:
        row = (position.no, back_at, 0, 0, stay.source_no, 0, stay.quality, stay.rssi, Rule.EVERY_READ)
    execute(INSERT_ROW, row)
    position.history_rows += 1


def _join(position: Position, row: StayRow | None, following: StayRow | None, gap: int) -> None:
    """Delete a row that is neither a move nor a new sighting, because the asset was seen there shortly before."""
    if row is None or following is None or not gap or following.by_person:
        return
    if following.location_id == row.location_id and following.observed_at - row.ended_at <= gap:
        _delete(position, following)
        _set_end(position, row, following.ended_at)


def _settle(position: Position, only_location: int | None = None, at: int = 0) -> None:
    """Find the newest row and the arrival at the current location after rows changed.

    `only_location`: the only change is a sighting there, at `at`, within a stay there. If the asset is still there, its
    arrival is unchanged, which saves a search through the rows since.
    """
    newest = _rows_until(position, position.last_seen_at, limit=1)[0]
    is_same = only_location == position.location_id == newest.location_id and at >= position.dwell_started_at
    position.row_at, position.row_seq, position.row_rule = newest.observed_at, newest.seq, newest.rule
    position.location_id = newest.location_id
    if is_same:
        return
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


def take_back(asset_id: int, observed_at: int, seq: int, gap: int, *, keep_end: bool = True) -> None:
    """Undo one person's scan: position and history are then as they would be without it.

    If a fixed reader read the asset there afterwards, the stay begins with that read instead. Without `keep_end` only
    its carrier was read.
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
        if keep_end and row.ended_at > row.observed_at:
            _keep_confirmed(position, asset_id, previous, row, gap)
        elif previous and is_newest:
            position.last_seen_at = previous.ended_at
        elif previous:
            _join(position, previous, _row_after(position, observed_at), gap)
        if position.history_rows:
            _settle(position)
            write_positions([position])
        else:
            execute("DELETE FROM track WHERE no = ?", (position.no,))


def _keep_confirmed(position: Position, asset_id: int, previous: StayRow | None, row: StayRow, gap: int) -> None:
    """Keep later reads at the location of an undone scan.

    If the reads are no longer known, their stay begins with its end. A stay that ends where another row begins was
    split there, so its end is not a read.
    """
    again = first_after(asset_id, row.location_id, row.observed_at, row.ended_at)
    begin = again.observed_at if again else row.ended_at
    seen_until = previous.ended_at if previous and previous.location_id == row.location_id else None
    if previous and seen_until is not None and (again.observed_at if again else row.observed_at) - seen_until <= gap:
        _set_end(position, previous, row.ended_at)
    elif _row_of(position, begin, 0) is None:
        known = (row.source_no, row.delay, row.quality, row.rssi)
        if again:
            rssi = None if again.rssi is None else round(again.rssi * 10)
            known = (again.source_no, again.delay, again.quality, rssi)
        values = (position.no, begin, 0, row.ended_at - begin, *known, Rule.EVERY_READ)
        execute(INSERT_ROW, values)
        position.history_rows += 1


_SELECT_ROW = (
    "SELECT h.observed_at, h.seq, h.observed_at + h.seen_for, h.source_no, s.location_id, s.reader_id IS NULL, "
    "h.delay, h.quality, h.rssi, h.rule FROM history h JOIN source s ON s.no = h.source_no WHERE h.position_no = ? "
)


def _rows_until(position: Position, at: int, limit: int = 8) -> list[StayRow]:
    """Return the last rows that began at `at` or before, newest first. Eight reach past all rows of one instant."""
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
