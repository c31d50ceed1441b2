"""Live reads of a reader, for placing antennas. Kept in memory, only while someone watches."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

WATCHED_FOR = 30.0  # seconds after the last call of `watch`
MOST_WATCHED = 20  # readers at a time
KEPT = 2_000  # reads of each reader


class LiveRead(NamedTuple):
    """A read with its outcome. `antenna`: 0 if the reader has none. `rssi`: in dBm. `bucket`: as in the ledger."""

    reader_id: int
    antenna: int
    tag_type: str
    value: str
    rssi: float | None
    received_at: int
    bucket: str
    asset_id: int | None


_lock = threading.Lock()
watched: dict[int, float] = {}  # reader -> end of watching, by the monotonic clock; ingest reads it without the lock
_kept: dict[int, deque[LiveRead]] = {}


def watch(reader_id: int) -> list[LiveRead]:
    """Return the reads since watching began, oldest first, and continue watching for `WATCHED_FOR`."""
    with _lock:
        _drop_unwatched()
        if reader_id not in watched and len(watched) >= MOST_WATCHED:
            first = min(watched, key=watched.__getitem__)
            del watched[first], _kept[first]
        watched[reader_id] = time.monotonic() + WATCHED_FOR
        return list(_kept.setdefault(reader_id, deque(maxlen=KEPT)))


def note(reads: Iterable[LiveRead]) -> None:
    """Add reads of watched readers. Call after the commit."""
    with _lock:
        _drop_unwatched()
        for read in reads:
            if read.reader_id in _kept:
                _kept[read.reader_id].append(read)


def _drop_unwatched() -> None:
    now = time.monotonic()
    for reader_id in [watched_id for watched_id, until in watched.items() if until < now]:
        del watched[reader_id], _kept[reader_id]
