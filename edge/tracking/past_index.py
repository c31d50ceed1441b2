"""The table of past stays by time, which exists where an organization has many assets.

Triggers keep it from the moment when it is begun; tracks from before are added in steps. See `past_board` for its use.
Decision record: web/manual/decisions/past-stays.md
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from edge.database.connection import execute, writing
from edge.database.triggers import PAST_STAYS
from edge.tracking import history_engine, past

log = logging.getLogger(__name__)

NEEDED_FROM = 20_000  # assets of an organization
_STEP = 2000  # stays in a transaction, unless one track has more
_PAUSE = 0.02  # seconds


def is_complete() -> bool:
    if history_engine.is_remote():  # PostgreSQL has its own
        return True
    return execute("SELECT 1 FROM past_stay_build WHERE last_track IS NULL").fetchone() is not None


def maintain(wait: Callable[[float], bool]) -> None:
    """Begin the table once it is needed, and complete it. `wait` returns True to stop."""
    if is_complete() or not _is_needed():
        return
    if execute("SELECT 1 FROM past_stay_build").fetchone() is None:
        _begin()
    while not add_tracks(_STEP):
        if wait(_PAUSE):
            return
    log.info("The index of past positions is complete")


def _is_needed() -> bool:
    organizations = execute("SELECT id FROM organization").fetchall()
    return any(past.is_larger_than(organization_id, NEEDED_FROM) for (organization_id,) in organizations)


def _begin() -> None:
    with writing():
        execute("DELETE FROM past_stay")
        for statement in PAST_STAYS.values():
            execute(statement)
        execute("INSERT INTO past_stay_build (no, last_track) VALUES (1, 0)")


def add_tracks(stays: int) -> bool:
    """Add about this many stays, of the next tracks. Return whether all are complete."""
    with writing():
        (last,) = execute("SELECT last_track FROM past_stay_build").fetchone()
        if last is not None:
            last = past.add_ended_stays(last, stays)
            execute("UPDATE past_stay_build SET last_track = ?", (last,))
    return last is None
