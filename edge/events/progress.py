"""Delivery progress: position, pending retries and recent attempts of each destination."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from edge import clock
from edge.database.connection import column, execute, execute_many, writing

MOST_ATTEMPTS = 100  # kept per destination
TEST = "test"  # kind of event of a test
LONGEST_PAUSE = 2 * clock.HOUR  # longer than any pause between attempts
DUE = f"(next_try_at <= :now OR next_try_at > :now + {LONGEST_PAUSE})"  # see `is_due`


class Retry(NamedTuple):
    """An event that failed, or that waits for a failed event of the same asset."""

    seq: int
    subject_id: int
    since: int
    attempts: int
    next_try_at: int


class Attempt(NamedTuple):
    at: int
    milliseconds: int
    event_id: str
    event_kind: str
    is_delivered: bool
    detail: str


class Progress(NamedTuple):
    """The result of one delivery round. `retries` replaces the stored retries. `pieces`: in each attempt."""

    seq: int
    retries: Collection[Retry]
    attempts: Sequence[Attempt]
    failures: int
    failing_since: int | None
    next_try_at: int
    last_error: str | None
    lost: int
    disabled_reason: str | None = None
    pieces: int = 1


def retries_of(key: int) -> list[Retry]:
    """Return the pending retries of a destination, oldest event first."""
    rows = execute(
        "SELECT seq, subject_id, since, attempts, next_try_at FROM destination_retry WHERE destination_id = ? "
        "ORDER BY seq",
        (key,),
    )
    return [Retry(*row) for row in rows]


def is_due(next_try_at: int, now: int) -> bool:
    """Return True if the time has come.

    A time beyond the longest pause was set before the clock went back, so it is due, too.
    """
    return not now < next_try_at <= now + LONGEST_PAUSE


def retries_due() -> set[int]:
    """Return the destinations with a retry that is due now; see `is_due`."""
    return set(column(f"SELECT DISTINCT destination_id FROM destination_retry WHERE {DUE}", {"now": clock.now()}))


def record_progress(key: int, progress: Progress) -> None:
    """Store a round's result in one transaction, after sending. A crash before it resends events with the same ids."""
    delivered = progress.pieces * sum(attempt.is_delivered for attempt in progress.attempts)
    with writing():
        execute(
            "UPDATE destination SET position = max(position, ?), failures = ?, failing_since = ?, next_try_at = ?, "
            "last_error = ?, delivered = delivered + ?, lost = lost + ?, "
            "last_success_at = iif(?, ?, last_success_at), "
            "disabled_at = iif(? IS NULL, disabled_at, ?), disabled_reason = ifnull(?, disabled_reason) WHERE id = ?",
            (
                *(progress.seq, progress.failures, progress.failing_since, progress.next_try_at),
                *(progress.last_error, delivered, progress.lost, delivered, clock.now()),
                *(progress.disabled_reason, clock.now(), progress.disabled_reason, key),
            ),
        )
        if not execute("SELECT 1 FROM destination WHERE id = ?", (key,)).fetchone():
            return  # removed in the meantime
        execute("DELETE FROM destination_retry WHERE destination_id = ?", (key,))
        execute_many(
            "INSERT INTO destination_retry VALUES (?, ?, ?, ?, ?, ?)", [(key, *retry) for retry in progress.retries]
        )
        _keep_attempts(key, progress.attempts)


def record_test(key: int, attempt: Attempt) -> None:
    """Store the attempt of a test, unless the destination was removed. What waits is due after a success."""
    with writing():
        execute(
            "UPDATE destination SET tested_at = NULL, next_try_at = iif(?, 0, next_try_at) WHERE id = ?",
            (attempt.is_delivered, key),
        )
        if execute("SELECT 1 FROM destination WHERE id = ?", (key,)).fetchone():
            _keep_attempts(key, [attempt])


def _keep_attempts(key: int, attempts: Sequence[Attempt]) -> None:
    execute_many(
        "INSERT INTO destination_attempt (destination_id, at, milliseconds, event_id, event_kind, is_delivered, told) "
        "VALUES (?, ?, ?, ?, ?, ?, ?)",
        [(key, *attempt) for attempt in attempts[-MOST_ATTEMPTS:]],
    )
    execute(
        "DELETE FROM destination_attempt WHERE destination_id = ? AND no <= (SELECT no FROM destination_attempt "
        "WHERE destination_id = ? ORDER BY no DESC LIMIT 1 OFFSET ?)",
        (key, key, MOST_ATTEMPTS),
    )
