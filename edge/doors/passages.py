"""Recording of passages: keeps the last reads at doors and decides again whatever new reads may change.

Called in the transaction of the batch that brings the reads. Decisions depend on the reads and their times only, so
late reads and other batches lead to the same passages. A changed passage keeps its number; one that late reads disprove
is marked as withdrawn, because its event is already out.

Tags that pass together are judged together once no more of their reads arrive: see `group_rule`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from edge import clock
from edge.clock import SECOND
from edge.database.connection import execute, execute_many, scalar
from edge.doors.doors import Readable, all_antennas
from edge.doors.group_rule import VOTES, WINDOW, Way, span_of, ways_of, windows_with, with_shared
from edge.doors.passage_rule import ALONE, LINK, MARGIN, REACH, REVISED, STAY, Direction, DoorRead, Passage, passages
from edge.tracking.signal_strength import NO_RSSI

KEPT_FOR = 600 * SECOND  # after receipt
MOST_KEPT = 300_000  # reads
DROPPED_AT_ONCE = 5_000
COUNTED_EVERY = 30 * SECOND
MOST_REMEMBERED = 20_000  # pairs of asset and door
MOST_SHOWN = 60  # reads kept with a passage
SAME = 12 * SECOND  # a decision at most that far from an earlier one revises it
QUIET = 2 * SECOND  # without a further read: tags that pass together are judged
LATEST = 5 * SECOND  # after the first read that is not judged yet
MOST_VISITORS = 2_000  # tags in one window of a door
MEMBERS_AT_ONCE = 100  # assets decided again in a transaction
MOST_WINDOWS = 2_000


_Window = tuple[int, int]  # door and number of a window, see `group_rule`


class NewRead(NamedTuple):
    """A read of an asset by an antenna that may belong to doors."""

    asset_id: int
    observed_at: int
    door_id: int
    side: int
    tenths: int


class DoorReads:
    """Reads of one ingest process at doors. Not thread-safe."""

    def __init__(self) -> None:
        self._version = -1
        self._antennas: Mapping[tuple[int, int | None], Sequence[Readable]] = {}
        self._organizations: dict[int, int] = {}
        self._new: list[NewRead] = []
        self._last: dict[tuple[int, int], list[int]] = {}  # (asset, door) -> last read on each side
        self._swept_at = self._counted_at = 0
        self._drop_before = 0
        self._ways: dict[_Window, tuple[Way, ...] | None] = {}  # None: judged before the start or a rollback
        self._recalled: dict[_Window, tuple[Way, ...]] = {}  # those judged before, until they are judged again
        self._due: dict[_Window, list[int]] = {}  # times since boot of the first and last read that is not judged yet
        self._members: list[tuple[int, _Window]] = []  # assets to decide again

    def refresh(self) -> None:
        """Reload the antennas if they changed. First step of each transaction."""
        self._new.clear()
        version = scalar("SELECT doors FROM version")
        if version != self._version:
            self._antennas = all_antennas()
            self._organizations = dict(
                execute("SELECT id, organization_id FROM door WHERE deleted_at IS NULL AND site_no IS NULL")
            )
            self._last.clear()
            self._judge_all_again()
            self._version = version

    def forget(self) -> None:
        """Discard the memory after a rollback."""
        self._version = -1
        self._new.clear()
        self._members.clear()

    def _judge_all_again(self) -> None:
        windows = {
            (door_id, window)
            for door_id, at in execute("SELECT DISTINCT door_id, observed_at / ? FROM door_read", (SECOND,))
            if door_id in self._organizations
            for window in windows_with(at * SECOND)
        }
        now = clock.elapsed()
        self._ways = dict.fromkeys(windows)
        self._recalled.clear()
        self._due = {window: [now, now] for window in windows}

    @property
    def is_idle(self) -> bool:
        """Return True if there are no doors."""
        return not self._antennas

    def of(self, reader_id: int, port: int | None) -> Sequence[Readable]:
        """Return the doors to which an antenna belongs."""
        antennas = self._antennas
        return antennas.get((reader_id, port or 0)) or antennas.get((reader_id, None)) or ()

    def note(self, doors: Sequence[Readable], asset_id: int, observed_at: int, rssi: float | None) -> None:
        """Collect a read by an antenna of these doors, without those that have been removed since."""
        for door in doors:
            if door.door_id in self._organizations:
                tenths = NO_RSSI if rssi is None else max(-30_000, min(30_000, round(rssi * 10)))
                self._new.append(NewRead(asset_id, observed_at, door.door_id, door.side, tenths))

    def record(self) -> None:
        """Store the collected reads and decide. Within the caller's transaction."""
        if not self._new:
            return
        now = clock.now()
        execute_many(
            "INSERT INTO door_read (asset_id, observed_at, door_id, side, tenths, received_at) "
            "VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
            [(*read, now) for read in self._new],
        )
        by_asset: dict[int, list[int]] = {}
        elapsed = clock.elapsed()
        for read in self._new:
            if self._may_decide(read):
                by_asset.setdefault(read.asset_id, []).append(read.observed_at)
            for window in windows_with(read.observed_at):
                self._due.setdefault((read.door_id, window), [elapsed, elapsed])[1] = elapsed
        self._new.clear()
        for asset_id, times in by_asset.items():
            for since, until in _ranges(times):
                self._decide(asset_id, since, until, now)
        self._sweep(now)

    @property
    def is_due(self) -> bool:
        """Return True if `settle` has work."""
        return bool(self._members) or self._next_window() is not None

    def settle(self) -> bool:
        """Judge some tags that passed together. Within the caller's transaction. Returns True if there were any."""
        members, self._members = self._members[:MEMBERS_AT_ONCE], self._members[MEMBERS_AT_ONCE:]
        if members:
            now = clock.now()
            for asset_id, (_, window) in members:
                self._decide(asset_id, window * WINDOW - MARGIN, (window + 1) * WINDOW + MARGIN, now)
            return True
        key = self._next_window()
        if key is None:
            return False
        del self._due[key]
        visitors = _visitors(*key)
        ways = ways_of(key[1], visitors) if len(visitors) > VOTES else ()
        if ways != self._ways.get(key, ()):
            self._members = [
                (asset_id, key) for asset_id, reads in visitors.items() if len({r.side for r in reads}) > 1
            ]
        self._ways.pop(key, None)
        self._recalled.pop(key, None)
        if ways:
            self._ways[key] = ways
            if len(self._ways) > MOST_WINDOWS:
                del self._ways[next(iter(self._ways))]
        return True

    def _next_window(self) -> _Window | None:
        now = clock.elapsed()
        due = (key for key, (first, last) in self._due.items() if now - last >= QUIET or now - first >= LATEST)
        return next(due, None)

    def _ways_at(self, door_id: int, since: int, until: int) -> Iterator[tuple[_Window, Sequence[Way]]]:
        """Yield the ways that were judged last, by window."""
        for window in range(since // WINDOW, until // WINDOW + 1):
            key = door_id, window
            ways = self._ways.get(key, ())
            if ways is None:
                if key not in self._recalled:  # not for each asset, since ingest waits meanwhile
                    self._recalled[key] = ways_of(window, _visitors(*key))
                ways = self._recalled[key]
            yield key, ways

    def _decide(self, asset_id: int, since: int, until: int, now: int) -> None:
        """Decide the passages of an asset in a range of time, and write the differences."""
        reads = _reads(asset_id, since - LINK - REACH, until + LINK + REACH)
        ways = dict(pair for door_id in reads for pair in self._ways_at(door_id, since - LINK, until + LINK))
        decided = [
            (door_id, one)
            for door_id, one in with_shared(passages(reads, since - LINK, until + LINK), reads, ways)
            if door_id in self._organizations and since <= one.at < until
        ]
        # The reads behind passages of that time, or of a clock that was set back since, may have been dropped.
        dropped = max(now - KEPT_FOR, self._drop_before)
        stored = [_Stored(*row) for row in execute(_STORED, (dropped, now + KEPT_FOR, asset_id, since, until))]
        for door_id, one in decided:
            before = _earlier(stored, door_id, one)
            new = (door_id, one.at, int(one.direction), round(one.confidence * 1000), *one[3:7])
            if before is not None:
                stored.remove(before)
                if before.values == new or before.is_final:
                    continue
            shown = _packed(reads[door_id], one)
            if before is None:
                execute(_INSERT, (*new, self._organizations[door_id], asset_id, now, shown))
            else:
                execute(_UPDATE, (*new, shown, before.direction != one.direction, before.no))
        for gone in stored:
            if not gone.is_final and gone.direction != Direction.WITHDRAWN and gone.door_id in self._organizations:
                execute(_WITHDRAW, (Direction.WITHDRAWN, gone.no))

    def _may_decide(self, read: NewRead) -> bool:
        """Return False if the read cannot change a passage: the other side has not read the asset at about the time.

        A pallet near a door is read by one side for hours, and costs no decision.
        """
        key = (read.asset_id, read.door_id)
        last = self._last.get(key)
        if last is None:
            if len(self._last) >= MOST_REMEMBERED:
                self._last.clear()
            last = self._last[key] = _last_reads(*key)
        is_late = read.observed_at < max(last)
        last[read.side] = max(last[read.side], read.observed_at)
        return is_late or abs(read.observed_at - last[1 - read.side]) <= LINK + ALONE

    def _sweep(self, now: int) -> None:
        if 0 <= now - self._swept_at < SECOND:  # negative after the clock was set back
            return
        self._swept_at = now
        if not 0 <= now - self._counted_at < COUNTED_EVERY:
            self._counted_at = now
            row = execute(
                "SELECT received_at FROM door_read ORDER BY received_at DESC LIMIT 1 OFFSET ?", (MOST_KEPT,)
            ).fetchone()
            self._drop_before = row[0] if row else 0
        # The second ones were received before the clock was set back.
        for condition, limit in (("<", max(now - KEPT_FOR, self._drop_before)), (">", now + KEPT_FOR)):
            execute(
                "DELETE FROM door_read WHERE (asset_id, observed_at, door_id, side, tenths) IN "
                "(SELECT asset_id, observed_at, door_id, side, tenths FROM door_read "
                f"WHERE received_at {condition} ? ORDER BY received_at LIMIT ?)",
                (limit, DROPPED_AT_ONCE),
            )


_STORED = """
SELECT no, door_id, at, direction, confidence, inner_reads, outer_reads, since, until, decided_at NOT BETWEEN ? AND ?
FROM passage WHERE asset_id = ? AND at >= ? AND at < ? AND site_no IS NULL ORDER BY at, no
"""
_WITHDRAW = "UPDATE passage SET direction = ?, revision = revision + 1 WHERE no = ?"
_NEVER = -(2**62)


def _last_reads(asset_id: int, door_id: int) -> list[int]:
    last = [_NEVER, _NEVER]
    rows = execute(
        "SELECT side, max(observed_at) FROM door_read WHERE asset_id = ? AND door_id = ? GROUP BY side",
        (asset_id, door_id),
    )
    for side, at in rows:
        last[side] = at
    return last


def _ranges(times: list[int]) -> list[tuple[int, int]]:
    """Return the ranges of time in which decisions may change; overlapping ones are joined."""
    ranges: list[tuple[int, int]] = []
    for at in sorted(times):
        if ranges and at - REVISED <= ranges[-1][1]:
            ranges[-1] = (ranges[-1][0], at + REVISED)
        else:
            ranges.append((at - REVISED, at + REVISED))
    return ranges


class _Stored(NamedTuple):
    no: int
    door_id: int
    at: int
    direction: int
    confidence: int
    inner_reads: int
    outer_reads: int
    since: int
    until: int
    is_final: bool

    @property
    def values(self) -> tuple[int, ...]:
        return self[1:-1]


def _earlier(stored: Sequence[_Stored], door_id: int, one: Passage) -> _Stored | None:
    """Return the earlier decision about the same passage: the nearest one at the door."""
    near = [row for row in stored if row.door_id == door_id and abs(row.at - one.at) <= SAME]
    return min(near, key=lambda row: (abs(row.at - one.at), row.no), default=None)


_DECISION = "door_id, at, direction, confidence, inner_reads, outer_reads, since, until"
_INSERT = (
    f"INSERT INTO passage ({_DECISION}, organization_id, asset_id, decided_at, reads) "
    "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
_UPDATE = f"UPDATE passage SET ({_DECISION}, reads) = (?, ?, ?, ?, ?, ?, ?, ?, ?), revision = revision + ? WHERE no = ?"


def _visitors(door_id: int, window: int) -> dict[int, list[DoorRead]]:
    """Return the reads of each asset that was at a door for a short time only."""
    since, until = span_of(window)
    rows = execute(_VISITORS, (door_id, since, until, STAY, MOST_VISITORS))
    visitors: dict[int, list[DoorRead]] = {}
    for asset_id, at, side, tenths in rows:
        visitors.setdefault(asset_id, []).append(_door_read(at, side, tenths))
    return visitors


_VISITORS = """
SELECT r.asset_id, r.observed_at, r.side, r.tenths FROM (
    SELECT asset_id FROM door_read WHERE door_id = ?1 AND observed_at >= ?2 AND observed_at < ?3
    GROUP BY asset_id HAVING max(observed_at) - min(observed_at) <= ?4 ORDER BY asset_id LIMIT ?5
) visitor CROSS JOIN door_read r ON r.asset_id = visitor.asset_id AND r.observed_at >= ?2 AND r.observed_at < ?3
WHERE r.door_id = ?1 ORDER BY r.asset_id, r.observed_at, r.side, r.tenths
"""


def _door_read(at: int, side: int, tenths: int) -> DoorRead:
    return DoorRead(at, side, None if tenths == NO_RSSI else tenths / 10)


def _reads(asset_id: int, since: int, until: int) -> dict[int, list[DoorRead]]:
    rows = execute(
        "SELECT door_id, observed_at, side, tenths FROM door_read WHERE asset_id = ? AND observed_at BETWEEN ? AND ? "
        "ORDER BY observed_at, side, tenths",
        (asset_id, since, until),
    )
    reads: dict[int, list[DoorRead]] = {}
    for door_id, at, side, tenths in rows:
        reads.setdefault(door_id, []).append(_door_read(at, side, tenths))
    return reads


_PACKED = struct.Struct("<IBh")  # microseconds since the first read, side, tenths of a dBm


def _packed(reads: Sequence[DoorRead], one: Passage) -> bytes:
    """Return the reads behind a passage. Of too many, the strongest of each side in equal steps of time."""
    behind = [read for read in reads if one.since <= read.at <= one.until]
    if len(behind) > MOST_SHOWN:
        step = (one.until - one.since) // (MOST_SHOWN // 2) + 1
        best: dict[tuple[int, int], DoorRead] = {}
        for read in behind:
            key = ((read.at - one.since) // step, read.side)
            if key not in best or read.strength > best[key].strength:
                best[key] = read
        behind = sorted(best.values())
    return b"".join(
        _PACKED.pack(read.at - one.since, read.side, NO_RSSI if read.rssi is None else round(read.rssi * 10))
        for read in behind
    )


def unpacked(packed: bytes | None, since: int) -> list[DoorRead]:
    """Return the reads that were kept with a passage."""
    return [_door_read(since + after, side, tenths) for after, side, tenths in _PACKED.iter_unpack(packed or b"")]
