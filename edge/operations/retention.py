"""Retention: delete data past its limits, and the least valuable data first when the disk runs low.

Deletes run in small steps with pauses between them, so that ingest continues.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from functools import partial

from edge import clock
from edge.config.settings import Config
from edge.database.connection import checkpoint
from edge.muster import musters
from edge.records import asset_photos
from edge.rules import alerts
from edge.texts import N_, fill
from edge.tracking import copies, deletion, report, tracked_people

log = logging.getLogger(__name__)

SPARE_PAGES = 256  # kept in the file, because new rows fill them soon
SLICES = 50

# Reasons in the audit
TOO_OLD = N_("older than %(days)s days")
OLD_PEOPLE = N_("people, older than %(days)s days")
TOO_MANY = N_("above the limit")
NO_SPACE = N_("only %(megabytes)s MB of disk space were free")
REASONS = (OLD_PEOPLE, TOO_OLD, TOO_MANY, NO_SPACE)

Step = Callable[[], int]
Pause = Callable[[], bool]


def sweep(config: Config, now: int, disk_free: int, pause: Pause) -> None:
    """Run one round: delete data over the limits, shrink the file, and record the counts.

    `now` (µs) must be safe for deleting, see counted_time. `pause` waits between two steps and returns whether to stop.
    """
    for reason, steps in _over_limits(config, now):
        _drop(reason, steps, pause)
    _repeat(lambda: deletion.drop_expired(now), pause)
    if disk_free + _unused_bytes() < config.retention_low_disk_mb << 20:
        _make_room(config, now, disk_free, pause)
    give_back(pause)


def give_back(pause: Pause) -> None:
    """Shrink the database file by its unused pages."""
    while deletion.free_pages()[0] > SPARE_PAGES:
        deletion.shrink()
        if pause():
            return
    checkpoint("PASSIVE")  # the file shrinks only at a checkpoint


def _over_limits(config: Config, now: int) -> Iterator[tuple[str, dict[str, Step]]]:
    """Yield the steps that delete data over the limits, each group with its reason.

    Ages count from the newest row, so a clock that jumped ahead deletes nothing.
    """
    if newest := report.newest_scan():
        before = min(now, newest) - config.retention_history_days * clock.DAY
        yield (
            fill(TOO_OLD, days=config.retention_history_days),
            {
                "history": partial(deletion.drop_history, before),
                **{name: partial(deletion.drop_whole, name, before) for name in deletion.WHOLE},
                **{name: partial(deletion.drop_old_records, name, before) for name in deletion.WITH_HISTORY},
            },
        )
        for organization_id, age in tracked_people.history_limits():
            step = partial(deletion.drop_history_of_people, organization_id, min(now, newest) - age)
            yield fill(OLD_PEOPLE, days=age // clock.DAY), {"rows_of_people": step}
    for organization_id, age in tracked_people.report_limits():
        yield fill(TOO_OLD, days=age // clock.DAY), {"musters": partial(musters.drop_old, organization_id, now - age)}
    for name, newest_row, days, drop in (
        ("audit", deletion.newest_audit(), config.retention_audit_days, deletion.drop_audit),
        ("alerts", alerts.newest(), config.retention_alert_days, alerts.drop_old),
    ):
        if newest_row is not None:
            yield fill(TOO_OLD, days=days), {name: partial(drop, min(now, newest_row) - days * clock.DAY)}
    yield (
        TOO_MANY,
        {
            "audit": partial(next, deletion.drop_audit_over(config.retention_audit_lines), 0),
            "dead_letters": partial(deletion.drop_dead_letters, config.bounds),
            "alerts": alerts.drop_over,
            "unknown_tags": partial(deletion.drop_crowded, "unknown_tags", config.bounds.unknown_tags),
            "unassigned_topics": partial(deletion.drop_crowded, "unassigned_topics", config.bounds.unassigned_topics),
        },
    )


def _make_room(config: Config, now: int, disk_free: int, pause: Pause) -> None:
    """Delete the least valuable data first, and history only when nothing else is left.

    Each round deletes one slice of history: if another program fills the disk, most of it survives until an operator
    looks.
    """
    for name, step in _before_history():
        _drop(fill(NO_SPACE, megabytes=disk_free >> 20), {name: step}, pause)
        if disk_free + _unused_bytes() >= config.retention_low_disk_mb << 20:
            return
    if deletion.ended_stock_takes():
        return  # the next round deletes their next slice
    oldest = copies.oldest_end()
    if oldest is None:
        log.warning("Only %d MB of disk space are free, and there is no history left to delete", disk_free >> 20)
        return
    before = oldest + max(now - oldest, 0) // SLICES + 1
    log.warning("Only %d MB of disk are free: deleting the oldest history", disk_free >> 20)
    _drop(fill(NO_SPACE, megabytes=disk_free >> 20), {"history": lambda: deletion.drop_history(before)}, pause)


def _before_history() -> Iterator[tuple[str, Step]]:
    """Yield the steps that precede history when the disk is low; `_drop_too_many` has bounded everything else."""
    yield "raw_messages", deletion.drop_raw_messages
    oldest_photos = asset_photos.oldest_slice()
    yield "photos", lambda: deletion.drop_old_records("photos", oldest_photos)
    ended = deletion.ended_stock_takes()
    slice_of_them = ended[: len(ended) // SLICES + 1]
    yield "stock_take_rows", lambda: deletion.drop_these_stock_takes(slice_of_them)


def _drop(reason: str, steps: Mapping[str, Step], pause: Pause) -> None:
    counts = {name: _repeat(step, pause) for name, step in steps.items()}
    dropped = {name: count for name, count in counts.items() if count}
    if dropped:
        deletion.record_dropped(reason, dropped)
        log.info("Dropped %s: %s", ", ".join(f"{count} {name}" for name, count in dropped.items()), reason)


def _repeat(step: Step, pause: Pause) -> int:
    total = 0
    while count := step():
        total += count
        if pause():
            break
    return total


def _unused_bytes() -> int:
    pages, size = deletion.free_pages()
    return pages * size
