"""Delivery progress: position, pending retries and recent attempts of each destination."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from edge import clock
from edge.database.connection import column, execute, execute_many, writing

MOST_ATTEMPTS = 100  # kept per destination
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
    """The result of one delivery round. `retries` replaces the stored retries."""

    seq: int
    retries: Collection[Retry]
    attempts: Sequence[Attempt]
    failures: int
    failing_since: int | None
    next_try_at: int
    last_error: str | None
    lost: int
    disabled_reason: str | None = None


def retries_of(no: int) -> list[Retry]:
    """Return the pending retries of a destination, oldest event first."""
    rows = execute(
        "SELECT seq, subject_id, since, attempts, next_try_at FROM event_retry WHERE destination_no = ? ORDER BY seq",
        (no,),
    )
    return [Retry(*row) for row in rows]


def is_due(next_try_at: int, now: int) -> bool:
    """Return True if the time has come.

    A time beyond the longest pause was set before the clock went back, so it is due, too.
    """
    return not now < next_try_at <= now + LONGEST_PAUSE


def retries_due() -> set[int]:
    """Return the destinations with a retry that is due now; see `is_due`."""
    return set(column(f"SELECT DISTINCT destination_no FROM event_retry WHERE {DUE}", {"now": clock.now()}))


def record_progress(no: int, progress: Progress) -> None:
    """Store a round's result in one transaction, after sending. A crash before it resends events with the same ids."""
    delivered = sum(attempt.is_delivered for attempt in progress.attempts)
    with writing():
        execute(
            "UPDATE event_destination SET seq = max(seq, ?), failures = ?, failing_since = ?, next_try_at = ?, "
            "last_error = ?, delivered = delivered + ?, lost = lost + ?, "
            "last_success_at = iif(?, ?, last_success_at), "
            "disabled_at = iif(? IS NULL, disabled_at, ?), disabled_reason = ifnull(?, disabled_reason) WHERE no = ?",
            (
                *(progress.seq, progress.failures, progress.failing_since, progress.next_try_at),
                *(progress.last_error, delivered, progress.lost, delivered, clock.now()),
                *(progress.disabled_reason, clock.now(), progress.disabled_reason, no),
            ),
        )
        if not execute("SELECT 1 FROM event_destination WHERE no = ?", (no,)).fetchone():
            return  # removed in the meantime
        execute("DELETE FROM event_retry WHERE destination_no = ?", (no,))
        execute_many("INSERT INTO event_retry VALUES (?, ?, ?, ?, ?, ?)", [(no, *retry) for retry in progress.retries])
        _keep_attempts(no, progress.attempts)


def record_test(no: int, attempt: Attempt) -> None:
    """Store the attempt of a test event, unless the destination was removed."""
    with writing():
        execute("UPDATE event_destination SET is_test_wanted = 0 WHERE no = ?", (no,))
        if execute("SELECT 1 FROM event_destination WHERE no = ?", (no,)).fetchone():
            _keep_attempts(no, [attempt])


def _keep_attempts(no: int, attempts: Sequence[Attempt]) -> None:
    execute_many(
        "INSERT INTO event_attempt (destination_no, at, milliseconds, event_id, event_kind, is_delivered, told) "
        "VALUES (?, ?, ?, ?, ?, ?, ?)",
        [(no, *attempt) for attempt in attempts[-MOST_ATTEMPTS:]],
    )
    execute(
        "DELETE FROM event_attempt WHERE destination_no = ? AND no <= (SELECT no FROM event_attempt "
        "WHERE destination_no = ? ORDER BY no DESC LIMIT 1 OFFSET ?)",
        (no, no, MOST_ATTEMPTS),
    )
