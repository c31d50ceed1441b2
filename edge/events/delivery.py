"""One round of deliveries to one destination: sends due events in order per asset and records progress once at the end.

A failed event is set aside together with later events of the same asset, and retried on its own, first after 1 s. Other
events continue. After several failures in a row, or if the receiver asks for it, the destination pauses: seconds at
first, at most one hour. After days without success the destination is disabled, and a refused event is given up. The
delays are in `retry_schedule`.

If the process dies between sending and recording, events are sent again with the same ids in the same order.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from enum import Enum
from typing import Any, NamedTuple, Protocol, TypeVar

from edge import clock
from edge.errors import HistoryUnavailable
from edge.events import log, progress, retry_schedule
from edge.events.destinations import event_filter
from edge.events.family import Destination
from edge.events.log import Event
from edge.events.progress import Attempt, Progress, Retry

Sent = TypeVar("Sent", contravariant=True)  # what a sender takes

MOST_EVENTS = 200  # per round
ROUND_SECONDS = 1.0
MOST_SET_ASIDE = 300  # failed events and those queued behind them
MAX_ERROR = 300  # characters


class Round:
    def __init__(
        self,
        row: Destination,
        sender: Sender[Message],
        stopping: threading.Event,
        make_body: MakeBody = lambda _row, event, kind: log.body(event, kind),
        *,
        is_note_due: bool,
    ) -> None:
        """Prepare a round. With `is_note_due`, it also records progress over events that are not sent."""
        self._row = row
        self._make_body = make_body
        self._sender = sender
        self._stopping = stopping
        self._is_note_due = is_note_due
        self.seq = row.position
        self._set_aside = {retry.seq: retry for retry in progress.retries_of(row.id)}
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
        """Send the due events. Returns True if more may be waiting."""
        self._count_dropped()
        has_more = True
        if self._set_aside and len(self._set_aside) < MOST_SET_ASIDE:
            has_more = self._send_new(1)  # first, since each retry may take as long as the whole round
        if not self._is_over:
            self._retry_set_aside()
            has_more = has_more and self._send_new()
        if self._is_noteworthy():
            progress.record_progress(self._row.id, self._progress())
        return has_more and not self._is_over

    def _count_dropped(self) -> None:
        """Count events that the log dropped before they were delivered as lost."""
        oldest = log.oldest_kept()
        if self.seq < oldest - 1:
            self._lost += oldest - 1 - self.seq
            self.seq = oldest - 1

    def _retry_set_aside(self) -> None:
        """Retry the first due event of each asset; after a success the asset's next event becomes due."""
        now, has_retried = clock.now(), False
        while due := [retry for retry in self._heads() if progress.is_due(retry.next_try_at, now)]:
            events = log.with_numbers(self._row.organization_id, [retry.seq for retry in due])
            for retry in due:
                if self._must_end() and (has_retried or self._is_over or self._stopping.is_set()):
                    return  # at least one retry in each round, since the new event may take as long as the round
                has_retried = True
                event = events.get(retry.seq)
                is_hopeless = retry_schedule.is_hopeless(retry.since, retry.attempts, now)
                if event is None or (is_hopeless and not self._fails_for_days(now)):
                    self._give_up(retry)
                    continue
                self._try_again(retry, event)

    def _fails_for_days(self, now: int) -> bool:
        """Return True if the destination has failed for so long that it must be disabled."""
        attempts = self._failures + max((retry.attempts for retry in self._set_aside.values()), default=0)
        return self._failing_since is not None and retry_schedule.is_hopeless(self._failing_since, attempts, now)

    def _heads(self) -> list[Retry]:
        """Return the first set-aside event of each asset."""
        heads: dict[int, Retry] = {}
        for retry in self._set_aside.values():
            heads.setdefault(retry.subject_id, retry)
        return list(heads.values())

    def _try_again(self, retry: Retry, event: Event) -> None:
        message = self._message(event)
        if self._is_over:
            return
        outcome = self._send(message, is_new=False) if message else None
        if outcome is None or outcome.result is Result.DELIVERED:
            del self._set_aside[retry.seq]
            return
        now, attempts = clock.now(), retry.attempts + 1
        wait = retry_schedule.retry_delay(attempts)
        self._set_aside[retry.seq] = retry._replace(attempts=attempts, next_try_at=now + wait)
        if outcome.result is not Result.REFUSED and (
            outcome.result is Result.GONE or outcome.wait_seconds or self._fails_for_days(now)
        ):
            self._stop_for_now(outcome)

    def _give_up(self, retry: Retry) -> None:
        """Drop an event. The next event of the asset inherits the attempts, since it has waited as long."""
        del self._set_aside[retry.seq]
        self._lost += 1
        following = next((one for one in self._set_aside.values() if one.subject_id == retry.subject_id), None)
        if following:
            self._set_aside[following.seq] = following._replace(attempts=max(following.attempts, retry.attempts))

    def _send_new(self, most: int = MOST_EVENTS) -> bool:
        """Send new events, at most `most`. Returns True if more may be waiting."""
        events = log.after(self._row.organization_id, self.seq, MOST_EVENTS)
        before = len(self._attempts)
        for event in events:
            if self._must_end():
                return True
            message = self._message(event)
            if self._is_over:
                return False
            if message and not self._take(event, message):
                return False
            self.seq = event.seq
            if len(self._attempts) - before >= most:
                return True
        return len(events) == MOST_EVENTS

    def _message(self, event: Event) -> Message | None:
        """Return what to send, or None if the filter excludes the event or there is nothing to say about it.

        The round is over if the history is needed for it and cannot be read.
        """
        kind = event_filter(self._row).kind_of(event)
        try:
            body = self._make_body(self._row, event, kind) if kind else None
        except HistoryUnavailable as error:
            self._is_over = True
            self._error = str(error)
            self._next_try_at = clock.now() + error.retry_after_seconds * clock.SECOND
            return None
        return Message(event.id, kind, event.data, body) if kind and body else None

    def _take(self, event: Event, message: Message) -> bool:
        """Send or set aside one event. Returns False if the round must stop before the next event."""
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
        outcome = self._send(message, is_new=True)
        if outcome.result is Result.DELIVERED:
            return True
        if self._is_receiver_at_fault(outcome):
            self._stop_for_now(outcome)
            return False
        self._set_aside[event.seq] = Retry(event.seq, event.subject_id, now, 1, now + retry_schedule.retry_delay(1))
        return True

    def _is_receiver_at_fault(self, outcome: Outcome) -> bool:
        """Return False if the event itself may be the cause, so the next one is tried."""
        return outcome.result is Result.GONE or outcome.wait_seconds > 0 or retry_schedule.is_failing(self._failures)

    def _wait_for_room(self) -> None:
        """Pause until the first set-aside event is due. This is not a receiver failure, so the pause does not grow."""
        self._is_over = True
        self._error = f"{len(self._set_aside)} events are waiting after failed or refused deliveries"
        self._next_try_at = min(retry.next_try_at for retry in self._heads())

    def _send(self, message: Message, *, is_new: bool) -> Outcome:
        """Send one event and count the result. Repeated failures of an old event do not count against the receiver."""
        outcome, attempt = attempt_to_send(self._sender, message)
        self._attempts.append(attempt)
        if outcome.result is Result.DELIVERED:
            if retry_schedule.is_failing(self._failures):
                self._hasten_retries(attempt.at)
            self._failures, self._failing_since, self._error = 0, None, None
        else:
            self._failures += is_new
            if outcome.result is not Result.REFUSED:  # a receiver that refuses is working
                self._failing_since = self._failing_since or attempt.at
            self._error = outcome.detail
        return outcome

    def _hasten_retries(self, now: int) -> None:
        """Make all retries due now, because the receiver is back."""
        for seq, retry in self._set_aside.items():
            self._set_aside[seq] = retry._replace(next_try_at=min(retry.next_try_at, now))

    def _stop_for_now(self, outcome: Outcome) -> None:
        now = clock.now()
        self._is_over = True
        self._error = outcome.detail
        self._failing_since = self._failing_since or now
        pause = retry_schedule.destination_pause(self._failures)
        self._next_try_at = now + max(pause, int(outcome.wait_seconds * clock.SECOND))
        if outcome.result is Result.GONE:
            self._disabled_reason = outcome.detail
        elif self._fails_for_days(now):
            days = retry_schedule.GIVE_UP_AFTER // clock.DAY
            self._disabled_reason = f"no delivery succeeded for {days} days: {outcome.detail}"

    def _must_end(self) -> bool:
        return self._is_over or self._stopping.is_set() or time.monotonic() > self._ends_at

    def _is_noteworthy(self) -> bool:
        """Return True if progress is worth a commit. Skipping filtered events again is cheaper than recording them."""
        return bool(
            self._attempts or self._lost or self._is_over or (self._is_note_due and self.seq > self._row.position)
        )

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


def attempt_to_send(sender: Sender[Any], message: Numbered) -> tuple[Outcome, Attempt]:
    """Send one message and return its outcome with the attempt to record."""
    at, began = clock.now(), time.monotonic()
    outcome = sender.send(message)
    took = int((time.monotonic() - began) * 1000)
    is_delivered = outcome.result is Result.DELIVERED
    return outcome, Attempt(at, took, message.id, message.kind, is_delivered, outcome.detail[:MAX_ERROR])


class Numbered(Protocol):
    """A message as its attempt is listed."""

    @property
    def id(self) -> str: ...

    @property
    def kind(self) -> str: ...


class Message(NamedTuple):
    """One event as sent to a destination: `kind` as seen by its filter."""

    id: str
    kind: str
    data: dict[str, Any]
    body: bytes


MakeBody = Callable[[Destination, Event, str], bytes | None]


class Result(Enum):
    DELIVERED = "delivered"
    REFUSED = "refused"  # this event only; others may be accepted
    FAILED = "failed"  # connection or receiver failure
    GONE = "gone"  # the receiver unsubscribed (410)


class Outcome(NamedTuple):
    """Result of one attempt.

    `detail` is shown to administrators; `wait_seconds` is the pause that the receiver asked for.
    """

    result: Result
    detail: str
    wait_seconds: float = 0.0


class Sender(Protocol[Sent]):
    """A connection to one destination, kept between events. Used by one thread at a time."""

    def send(self, message: Sent, /) -> Outcome: ...

    def close(self) -> None: ...


class Unusable:
    """Sender of a destination that cannot be used, with the reason."""

    def __init__(self, why: str) -> None:
        self._why = why

    def send(self, _message: object) -> Outcome:
        return Outcome(Result.FAILED, self._why)

    def close(self) -> None:
        """Do nothing."""
