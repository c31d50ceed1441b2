"""Retention: delete data past its limits, and the least valuable data first when the disk runs low.

Deletes run in small steps with pauses between them, so that ingest continues.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from edge import clock
from edge.database.bounds import Bounds
from edge.database.connection import checkpoint
from edge.tracking import copies
from edge.tracking import deletion as store

log = logging.getLogger(__name__)

SPARE_PAGES = 256  # kept in the file, because new rows fill them soon
SLICES = 50

Step = Callable[[], int]
Pause = Callable[[], bool]


class Limits(NamedTuple):
    history_days: int
    audit_days: int
    audit_lines: int
    bounds: Bounds
    low_disk_bytes: int


def sweep(limits: Limits, now: int, disk_free: int, pause: Pause) -> None:
    """Run one round: delete data over the limits, shrink the file, and record the counts.

    `now` (µs) must be safe for deleting, see counted_time. `pause` waits between two steps and returns whether to stop.
    """
    _drop_too_old(limits, now, pause)
    _drop_old_audit(limits, now, pause)
    _drop_too_many(limits, pause)
    _repeat(lambda: store.drop_expired(now), pause)
    if disk_free + _unused_bytes() < limits.low_disk_bytes:
        _make_room(limits, now, disk_free, pause)
    give_back(pause)


def give_back(pause: Pause) -> None:
    """Shrink the database file by its unused pages."""
    while store.free_pages()[0] > SPARE_PAGES:
        store.shrink()
        if pause():
            return
    checkpoint("PASSIVE")  # the file shrinks only at a checkpoint


def _drop_too_old(limits: Limits, now: int, pause: Pause) -> None:
    newest = store.newest_scan()
    if newest is None:
        return
    # Relative to the newest scan: a clock that jumped ahead deletes no history.
    before = min(now, newest) - limits.history_days * clock.DAY
    steps = {
        "history": lambda: store.drop_history(before),
        "records": lambda: store.drop_old_records(before),
        "stock_take_rows": lambda: store.drop_stock_takes(before),
    }
    _drop(f"older than {limits.history_days} days", steps, pause)


def _drop_old_audit(limits: Limits, now: int, pause: Pause) -> None:
    newest = store.newest_audit()
    if newest is None:
        return
    before = min(now, newest) - limits.audit_days * clock.DAY
    _drop(f"older than {limits.audit_days} days", {"audit": lambda: store.drop_audit(before)}, pause)


def _drop_too_many(limits: Limits, pause: Pause) -> None:
    steps = {
        "audit": lambda: store.drop_audit_over(limits.audit_lines),
        "dead_letters": lambda: store.drop_dead_letters(limits.bounds),
        "unknown_tags": lambda: store.drop_unknown_tags(limits.bounds.unknown_tags),
        "unassigned_topics": lambda: store.drop_unassigned_topics(limits.bounds.unassigned_topics),
    }
    _drop("above the limit", steps, pause)


def _make_room(limits: Limits, now: int, disk_free: int, pause: Pause) -> None:
    """Delete the least valuable data first, and history only when nothing else is left.

    Each round deletes one slice of history: if another program fills the disk, most of it survives until an operator
    looks.
    """
    for name, step in _before_history():
        _drop(f"only {disk_free >> 20} MB of disk space were free", {name: step}, pause)
        if disk_free + _unused_bytes() >= limits.low_disk_bytes:
            return
    if store.ended_stock_takes():
        return  # the next round deletes their next slice
    oldest = copies.oldest_end()
    if oldest is None:
        log.warning("Only %d MB of disk space are free, and there is no history left to delete", disk_free >> 20)
        return
    before = oldest + max(now - oldest, 0) // SLICES + 1
    log.warning("Only %d MB of disk are free: deleting the oldest history", disk_free >> 20)
    _drop(f"only {disk_free >> 20} MB of disk space were free", {"history": lambda: store.drop_history(before)}, pause)


def _before_history() -> Iterator[tuple[str, Step]]:
    """Yield the steps that precede history when the disk is low; `_drop_too_many` has bounded everything else."""
    yield "raw_messages", store.drop_raw_messages
    ended = store.ended_stock_takes()
    slice_of_them = ended[: len(ended) // SLICES + 1]
    yield "stock_take_rows", lambda: store.drop_these_stock_takes(slice_of_them)


def _drop(reason: str, steps: Mapping[str, Step], pause: Pause) -> None:
    counts = {name: _repeat(step, pause) for name, step in steps.items()}
    dropped = {name: count for name, count in counts.items() if count}
    if dropped:
        store.record_dropped(reason, dropped)
        log.info("Dropped %s: %s", ", ".join(f"{count} {name}" for name, count in dropped.items()), reason)


def _repeat(step: Step, pause: Pause) -> int:
    total = 0
    while count := step():
        total += count
        if pause():
            break
    return total


def _unused_bytes() -> int:
    pages, size = store.free_pages()
    return pages * size
