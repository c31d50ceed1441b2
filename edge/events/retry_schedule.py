"""Retry schedule of event destinations: delays between attempts, and when an event or a destination is given up.

Each delay is three times the one before, at most one hour. An event that failed is retried first after
`FIRST_RETRY_SECONDS`. A destination pauses after `FAILURES_IN_A_ROW`, first for `FIRST_WAIT_SECONDS`. Giving up takes
`GIVE_UP_AFTER` and `GIVE_UP_ATTEMPTS`: a clock that jumps ahead by days must not give up after one failure.
"""

from __future__ import annotations

import random

from edge import clock

FIRST_RETRY_SECONDS = 1.0  # for one event while the receiver accepts others
FIRST_WAIT_SECONDS = 5.0
LONGEST_WAIT_SECONDS = 3600.0
FAILURES_IN_A_ROW = 3  # after this many consecutive failures of different events
GIVE_UP_AFTER = 5 * clock.DAY
GIVE_UP_ATTEMPTS = 50  # at least; five days of uptime make twice as many


def retry_delay(attempts: int) -> int:
    """Return the delay in µs before the next attempt to send an event."""
    return _wait(attempts, FIRST_RETRY_SECONDS)


def destination_pause(failures: int) -> int:
    """Return the pause in µs of a destination after consecutive failures."""
    return _wait(failures - FAILURES_IN_A_ROW + 1, FIRST_WAIT_SECONDS)


def is_failing(failures: int) -> bool:
    """Return True if the destination, not a single event, is the likely cause of consecutive failures."""
    return failures >= FAILURES_IN_A_ROW


def is_hopeless(since: int, attempts: int, now: int) -> bool:
    """Return True if an event is given up, or a destination disabled."""
    return attempts >= GIVE_UP_ATTEMPTS and now - since > GIVE_UP_AFTER


def _wait(failures: int, first: float) -> int:
    """Return the delay in µs: tripled after each failure, at most one hour, with jitter."""
    seconds = min(first * 3 ** min(max(failures - 1, 0), 20), LONGEST_WAIT_SECONDS)
    return int(seconds * random.uniform(0.8, 1.2) * clock.SECOND)  # noqa: S311  jitter needs no secure random numbers
