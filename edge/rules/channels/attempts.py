"""Progress of a channel: what was sent, what failed and when it is tried again. Kept by the worker, not audited."""

from __future__ import annotations

from collections.abc import Sequence

from edge.database.connection import execute, writing
from edge.events import retry_schedule
from edge.events.delivery import Outcome, Result
from edge.rules.channels import outbox
from edge.rules.channels.channels import Channel
from edge.rules.channels.compose import PARTLY
from edge.rules.channels.outbox import Waiting

MAX_ERROR = 300


def record(row: Channel, rows: Sequence[Waiting], outcome: Outcome, now: int) -> None:
    """Record the outcome of one attempt to send messages, in one transaction after it.

    A crash before it sends the messages again, under the same number.
    """
    with writing():
        if outcome.result is Result.DELIVERED:
            outbox.remove([one.number for one in rows])
            execute(
                "UPDATE channel SET sent = sent + ?, failures = 0, failing_since = NULL, next_try_at = 0, "
                "last_error = ?, last_success_at = ? WHERE no = ?",
                (len(rows), outcome.detail if outcome.detail.startswith(PARTLY) else None, now, row.no),
            )
            return
        failures = row.failures + 1
        is_waiting = outcome.result is not Result.REFUSED or retry_schedule.is_failing(failures)
        pause = max(retry_schedule.destination_pause(failures), int(outcome.wait_seconds * 1_000_000))
        execute(
            "UPDATE channel SET failures = ?, failing_since = ifnull(failing_since, ?), next_try_at = ?, "
            "last_error = ? WHERE no = ?",
            (failures, now, now + pause if is_waiting else 0, outcome.detail[:MAX_ERROR], row.no),
        )
        if outcome.result is Result.REFUSED:  # perhaps because of these messages; others go ahead
            attempts = max((one.attempts for one in rows), default=0) + 1
            outbox.postpone(rows, now + retry_schedule.destination_pause(attempts))


def give_up(row: Channel, rows: Sequence[Waiting], now: int) -> list[Waiting]:
    """Drop messages that have failed for days and count them as lost. Returns the others."""
    hopeless = {
        one.number for one in rows if retry_schedule.is_hopeless(one.enqueued_at, max(one.attempts, row.failures), now)
    }
    if hopeless:
        with writing():
            outbox.remove(hopeless)
            execute("UPDATE channel SET lost = lost + ? WHERE no = ?", (len(hopeless), row.no))
    return [one for one in rows if one.number not in hopeless]


def record_test(no: int, outcome: Outcome, milliseconds: int, now: int) -> None:
    """Store the result of a test, unless the channel was removed."""
    is_ok = outcome.result is Result.DELIVERED
    with writing():
        execute(
            "UPDATE channel SET is_test_requested = 0, tested_at = ?, test_ms = ?, test_result = ?, is_test_ok = ?, "
            "next_try_at = iif(?, 0, next_try_at) WHERE no = ?",
            (now, milliseconds, outcome.detail[:MAX_ERROR], is_ok, is_ok, no),
        )
