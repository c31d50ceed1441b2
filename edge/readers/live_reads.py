"""What a reader reads right now, for somebody placing its antennas: in memory, and only while being watched."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

WATCHED_FOR = 30.0  # seconds after somebody last looked
MOST_WATCHED = 20  # readers at once
KEPT = 2_000  # reads of each


class LiveRead(NamedTuple):
    """`antenna` is 0 where the reader has none; `bucket` is that of the ledger, `rssi` in dBm."""

    reader_id: int
    antenna: int
    tag_type: str
    value: str
    rssi: float | None
    received_at: int
    bucket: str
    asset_id: int | None


_lock = threading.Lock()
_watched: dict[int, float] = {}  # until when, by the monotonic clock
_kept: dict[int, deque[LiveRead]] = {}


def watch(reader_id: int) -> list[LiveRead]:
    """What was read since watching began, the oldest first; watching goes on for a while from now."""
    with _lock:
        _drop_unwatched()
        if reader_id not in _watched and len(_watched) >= MOST_WATCHED:
            first = min(_watched, key=_watched.__getitem__)
            del _watched[first], _kept[first]
        _watched[reader_id] = time.monotonic() + WATCHED_FOR
        return list(_kept.setdefault(reader_id, deque(maxlen=KEPT)))


def is_watched(reader_id: int) -> bool:
    return reader_id in _watched  # without the lock: ingest asks for every message, and being late by one is no harm


def note(reads: Iterable[LiveRead]) -> None:
    """Called once the reads are on disk."""
    with _lock:
        _drop_unwatched()
        for read in reads:
            if read.reader_id in _kept:
                _kept[read.reader_id].append(read)


def _drop_unwatched() -> None:
    now = time.monotonic()
    for reader_id in [one for one, until in _watched.items() if until < now]:
        del _watched[reader_id], _kept[reader_id]
