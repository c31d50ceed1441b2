"""One round of deliveries to one destination: what is due is sent, in order for each asset, and noted once at the end.

An event that fails is set aside, together with those that follow of the same asset, and tried again by itself: after a
second at first. So one failing event holds up no others, and a receiver that fails now and then gets everything. A
receiver that fails several times in a row, or asks for a pause, is left alone for a while: seconds at first, an hour at
most, with everything waiting in the log. After days without success the destination is disabled, and a refused event
given up. Attempts are counted as well, because a clock that jumps ahead by days must not give up a receiver that has
failed once.

A kill between sending and noting sends again what was sent, under the same ids and in the same order.

What is sent to a receiver, and its outcome.
"""

from __future__ import annotations

import random
import threading
import time
from enum import Enum
from typing import Any, NamedTuple, Protocol

from edge import clock
from edge.events import log, progress
from edge.events.destinations import Destination
from edge.events.log import Event
from edge.events.progress import Attempt, Progress, Retry

MOST_EVENTS = 200  # in one round
ROUND_SECONDS = 1.0
FIRST_WAIT_SECONDS = 5.0
LONGEST_WAIT_SECONDS = 3600.0
GIVE_UP_AFTER = 5 * clock.DAY
GIVE_UP_ATTEMPTS = 50  # at least; in five days there are twice as many, unless the box was off
FIRST_RETRY_SECONDS = 1.0  # of one event, while the receiver takes others
MOST_SET_ASIDE = 300  # failed events, and those that wait for a failed one of the same asset
FAILURES_IN_A_ROW = 3  # after so many different events failed one after another, the receiver is at fault


class Round:
    def __init__(self, row: Destination, sender: Sender, stopping: threading.Event, *, is_note_due: bool) -> None:
        """With `is_note_due`, progress over events that the filter leaves out is recorded, too."""
        self._row = row
        self._sender = sender
        self._stopping = stopping
        self._is_note_due = is_note_due
        self.seq = row.seq
        self._set_aside = {retry.seq: retry for retry in progress.retries_of(row.no)}
        self._attempts: list[Attempt] = []
        self._failures = row.failures
        self._failing_since = row.failing_since
        self._next_try_at = 0
        self._error = row.last_error
        self._lost = 0
        self._disabled_reason: str | None = None
        self._is_over = False
        self._ends_at = time.monotonic() + ROUND_SECONDS

    def run(self) -> bool:
        """Send what is due; returns whether more may be waiting."""
        self._count_dropped()
        self._retry_set_aside()
        has_more = self._send_new()
        if self._is_noteworthy():
            progress.note_progress(self._row.no, self._progress())
        return has_more and not self._is_over

    def _count_dropped(self) -> None:
        """The log is kept for days, not for ever."""
        oldest = log.oldest_kept()
        if self.seq < oldest - 1:
            self._lost += oldest - 1 - self.seq
            self.seq = oldest - 1

    def _retry_set_aside(self) -> None:
        """The first of each asset that is due; when it is taken, the next of that asset is due."""
        now = clock.now()
        while due := [retry for retry in self._heads() if progress.is_due(retry.next_try_at, now)]:
            found = log.with_numbers(self._row.organization_id, [retry.seq for retry in due])
            for retry in due:
                if self._must_end():
                    return
                event = found.get(retry.seq)
                is_hopeless = _is_hopeless(retry.since, retry.attempts, now) and not self._fails_for_days(now)
                if event is None or is_hopeless:
                    self._give_up(retry)
                    continue
                self._try_again(retry, event)

    def _fails_for_days(self, now: int) -> bool:
        """Then the destination is disabled, with everything that waits for it."""
        attempts = self._failures + max((retry.attempts for retry in self._set_aside.values()), default=0)
        return self._failing_since is not None and _is_hopeless(self._failing_since, attempts, now)

    def _heads(self) -> list[Retry]:
        """The first event of each asset."""
        heads: dict[int, Retry] = {}
        for retry in self._set_aside.values():
            heads.setdefault(retry.subject_id, retry)
        return list(heads.values())

    def _try_again(self, retry: Retry, event: Event) -> None:
        kind = self._row.wanted.kind_of(event)
        outcome = self._send(event, kind, is_new=False) if kind else None
        if outcome is None or outcome.result is Result.DELIVERED:
            del self._set_aside[retry.seq]
            return
        now, attempts = clock.now(), retry.attempts + 1
        wait = _wait(attempts, FIRST_RETRY_SECONDS)
        self._set_aside[retry.seq] = retry._replace(attempts=attempts, next_try_at=now + wait)
        if outcome.result is not Result.REFUSED and (
            outcome.result is Result.GONE or outcome.wait_seconds or self._fails_for_days(now)
        ):
            self._stop_for_now(outcome)

    def _give_up(self, retry: Retry) -> None:
        """The next event of the same asset has waited as long, so it need not be refused as often."""
        del self._set_aside[retry.seq]
        self._lost += 1
        following = next((one for one in self._set_aside.values() if one.subject_id == retry.subject_id), None)
        if following:
            self._set_aside[following.seq] = following._replace(attempts=max(following.attempts, retry.attempts))

    def _send_new(self) -> bool:
        found = log.after(self._row.organization_id, self.seq, MOST_EVENTS)
        for event in found:
            if self._must_end():
                return True
            kind = self._row.wanted.kind_of(event)
            if kind and not self._take(event, kind):
                return False
            self.seq = event.seq
        return len(found) == MOST_EVENTS

    def _take(self, event: Event, kind: str) -> bool:
        """Whether the next event may be looked at."""
        is_room = len(self._set_aside) < MOST_SET_ASIDE
        now = clock.now()
        if any(retry.subject_id == event.subject_id for retry in self._set_aside.values()):
            if is_room:
                self._set_aside[event.seq] = Retry(event.seq, event.subject_id, now, 0, now)
            else:
                self._wait_for_room()
            return is_room
        if not is_room:
            self._wait_for_room()
            return False
        outcome = self._send(event, kind, is_new=True)
        if outcome.result is Result.DELIVERED:
            return True
        if self._is_receiver_at_fault(outcome):
            self._stop_for_now(outcome)
            return False
        self._set_aside[event.seq] = Retry(event.seq, event.subject_id, now, 1, now + _wait(1, FIRST_RETRY_SECONDS))
        return True

    def _is_receiver_at_fault(self, outcome: Outcome) -> bool:
        """False while the event may be: the next one is tried at once."""
        return outcome.result is Result.GONE or outcome.wait_seconds > 0 or self._failures >= FAILURES_IN_A_ROW

    def _wait_for_room(self) -> None:
        """Until the first of the events that were set aside is due; no fault of the receiver, so no longer pause."""
        self._is_over = True
        self._error = f"{len(self._set_aside)} events wait because they failed or were refused"
        self._next_try_at = min(retry.next_try_at for retry in self._heads())

    def _send(self, event: Event, kind: str, *, is_new: bool) -> Outcome:
        """A failure of an event that has failed before says nothing about the receiver."""
        message = Message(event.id, kind, event.data, log.body(event, kind))
        outcome, attempt = attempt_to_send(self._sender, message)
        self._attempts.append(attempt)
        if outcome.result is Result.DELIVERED:
            if self._failures >= FAILURES_IN_A_ROW:
                self._hasten_retries(attempt.at)
            self._failures, self._failing_since, self._error = 0, None, None
        else:
            self._failures += is_new
            if outcome.result is not Result.REFUSED:  # a receiver that refuses works
                self._failing_since = self._failing_since or attempt.at
            self._error = outcome.told
        return outcome

    def _hasten_retries(self, now: int) -> None:
        """The receiver is back: what failed with it is due."""
        for seq, retry in self._set_aside.items():
            self._set_aside[seq] = retry._replace(next_try_at=min(retry.next_try_at, now))

    def _stop_for_now(self, outcome: Outcome) -> None:
        now = clock.now()
        self._is_over = True
        self._error = outcome.told
        self._failing_since = self._failing_since or now
        stops = self._failures - FAILURES_IN_A_ROW + 1
        self._next_try_at = now + max(_wait(stops, FIRST_WAIT_SECONDS), int(outcome.wait_seconds * clock.SECOND))
        if outcome.result is Result.GONE:
            self._disabled_reason = outcome.told
        elif self._fails_for_days(now):
            days = GIVE_UP_AFTER // clock.DAY
            self._disabled_reason = f"nothing could be delivered for {days} days: {outcome.told}"

    def _must_end(self) -> bool:
        return self._is_over or self._stopping.is_set() or time.monotonic() > self._ends_at

    def _is_noteworthy(self) -> bool:
        """Events that the filter leaves out are not worth a commit each time; skipping them again costs less."""
        return bool(self._attempts or self._lost or self._is_over or (self._is_note_due and self.seq > self._row.seq))

    def _progress(self) -> Progress:
        return Progress(
            self.seq,
            list(self._set_aside.values()),
            self._attempts,
            self._failures,
            self._failing_since,
            self._next_try_at,
            self._error,
            self._lost,
            self._disabled_reason,
        )


def attempt_to_send(sender: Sender, message: Message) -> tuple[Outcome, Attempt]:
    at, began = clock.now(), time.monotonic()
    outcome = sender.send(message)
    took = int((time.monotonic() - began) * 1000)
    is_delivered = outcome.result is Result.DELIVERED
    return outcome, Attempt(at, took, message.id, message.kind, is_delivered, outcome.told)


def _is_hopeless(since: int, attempts: int, now: int) -> bool:
    return attempts >= GIVE_UP_ATTEMPTS and now - since > GIVE_UP_AFTER


def _wait(failures: int, first: float) -> int:
    """Microseconds: three times as long after each failure, and never all receivers at once."""
    seconds = min(first * 3 ** min(max(failures - 1, 0), 20), LONGEST_WAIT_SECONDS)
    return int(seconds * random.uniform(0.8, 1.2) * clock.SECOND)  # noqa: S311  so that not all come at once


class Message(NamedTuple):
    """An event as one destination gets it. `kind` is what it is by its filter, `body` the same at every attempt."""

    id: str
    kind: str
    data: dict[str, Any]
    body: bytes


class Result(Enum):
    DELIVERED = "delivered"
    REFUSED = "refused"  # this event; others may be accepted
    FAILED = "failed"  # not because of the event
    GONE = "gone"  # wants no events any more


class Outcome(NamedTuple):
    """`told` is for the administrator. `wait_seconds` is how long the receiver asks to be left alone."""

    result: Result
    told: str
    wait_seconds: float = 0.0


class Sender(Protocol):
    """Keeps its connection from one event to the next; used by one thread at a time."""

    def send(self, message: Message) -> Outcome: ...

    def close(self) -> None: ...
