"""Reads of the last minutes, from which positions are decided: in memory for ingest, on disk for a restart.

Memory holds the reads of the last seconds of each asset. The table `recent_read` holds the same reads, one row per
committed batch, so writing them is cheap. It is read after a restart, when a person's scan changes an earlier decision,
and for assets that memory had no room for.
"""

from __future__ import annotations

import sys
import zlib
from collections.abc import Collection, Iterator, Sequence
from itertools import chain
from struct import Struct
from typing import Any

from edge import metrics
from edge.clock import SECOND
from edge.database.connection import changes, execute, reading
from edge.tracking.decision_rule import IDLE
from edge.tracking.held_back import HeldBack
from edge.tracking.packed_reads import EXTRA_LOOKS, KEPT_LOOKS, Recent
from edge.tracking.rssi_offsets import all_offsets
from edge.tracking.signs import GOODBYE, Signs
from edge.tracking.stays import HeldRead, Position, Scan

KEPT_FOR = 900 * SECOND  # on disk, after receipt
KEPT_BYTES = 32 * 1024 * 1024
DROPPED_EVERY = 300 * SECOND  # after that they are dropped, at most 100 batches at once
LOOKED_BACK = 300  # seconds before a late read, loaded from disk
MOST_BYTES = 64 * 1024 * 1024  # in memory, for all assets
COUNTED_EVERY = 50_000  # reads
FEWER_LOOKS = 8  # if memory is full; in simulations 8 gave as many wrong locations as 24, 4 gave a quarter more
KEPT_WHOLE = 60  # seconds of newer reads for which an asset keeps the reads loaded for a late one
FEW = 4  # assets; searching for the bytes of one takes a tenth of the time of looking at the asset of each read
MOST_POSITIONS = 10_000  # in memory, some 400 bytes each

UNKNOWN = 2**32 - 1

Sign = tuple[int, int, int]  # reader, second, and kind or asset (see `signs`)
_SIGN = Struct("<qIq")
READ = Struct("<qqidBBIq")  # asset, moment, source, RSSI, weight, quality, complete from, delay
_ASSET = Struct(f"<q{READ.size - 8}x")
_NO_RSSI = -1000.0


class RecentReads:
    """Recent reads of all assets. Use only on the ingest thread, inside its transaction.

    Call `forget` after a rollback.
    """

    def __init__(self, most_bytes: int = MOST_BYTES, counted_every: int = COUNTED_EVERY) -> None:
        """Keep at most `most_bytes`, checked after every `counted_every` reads written."""
        self.sources: dict[tuple[int, int | None, int | None], int] = {}  # source numbers, see `stays.number_of`
        self.readers: dict[int, int | None] = {}  # by source number
        self.signs = Signs()
        self.held = HeldBack()
        self.positions: dict[int, Position] = {}  # as stored, by asset
        self._unchanged: tuple[int, int] | None = None  # `positions` are valid while `changes` is equal to this
        self._most_bytes = most_bytes
        self._counted_every = counted_every
        self._uncounted = 0
        self._dropped: dict[int, int] = {}  # dropped for lack of memory: asset -> second of its last read
        self._assets: dict[int, Recent] = {}
        self._reads: list[bytes] = []
        self._signs: list[bytes] = []
        self._whole: dict[int, int] = {}  # asset -> second until which it keeps all reads loaded for late ones
        self._is_stale = True
        self._version = 0  # of the stored reads, see `_VERSION`
        self._loaded: tuple[int, int] | None = None  # version that `load_all` read, before `refresh`
        self._has_other_changes = False
        self._newest = 0
        self._swept_at = 0

    def load_all(self) -> None:
        """Load the stored reads if memory is stale. Call before a transaction: nobody waits for this second."""
        if self._is_stale and self._loaded is None:
            with reading():
                self._load()

    def _load(self) -> None:
        version = execute(_VERSION).fetchone()
        self.readers, self.signs, self._assets = load_readers(), load_signs(), load(None, 0)
        self._loaded = version  # last, because a failed load must be repeated

    def refresh(self) -> None:
        """Load changes by other threads. Call first in each transaction."""
        self._reads.clear()
        self._signs.clear()
        stored = execute(_VERSION).fetchone()
        self._is_stale = self._is_stale or stored[0] != self._version
        is_changed = self._is_stale or self._has_other_changes or changes() != self._unchanged
        self._has_other_changes = False
        if self._is_stale:
            if stored != self._loaded:
                self._load()
            self._loaded, self._version = None, stored[0]
            self.sources.clear()
            self._whole.clear()
            self.held = HeldBack()
            self.held.begin(self._assets)
            self._dropped.clear()
            self._uncounted = self._counted_every
            self._is_stale = False
        if is_changed:
            for one in self.held.load_others():
                self._bring_back_held(one)
        if is_changed or len(self.positions) > MOST_POSITIONS:
            self.positions.clear()

    def done(self) -> None:
        """Call last in a transaction; otherwise the next one reads the positions again."""
        self._unchanged = changes()

    def forget(self) -> None:
        """Reload everything after a rollback, since memory may hold reads that are not on disk."""
        self._is_stale = True

    def note_scans(self) -> None:
        """Drop all cached positions after scans by people in this transaction, which may also hold back reads."""
        self.positions.clear()
        self._has_other_changes = True

    def forget_positions(self, asset_ids: Collection[int]) -> None:
        """Drop the cached positions of assets that other code changes in this transaction."""
        for asset_id in asset_ids:
            self.positions.pop(asset_id, None)

    @property
    def newest_at(self) -> int:
        """Time of the newest read."""
        return self._newest

    def is_due(self, until: int) -> bool:
        """Return True if held reads may be decided or have to be stored."""
        return self._is_stale or self.held.is_due(until) or self.held.is_unstored(until)

    def of(self, asset_id: int) -> Recent | None:
        return self._assets.get(asset_id)

    def start(self, asset_id: int, complete_from: int) -> Recent:
        recent = self._assets[asset_id] = Recent(complete_from)
        return recent

    def start_after_pause(self, asset_id: int, second: int, last: int) -> Recent:
        """Start with a read in that second; reads until `last`, or before the pause, do not count."""
        recent = self.start(asset_id, max(last + 1, second - IDLE))
        recent.exact_from = second
        return recent

    def is_swept(self, second: int) -> bool:
        """Return True if memory may lack reads within `IDLE` seconds before that second."""
        return second <= self._swept_at

    def bring_back(self, asset_ids: Collection[int]) -> None:
        """Reload assets that were dropped for lack of memory."""
        back = {asset_id: self._dropped.pop(asset_id) for asset_id in asset_ids if asset_id in self._dropped}
        if back:
            loaded = load(back, (min(back.values()) - LOOKED_BACK) * SECOND)
            for recent in loaded.values():
                recent.drop_old()
            self._assets |= loaded

    def _bring_back_held(self, one: HeldRead) -> None:
        recent = self._assets.get(one.asset_id)
        if recent is None:
            recent = self.start(one.asset_id, one.observed_at // SECOND)
        offset = _offsets_by_source().get(one.source_no, 0.0)
        recent.add(
            one.observed_at, one.location_id, one.rssi, one.weight, one.source_no, one.quality, one.delay, offset
        )

    def look_back(self, asset_ids: Collection[int], second: int) -> None:
        """Load the reads of these assets around that second from disk, for late reads.

        They stay in memory for a while, because late reads seldom come alone.
        """
        self._whole |= dict.fromkeys(asset_ids, self._newest // SECOND + KEPT_WHOLE)
        for asset_id, recent in load(asset_ids, (second - LOOKED_BACK) * SECOND, self._reads).items():
            before = self._assets[asset_id]
            if before.is_empty or recent.complete_from < before.complete_from:
                recent.settled_until = before.settled_until
                recent.decided_row, recent.decided_in = before.decided_row, before.decided_in
                self._assets[asset_id] = recent
                self._uncounted += recent.size // READ.size

    def add_signs(self, signs: Collection[Sign]) -> dict[int, int]:
        """Add signs of life of readers. Return the assets to decide again, each with the first second."""
        to_decide: dict[int, int] = {}
        for sign in sorted(signs):
            reader_id, second, only = sign
            if self.signs.add(reader_id, second, only):
                self._signs.append(_SIGN.pack(*sign))
                for asset_id in self.held.asked_of(reader_id, second):
                    to_decide[asset_id] = min(second, to_decide.get(asset_id, second))
        return to_decide

    def note(self, scan: Scan, source_no: int, complete_from: int) -> None:
        """Queue a read for `write`.

        For the newest read of an asset, `complete_from` is the second since which no other read is missing; else
        UNKNOWN.
        """
        self._reads.append(pack_read(scan, source_no, complete_from))
        if scan.observed_at > self._newest:
            self._newest = scan.observed_at

    def write(self, received_at: int, gap: int) -> None:
        """Store the queued reads, and drop old ones and those beyond the limits. `gap` as in `positions.record`."""
        if not self._reads and not self._signs:
            return
        second = self._newest // SECOND
        if second - self._swept_at >= IDLE:
            self._sweep(second)
        if self._whole:
            self._shorten(second)
        insert_batch(received_at, self._newest, gap, b"".join(self._reads), b"".join(self._signs))
        self._uncounted += len(self._reads)
        if self._uncounted >= self._counted_every:
            self._uncounted = 0
            self._make_room()

    def _shorten(self, second: int) -> None:
        """Drop the reads that were loaded for late ones a while ago."""
        for asset_id in [asset_id for asset_id, until in self._whole.items() if until < second]:
            del self._whole[asset_id]
            if recent := self._assets.get(asset_id):
                recent.drop_old()

    def _sweep(self, second: int) -> None:
        """Drop idle assets from memory."""
        self._swept_at = second
        self.held.forget_questions(second - KEPT_FOR // SECOND)
        self._signs += [_SIGN.pack(reader_id, last, GOODBYE) for reader_id, last in self.signs.out_since(second)]
        idle = [
            asset_id
            for asset_id, one in self._assets.items()
            if max(one.newest, one.settled_until) < second - IDLE and not self.held.has(asset_id)
        ]
        for asset_id in idle:
            del self._assets[asset_id]
        self._dropped = {
            asset_id: last_read for asset_id, last_read in self._dropped.items() if last_read >= second - IDLE
        }

    def _make_room(self) -> None:
        """Shrink memory to its limit.

        It first drops reads needed only for late reads, then those that decisions can spare, then the assets that were
        silent longest. Dropped reads stay on disk, but reloading an asset costs as much as recording thousands of
        reads.
        """
        assets = self._assets
        size = sum(one.size for one in assets.values())
        for kept in (KEPT_LOOKS, FEWER_LOOKS):
            if size > self._most_bytes:
                for one in assets.values():
                    one.drop_old(kept)
                metrics.evidence_shortened.inc()
                size = sum(one.size for one in assets.values())
        if size > self._most_bytes:
            for asset_id in sorted(assets, key=lambda asset_id: assets[asset_id].newest):
                if size <= self._most_bytes * 7 // 8:
                    break
                one = assets.pop(asset_id)
                size -= one.size
                self._dropped[asset_id] = one.newest
                metrics.evidence_dropped.inc()
        metrics.evidence_bytes.set(size)


def pack_read(scan: Scan, source_no: int, complete_from: int) -> bytes:
    """Return a read in its stored form."""
    return READ.pack(
        scan.asset_id,
        scan.observed_at,
        source_no,
        _NO_RSSI if scan.rssi is None else scan.rssi,
        scan.weight,
        scan.quality,
        complete_from,
        scan.received_at - scan.observed_at,
    )


def strength_in(rssi: float) -> float | None:
    """Return the RSSI of a stored read."""
    return None if rssi == _NO_RSSI else rssi


def insert_batch(
    received_at: int, until: int, gap: int, reads: bytes, signs: bytes = b"", *, is_evidence: bool = True
) -> None:
    """Store a batch of reads observed at or before `until`, and drop old batches and those that exceed the limit."""
    last_at, size, was_packed = execute(_LAST).fetchone() or (received_at, 0, False)
    # At a quiet site several batches then share a page of the database, and an SD card wears with each page written.
    # At a busy one they fill pages anyway, and late reads would have to unpack many. Batches of one transaction have
    # the same time.
    is_quiet = was_packed if received_at == last_at else received_at - last_at >= SECOND
    packed = zlib.compress(reads, 1) if is_quiet else b""
    execute(
        "INSERT INTO recent_read (received_at, until, gap, bytes_before, reads, packed, signs, is_evidence) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (received_at, until, gap, size, b"" if packed else reads, packed, signs, is_evidence),
    )
    size += len(packed) or len(reads)
    execute(_DROP, (received_at - KEPT_FOR, size - KEPT_BYTES, received_at - KEPT_FOR - DROPPED_EVERY))


_VERSION = "SELECT recent_reads, ifnull((SELECT max(no) FROM recent_read), 0) FROM version"
_LAST = """
SELECT received_at, bytes_before + length(reads) + length(packed), length(packed) > 0
FROM recent_read ORDER BY no DESC LIMIT 1
"""
# Only the oldest rows, to avoid a full scan, and several at once, which writes fewer pages.
_DROP = """
DELETE FROM recent_read WHERE no IN (SELECT no FROM recent_read ORDER BY no LIMIT 100)
AND (received_at < ?1 OR bytes_before < ?2)
AND (SELECT received_at < ?3 OR bytes_before < ?2 FROM recent_read ORDER BY no LIMIT 1)
"""


def stored_reads(condition: str, values: Sequence[int]) -> Iterator[bytes]:
    """Yield the reads of the batches that meet a condition, in their stored form (`READ`)."""
    for reads, packed in execute(f"SELECT reads, packed FROM recent_read WHERE {condition}", values):
        yield zlib.decompress(packed) if packed else reads


def load(asset_ids: Collection[int] | None, until: int, unwritten: Sequence[bytes] = ()) -> dict[int, Recent]:
    """Load reads from batches that reach `until` or later, and from reads not yet on disk.

    `asset_ids` None: of all assets, as few as memory keeps.
    """
    limit = KEPT_LOOKS + EXTRA_LOOKS if asset_ids is None else sys.maxsize
    locations: dict[int, int] = dict(execute("SELECT no, location_id FROM source"))
    offsets = _offsets_by_source()
    recents: dict[int, Recent] = {}
    stored = stored_reads("until >= ? AND is_evidence ORDER BY no", (until,))
    for reads in chain(stored, [b"".join(unwritten)]):
        for asset_id, at, source_no, rssi, weight, quality, complete_from, delay in reads_of(asset_ids, reads):
            recent = recents.get(asset_id)
            if recent is None:
                if complete_from == UNKNOWN:
                    continue
                recent = recents[asset_id] = Recent(complete_from, limit)
            if recent.is_full:
                recent.drop_old()
            offset = offsets.get(source_no, 0.0)
            recent.add(at, locations[source_no], strength_in(rssi), weight, source_no, quality, delay, offset)
    return recents


def reads_of(asset_ids: Collection[int] | None, reads: bytes) -> Iterator[tuple[Any, ...]]:
    """Yield the unpacked reads of these assets (None: of all). A few assets are searched for by their bytes."""
    if asset_ids is None or len(asset_ids) > FEW:
        for index, (asset_id,) in enumerate(_ASSET.iter_unpack(reads)):
            if asset_ids is None or asset_id in asset_ids:
                yield READ.unpack_from(reads, index * READ.size)
        return
    for asset_id in asset_ids:
        key, index = asset_id.to_bytes(8, "little"), -1
        while (index := reads.find(key, index + 1)) >= 0:
            if index % READ.size == 0:
                yield READ.unpack_from(reads, index)


def _offsets_by_source() -> dict[int, float]:
    """Return the RSSI offset of each source that has one."""
    offsets = all_offsets()
    if not (offsets.antennas or offsets.readers):
        return {}
    sources = execute("SELECT no, reader_id, port FROM source WHERE reader_id IS NOT NULL")
    return {no: offset for no, reader_id, port in sources if (offset := offsets.of(reader_id, port))}


def load_readers() -> dict[int, int | None]:
    """Return the reader of each source (None: a person)."""
    return dict(execute("SELECT no, reader_id FROM source"))


def load_signs() -> Signs:
    loaded = Signs()
    for (signs,) in execute("SELECT signs FROM recent_read ORDER BY no"):
        for sign in _SIGN.iter_unpack(signs):
            loaded.add(*sign)
    return loaded


def was_read(asset_id: int, since: int) -> bool:
    """Return True if a batch of evidence that reaches `since`, or later, has a read of the asset."""
    stored = stored_reads("until >= ? AND is_evidence", (since,))
    return any(True for reads in stored for _ in reads_of({asset_id}, reads))


def newest_first(since: int) -> Iterator[tuple[int, int, int, float | None]]:
    """Yield (asset, time, source, RSSI) of reads received at or after `since`, newest batch first."""
    for reads in stored_reads("received_at >= ? ORDER BY no DESC", (since,)):
        for asset_id, at, source_no, rssi, *_ in READ.iter_unpack(reads):
            yield asset_id, at, source_no, strength_in(rssi)


def gap() -> int:
    """Return the sighting gap that applied to the newest reads."""
    row = execute("SELECT gap FROM recent_read WHERE is_evidence ORDER BY no DESC LIMIT 1").fetchone()
    return row[0] if row else 0
