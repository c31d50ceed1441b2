"""Sends the messages of all channels, in the threads that deliver events.

Each turn of a channel sends one piece: a message, or a digest. A failed channel pauses by the schedule of event
destinations.
"""

from __future__ import annotations

import logging
import secrets
import ssl
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import tzinfo
from functools import cached_property, partial
from itertools import takewhile
from pathlib import Path

from edge import clock
from edge.audit.actors import THE_BOX
from edge.database.connection import writing
from edge.database.instance import fingerprint
from edge.errors import SetupError
from edge.events import retry_schedule
from edge.events.checked_connection import trust
from edge.events.delivery import Outcome, Result, Unusable, attempt_to_send
from edge.events.delivery_threads import Turn
from edge.events.family import Destination
from edge.events.progress import Attempt, Progress, is_due, record_progress, record_test, retries_of
from edge.people.secrets import unseal
from edge.rules.channels import channels, compose, outbox
from edge.rules.channels.channels import schedule_of
from edge.rules.channels.compose import PARTLY, Entry, Outgoing
from edge.rules.channels.kinds import KINDS
from edge.rules.channels.outbox import Waiting

log = logging.getLogger(__name__)

MOST_SINGLE = 10  # beyond it, messages that wait are sent in one piece, for example after an outage


@dataclass
class Messages:
    """The messages of all channels, for the threads that deliver.

    `authority_file` has certificates to trust in addition to the system's. `enqueue_due` queues lists that are due.
    """

    zone: Callable[[], tzinfo]
    authority_file: Path | None = None
    enqueue_due: Callable[[int, tzinfo], object] = lambda *_: None

    def due(self) -> Iterator[Turn]:
        """Yield a turn for each channel that may have something to send, and one for the lists."""
        if not channels.KIND.exists():
            return
        yield Turn(THE_BOX, "lists", "lists by email", self._enqueue_lists)
        for row in channels.at_work():
            yield Turn(row.organization_id, ("channel", row.no), row.name, partial(self._serve, row.no))

    def _enqueue_lists(self) -> bool:
        self.enqueue_due(clock.now(), self.zone())
        return False

    def _serve(self, no: int) -> bool:
        """Send the due messages in one piece. Returns True if they were delivered and more may be due."""
        row = next((one for one in channels.at_work() if one.no == no), None)  # it may have changed in the queue
        if row is None:
            return False
        if row.tested_at is not None:
            test = compose.test_message(f"edge.test.{secrets.token_hex(8)}", row.name)
            record_test(row.id, self._send(row, test)[1])
            return True
        now = clock.now()
        if not is_due(row.next_try_at, now):
            return False
        waiting = give_up(row, outbox.due(row.id, now, compose.MOST_IN_DIGEST), now)
        rows = self._ready(row, waiting, now)
        if not rows:
            return False
        outcome, attempt = self._send(row, self._outgoing(row, rows, now))
        if outcome.result is not Result.DELIVERED:
            log.warning("Channels: %s did not accept a message: %s", row.name, outcome.detail)
        record(row, rows, outcome, attempt)
        return outcome.result is Result.DELIVERED

    def _ready(self, row: Destination, waiting: list[Waiting], now: int) -> list[Waiting]:
        """Return the messages to send in one piece: all of a digest, or the first one."""
        zone = self.zone()
        if not waiting or channels.is_quiet(now, schedule_of(row), zone):
            return []
        first = waiting[0].enqueued_at
        if (
            first <= now < channels.due_at(first, schedule_of(row), zone)
        ):  # a first one in the future: the clock went back
            return []
        if waiting[0].attempts or waiting[0].has_file:  # refused before, perhaps because of one of them
            return waiting[:1]
        waiting = list(takewhile(lambda one: not one.has_file, waiting))
        return waiting if schedule_of(row).digest or len(waiting) > MOST_SINGLE else waiting[:1]

    def _outgoing(self, row: Destination, rows: list[Waiting], now: int) -> Outgoing:
        zone = self.zone()
        entries = [Entry(one.message, channels.is_late(one.enqueued_at, schedule_of(row), zone, now)) for one in rows]
        outgoing = compose.outgoing(f"edge.{fingerprint()}.{row.no}.{rows[0].number}", entries, zone)
        return outgoing._replace(attachment=outbox.file_of(rows[0].number)) if rows[0].has_file else outgoing

    def _send(self, row: Destination, outgoing: Outgoing) -> tuple[Outcome, Attempt]:
        try:
            secret = unseal(row.secret) if row.secret else ""
        except SetupError as error:
            return attempt_to_send(Unusable(str(error)), outgoing)
        with closing(KINDS[row.kind].new_sender(row.settings, secret, row.network, self._tls)) as sender:
            return attempt_to_send(sender, outgoing)

    @cached_property
    def _tls(self) -> ssl.SSLContext:
        """Take 30 ms and 1 MB for the first channel."""
        return trust(self.authority_file)


def record(row: Destination, rows: Sequence[Waiting], outcome: Outcome, attempt: Attempt) -> None:
    """Record the outcome of one attempt to send messages, in one transaction after it.

    A crash before it sends the messages again, under the same number.
    """
    now, is_sent, is_refused = clock.now(), attempt.is_delivered, outcome.result is Result.REFUSED
    failures = 0 if is_sent else row.failures + 1
    pause = max(retry_schedule.destination_pause(failures), int(outcome.wait_seconds * clock.SECOND))
    is_pausing = not is_sent and (not is_refused or retry_schedule.is_failing(failures))
    error = None if is_sent and not outcome.detail.startswith(PARTLY) else attempt.detail
    failing_since = None if is_sent else row.failing_since or attempt.at
    with writing():
        if is_sent:
            outbox.remove(row.id, [one.number for one in rows])
        elif is_refused:  # perhaps because of these messages; others go ahead
            attempts = max((one.attempts for one in rows), default=0) + 1
            outbox.postpone(row.id, rows, now + retry_schedule.destination_pause(attempts))
        next_try_at, retries = now + pause if is_pausing else 0, retries_of(row.id)
        progress = Progress(row.position, retries, [attempt], failures, failing_since, next_try_at, error, 0)
        record_progress(row.id, progress._replace(pieces=len(rows)))


def give_up(row: Destination, rows: Sequence[Waiting], now: int) -> list[Waiting]:
    """Drop messages that have failed for days and count them as lost. Returns the others."""
    hopeless = {
        one.number for one in rows if retry_schedule.is_hopeless(one.enqueued_at, max(one.attempts, row.failures), now)
    }
    if hopeless:
        outbox.lose(row.id, hopeless)
    return [one for one in rows if one.number not in hopeless]
