"""The thread that sends the messages of all channels. It runs only while there are channels.

Each round sends one piece of each organization that is due: a message, or a digest. A failed channel pauses by the
schedule of event destinations. So the slow mail servers of one organization delay the others by one attempt at a time.
"""

from __future__ import annotations

import logging
import secrets
import ssl
import time
from collections.abc import Callable
from contextlib import closing
from datetime import tzinfo
from functools import cached_property
from itertools import takewhile
from pathlib import Path

from edge import clock
from edge.database.instance import fingerprint
from edge.errors import EdgeError, SetupError
from edge.events.checked_connection import trust
from edge.events.delivery import Outcome, Result
from edge.events.progress import is_due
from edge.events.standby_thread import UNEXPECTED_SECONDS, StandbyThread
from edge.people.secrets import unseal
from edge.rules.channels import attempts, channels, compose, outbox, schedule
from edge.rules.channels.channels import Channel
from edge.rules.channels.compose import Entry, Outgoing
from edge.rules.channels.kinds import KINDS
from edge.rules.channels.outbox import Waiting

log = logging.getLogger(__name__)

LOOK_SECONDS = 0.5
MOST_SINGLE = 10  # beyond it, messages that wait are sent in one piece, for example after an outage


class ChannelsWorker(StandbyThread):
    def __init__(
        self,
        zone: Callable[[], tzinfo],
        authority_file: Path | None = None,
        enqueue_due: Callable[[int, tzinfo], object] | None = None,
    ) -> None:
        """Prepare without a thread.

        `authority_file` has certificates to trust in addition to the system's. `enqueue_due` queues lists that are
        due.
        """
        super().__init__("channels", channels.has_channels, self._work)
        self._enqueue_due = enqueue_due
        self._lists_held_until = 0.0
        self._zone = zone
        self._authority_file = authority_file
        self._held_until: dict[int, float] = {}  # after an unexpected error
        self._served: dict[int, int] = {}  # the last channel, by organization

    def _work(self) -> float:
        return 0.0 if self.work_once() else LOOK_SECONDS

    def work_once(self) -> bool:
        """Serve one channel of each organization that has something to send. Returns True if something was sent."""
        has_sent = False
        self._enqueue_lists()
        for own in self._in_turn(channels.at_work()):
            for row in own:
                if self.is_stopping:
                    return False
                if time.monotonic() < self._held_until.get(row.no, 0):
                    continue
                is_sent = self._try_to_serve(row)
                has_sent = bool(is_sent) or has_sent
                if is_sent is not None:
                    self._served[row.organization_id] = row.no
                    break
        return has_sent

    def _in_turn(self, rows: list[Channel]) -> list[list[Channel]]:
        """Return the channels of each organization, the ones after the last that was served first."""
        by_organization: dict[int, list[Channel]] = {}
        for row in rows:
            by_organization.setdefault(row.organization_id, []).append(row)
        for organization_id, own in by_organization.items():
            last = self._served.get(organization_id, 0)
            own.sort(key=lambda row: (row.no <= last, row.no))
        return list(by_organization.values())

    def _try_to_serve(self, row: Channel) -> bool | None:
        try:
            return self._serve(row)
        except EdgeError:
            raise
        except Exception:
            log.exception("Channels: sending to %s failed unexpectedly; trying again in a minute", row.name)
            self._held_until[row.no] = time.monotonic() + UNEXPECTED_SECONDS
            return False

    def _enqueue_lists(self) -> None:
        """Queue lists that are due. A fault does not keep alerts from being sent."""
        if self._enqueue_due is None or time.monotonic() < self._lists_held_until:
            return
        try:
            self._enqueue_due(clock.now(), self._zone())
        except Exception:
            log.exception("Lists by email failed; trying again in a minute")
            self._lists_held_until = time.monotonic() + UNEXPECTED_SECONDS

    def _serve(self, row: Channel) -> bool | None:
        """Send what is due. Returns whether it was delivered, or None if nothing is due."""
        if row.is_test_requested:
            began = time.monotonic()
            outcome = self._send(row, compose.test_message(f"edge.test.{secrets.token_hex(8)}", row.name))
            attempts.record_test(row.no, outcome, int((time.monotonic() - began) * 1000), clock.now())
            return True
        now = clock.now()
        if not is_due(row.next_try_at, now):
            return None
        waiting = attempts.give_up(row, outbox.due(row.no, now, compose.MOST_IN_DIGEST), now)
        rows = self._ready(row, waiting, now)
        if not rows:
            return None
        outcome = self._send(row, self._outgoing(row, rows, now))
        if outcome.result is not Result.DELIVERED:
            log.warning("Channels: %s did not accept a message: %s", row.name, outcome.detail)
        attempts.record(row, rows, outcome, clock.now())
        return outcome.result is Result.DELIVERED

    def _ready(self, row: Channel, waiting: list[Waiting], now: int) -> list[Waiting]:
        """Return the messages to send in one piece: all of a digest, or the first one."""
        zone = self._zone()
        if not waiting or schedule.is_quiet(now, row.schedule, zone):
            return []
        first = waiting[0].enqueued_at
        if first <= now < schedule.due_at(first, row.schedule, zone):  # a first one in the future: the clock went back
            return []
        if waiting[0].attempts or waiting[0].has_file:  # refused before, perhaps because of one of them
            return waiting[:1]
        waiting = list(takewhile(lambda one: not one.has_file, waiting))
        return waiting if row.digest or len(waiting) > MOST_SINGLE else waiting[:1]

    def _outgoing(self, row: Channel, rows: list[Waiting], now: int) -> Outgoing:
        zone = self._zone()
        entries = [Entry(one.message, schedule.is_late(one.enqueued_at, row.schedule, zone, now)) for one in rows]
        outgoing = compose.outgoing(f"edge.{fingerprint()}.{row.no}.{rows[0].number}", entries, zone)
        return outgoing._replace(attachment=outbox.file_of(rows[0].number)) if rows[0].has_file else outgoing

    def _send(self, row: Channel, outgoing: Outgoing) -> Outcome:
        try:
            secret = unseal(row.secret) if row.secret else ""
        except SetupError as error:
            return Outcome(Result.FAILED, str(error))
        with closing(KINDS[row.kind].new_sender(row.settings, secret, row.network, self._tls)) as sender:
            return sender.send(outgoing)

    @cached_property
    def _tls(self) -> ssl.SSLContext:
        """Take 30 ms and 1 MB for the first channel."""
        return trust(self._authority_file)
