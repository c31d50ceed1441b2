"""The table of past stays by time, which exists where an organization has many assets.

It follows the log of changes from the moment when it is begun; tracks from before are added in steps. See `past_board`
for its use.
Decision record: web/manual/decisions/past-stays.md
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

from edge.database import change_log
from edge.database.change_log import Change, Kind
from edge.database.connection import execute, writing
from edge.database.triggers import Follower
from edge.tracking import history_engine, past

log = logging.getLogger(__name__)

NEEDED_FROM = 20_000  # assets of an organization
_STEP = 2000  # stays in a transaction, unless one track has more
_PAUSE = 0.02  # seconds


def is_exact() -> bool:
    """Return True if the table has all ended stays."""
    return is_complete() and not change_log.has_news(Follower.PAST)


def is_complete() -> bool:
    """Return True if the table has all ended stays of the time up to which it has followed the log."""
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
        change_log.begin(Follower.PAST)
        execute("INSERT INTO past_stay_build (no, last_track) VALUES (1, 0)")


def add_tracks(stays: int) -> bool:
    """Add about this many stays, of the next tracks. Return whether all are complete."""
    with writing():
        (last,) = execute("SELECT last_track FROM past_stay_build").fetchone()
        if last is not None:
            last = past.add_ended_stays(last, stays)
            execute("UPDATE past_stay_build SET last_track = ?", (last,))
    return last is None


def catch_up() -> None:
    """Bring the table up to date."""
    change_log.catch_up(Follower.PAST, _follow)


def _follow(changes: Iterable[Change]) -> None:
    stays = {
        (change.a, change.b, change.c if change.kind == Kind.LEFT else None)
        for change in changes
        if change.kind in (Kind.STAY, Kind.LEFT) and change.b is not None
    }
    past.renew_ended_stays(stays)
