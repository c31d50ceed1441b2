"""Reads of the last minutes without smoothing, needed when a late read splits a stay.

History stores begin and end of a stay, but not the reads in between. Those are stored for as long as the reads used as
evidence, in the same table, one row per batch. They are only loaded for a late read that falls into a stay at another
location.

Reads of one asset in the same microsecond at different locations keep their order of arrival: each gets a row, and
nothing observed says which came first. Another order would rewrite all rows of that instant and their neighbors for
every further read. With smoothing there is no such exception: the stronger read wins, and among equal ones the location
with the lower id.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Collection, Iterator, Sequence
from itertools import chain
from typing import NamedTuple

from edge.clock import SECOND
from edge.database.connection import execute
from edge.tracking.recent_reads import (
    KEPT_FOR,
    UNKNOWN,
    insert_batch,
    pack_read,
    reads_of,
    stored_reads,
    strength_in,
)
from edge.tracking.stays import Scan

FIRST_REACH = 10 * SECOND  # before a late read; most stays have a read in that time


class CountedRead(NamedTuple):
    """One read of an asset."""

    observed_at: int
    location_id: int
    source_no: int
    delay: int
    quality: int
    rssi: float | None


class CountedReads:
    """Reads of the assets of one batch. Use inside its transaction."""

    def __init__(self, scans: Sequence[Scan]) -> None:
        self._scans = scans
        self._noted: list[bytes] = []
        self._oldest: int | None = None  # time of the first of the scans
        self._since: int | None = None  # `_reads` is complete from then on; None: not loaded
        self._reads: dict[int, list[CountedRead]] = {}

    def note(self, scan: Scan, source_no: int) -> None:
        """Queue a read for `write`."""
        self._noted.append(pack_read(scan, source_no, UNKNOWN))
        if self._since is not None and scan.observed_at >= self._since:
            delay = scan.received_at - scan.observed_at
            one = CountedRead(scan.observed_at, scan.location_id, source_no, delay, scan.quality, scan.rssi)
            insort(self._reads[scan.asset_id], one, key=_moment)

    def write(self, received_at: int, gap: int) -> None:
        if self._noted:
            until = max(scan.observed_at for scan in self._scans)
            insert_batch(received_at, until, gap, b"".join(self._noted), is_evidence=False)

    def around(
        self, scan: Scan, location_id: int, began_at: int, ended_at: int
    ) -> tuple[CountedRead | None, CountedRead | None]:
        """Return the reads just before and after a late scan, within the stay into which it falls.

        None if they are no longer known.
        """
        if scan.received_at - scan.observed_at >= KEPT_FOR:
            return None, None
        if self._oldest is None:
            self._oldest = min(one.observed_at for one in self._scans if one.received_at - one.observed_at < KEPT_FOR)
        before = after = None
        for since in (self._oldest - FIRST_REACH, self._oldest - KEPT_FOR):
            self._load(since)
            reads = self._reads[scan.asset_id]
            index = bisect_right(reads, scan.observed_at, key=_moment)
            before = _first_at(reads, range(index - 1, -1, -1), location_id, began_at, ended_at)
            after = _first_at(reads, range(index, len(reads)), location_id, began_at, ended_at)
            if before or since <= began_at:
                break
        return before, after

    def _load(self, since: int) -> None:
        if self._since is not None and self._since <= since:
            return
        self._since = since
        reads_by_asset: dict[int, list[CountedRead]] = {scan.asset_id: [] for scan in self._scans}
        for asset_id, one in _stored(reads_by_asset, since, b"".join(self._noted)):
            if one.observed_at >= since:
                reads_by_asset[asset_id].append(one)
        for of_asset in reads_by_asset.values():
            of_asset.sort(key=_moment)
        self._reads = reads_by_asset


def first_after(asset_id: int, location_id: int, after: int, until: int) -> CountedRead | None:
    """Return the first known read of an asset at a location in a period, its begin excluded."""
    stored = (one for _, one in _stored({asset_id}, after) if after < one.observed_at <= until)
    return min((one for one in stored if one.location_id == location_id), key=_moment, default=None)


def _stored(asset_ids: Collection[int], since: int, unwritten: bytes = b"") -> Iterator[tuple[int, CountedRead]]:
    """Yield the reads of these assets, in the order of arrival, from batches that reach a time, and unwritten ones."""
    locations: dict[int, int] = dict(execute("SELECT no, location_id FROM source"))
    for reads in chain(stored_reads("until >= ? AND NOT is_evidence", (since,)), [unwritten]):
        for asset_id, at, source_no, rssi, _, quality, _, delay in reads_of(asset_ids, reads):
            yield asset_id, CountedRead(at, locations[source_no], source_no, delay, quality, strength_in(rssi))


def _moment(read: CountedRead) -> int:
    return read.observed_at


def _first_at(
    reads: Sequence[CountedRead], order: Sequence[int], location_id: int, began_at: int, ended_at: int
) -> CountedRead | None:
    """Return the first read at a location within the stay from `began_at` to `ended_at`."""
    for index in order:
        one = reads[index]
        if not began_at <= one.observed_at <= ended_at:
            return None
        if one.location_id == location_id:
            return one
    return None
