"""Held reads: newer than the last sighting of their asset, at another location, and not decided yet.

A silence may decide them, so they are checked again after a while. Ingest keeps them in memory. Reads that wait longer,
for example for a reader that is out, are also stored on disk: for a restart after the recent reads have expired, and
for the check before a location is deleted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from heapq import heapify, heappop, heappush

from edge.clock import SECOND
from edge.database.connection import execute, execute_many
from edge.tracking.packed_reads import Recent
from edge.tracking.retrace import Held
from edge.tracking.signs import STEADY_FOR
from edge.tracking.stays import HeldRead, held_reads, last_seen

UNSTORED = 5 * SECOND  # most time that a held read is in memory only
STORED_AFTER = 1  # seconds
RETRY_SECONDS = 10  # seconds between checks of a read that waits for a reader that is out, at most
BATCH = 2_000  # assets in one transaction


class HeldBack:
    """Held reads by asset. Use only on the ingest thread, inside its transaction."""

    def __init__(self) -> None:
        self._held: dict[int, Held] = {}  # by asset
        self._queue: list[tuple[int, int]] = []  # (due, asset), some of them outdated
        self._unstored: set[int] = set()
        self._stored: set[int] = set()
        self._asked: dict[int, dict[int, tuple[int, int]]] = {}  # reader -> asset -> period of the decision

    def of(self, asset_id: int) -> Held | None:
        return self._held.get(asset_id)

    def has(self, asset_id: int) -> bool:
        return asset_id in self._held

    def put(self, asset_id: int, held: Held) -> None:
        before = self._held.get(asset_id)
        self._held[asset_id] = held
        if before is None or before.due != held.due:
            heappush(self._queue, (held.due, asset_id))
            if len(self._queue) > 2 * len(self._held) + BATCH:
                self._queue = [(one.due, asset) for asset, one in self._held.items()]
                heapify(self._queue)
        if before is None or before[::2] != held[::2]:
            self._unstored.add(asset_id)

    def release(self, asset_id: int) -> None:
        if self._held.pop(asset_id, None):
            self._unstored.discard(asset_id)
            if asset_id in self._stored:
                self._stored.discard(asset_id)
                execute("DELETE FROM held_back WHERE asset_id = ?", (asset_id,))

    def take_due(self, until: int) -> list[int]:
        """Return the assets to decide by that second, at most `BATCH`."""
        due: list[int] = []
        while self._queue and self._queue[0][0] <= until and len(due) < BATCH:
            moment, asset_id = heappop(self._queue)
            held = self._held.get(asset_id)
            if held and held.due == moment:
                due.append(asset_id)
        return due

    def is_due(self, until: int) -> bool:
        return bool(self._queue) and self._queue[0][0] <= until

    def is_unstored(self, until: int) -> bool:
        """Return True if a read has been held long enough to be stored."""
        return any(self._held[asset_id].second + STORED_AFTER <= until for asset_id in self._unstored)

    def put_off(self, asset_id: int, until: int) -> None:
        """Check a read again later, at growing intervals, while it waits for a reader that is out."""
        held = self._held.get(asset_id)
        if held and held.due <= until:
            self.put(asset_id, held._replace(due=until + 1 + min(RETRY_SECONDS, (until - held.second) // 4)))

    def store(self, until: int, read_of: Callable[[int, Held], HeldRead | None]) -> None:
        """Store reads that have been held for a while."""
        waiting = [asset_id for asset_id in self._unstored if self._held[asset_id].second + STORED_AFTER <= until]
        rows = [row for asset_id in waiting if (row := read_of(asset_id, self._held[asset_id]))]
        if rows:
            execute_many(_STORE, rows)
        self._stored.update(row.asset_id for row in rows)
        self._unstored.difference_update(waiting)

    def begin(self, assets: Mapping[int, Recent]) -> None:
        """Restore the held reads after a restart.

        A portal's read is also held if the current location read the asset in the same second.
        """
        for asset_id, location_id, seen_at in last_seen(assets):
            newest = assets[asset_id].newest
            if newest > seen_at // SECOND or not assets[asset_id].is_newest_only(location_id):
                self.put(asset_id, Held(newest, newest, location_id))

    def load_others(self) -> Iterator[HeldRead]:
        """Yield stored reads that are not in memory: from before a restart, or left by an undone scan."""
        for row in held_reads():
            self._stored.add(row.asset_id)
            if row.asset_id not in self._held:
                second = row.observed_at // SECOND
                self.put(row.asset_id, Held(second, second, row.location_id))
                yield row

    def ask(self, reader_id: int, asset_id: int, begin: int, end: int) -> None:
        """Record that a decision about an asset depended on whether a reader was out, as of `end`."""
        asked = self._asked.setdefault(reader_id, {})
        before = asked.get(asset_id, (begin, end))
        asked[asset_id] = (min(begin, before[0]), max(end, before[1]))

    def asked_of(self, reader_id: int, second: int) -> list[int]:
        """Return the assets with decisions that a late sign of this reader may change."""
        asked = self._asked.get(reader_id)
        if not asked:
            return []
        return [asset_id for asset_id, (begin, end) in asked.items() if begin - STEADY_FOR <= second <= end]

    def forget_questions(self, second: int) -> None:
        """Drop the records from before that second."""
        for reader_id, asked in list(self._asked.items()):
            self._asked[reader_id] = {asset_id: times for asset_id, times in asked.items() if times[1] >= second}


def row_of(asset_id: int, recent: Recent | None, held: Held) -> HeldRead | None:
    """Return a held read in its stored form."""
    detections = recent.detections if recent else []
    waiting = [one for one in detections if one.second >= held.second and one.location_id == held.location_id]
    if not waiting:
        return None
    one = waiting[-1]
    return HeldRead(asset_id, one.location_id, one.last_at, one.source_no, one.rssi, one.weight, one.quality, one.delay)


def store(row: HeldRead) -> None:
    """Store one held read; ingest picks it up."""
    execute_many(_STORE, [row])


_STORE = "INSERT OR REPLACE INTO held_back VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
