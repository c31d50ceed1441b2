"""Threads for events and messages: one detects and logs events, and finds due messages; a few deliver.

Without destinations, the first thread only checks periodically for new ones.
"""

from __future__ import annotations

import logging
import secrets
import ssl
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import cached_property, partial
from pathlib import Path
from typing import NamedTuple, Protocol

from edge import clock
from edge.database.connection import writing
from edge.database.instance import fingerprint
from edge.errors import EdgeError, HistoryUnavailable, SetupError
from edge.events import destinations, detection, progress
from edge.events import log as events
from edge.events.checked_connection import trust
from edge.events.delivery import Message, Round, Sender, Unusable, attempt_to_send
from edge.events.delivery_threads import DeliveryThreads, Turn
from edge.events.destinations import DestinationKind, is_epcis
from edge.events.detection import Silence
from edge.events.family import Destination
from edge.events.log import Event
from edge.events.mqtt import Broker
from edge.events.standby_thread import UNEXPECTED_SECONDS, StandbyThread
from edge.events.webhook import Webhook
from edge.people.secrets import unseal
from edge.validation import json_text

log = logging.getLogger(__name__)

LOOK_SECONDS = 0.25
FOLLOWED_SECONDS = 0.05  # with a follower, which has to be quick
MESSAGES_SECONDS = 0.5
IDLE_SECONDS = 1.0  # without destinations
READERS_SECONDS = 10.0
UNSEEN_SECONDS = 30.0
TRIM_SECONDS = 600.0
TRIM_ROWS = 1_000
NOTE_SECONDS = 60.0  # interval for recording progress over filtered events
EPCIS_ROUNDS = 10


class EventsPace(NamedTuple):
    """Silence thresholds, and how long events are kept (µs)."""

    silence: Silence
    keep: int


class Epcis(NamedTuple):
    """EPCIS events of the history.

    `log_changes(is_needed=)` logs some of the changes since the last call and returns their number. `body` returns the
    document for an event of the log, or without one that of a test.
    """

    log_changes: Callable[..., int]
    body: Callable[[Destination, Event | None], bytes | None]


class Follower(Protocol):
    """Reads the log in the same thread, right after new events."""

    def is_needed(self) -> bool: ...

    def follow(self) -> None: ...

    def rest(self) -> None: ...


class EventsWorker:
    def __init__(
        self,
        pace: EventsPace,
        authority_file: Path | None = None,
        follower: Follower | None = None,
        epcis: Epcis | None = None,
        messages: Callable[[], Iterable[Turn]] = tuple,
    ) -> None:
        """Create the threads, which also run the turns that `messages` returns.

        `authority_file` has certificates to trust in addition to the system's.
        """
        self._pace = pace
        self._epcis = epcis
        self._follower = follower
        self._messages = messages
        self._authority_file = authority_file
        self._stopping = threading.Event()
        self._passed: dict[int, _Passed] = {}
        self._senders: dict[int, tuple[tuple[str, bytes], Sender[Message]]] = {}
        self._due: dict[str, float] = {}
        self._follower_fault = ""
        self._detector = StandbyThread("events", lambda: True, self._look)
        self._threads = DeliveryThreads(self._detector.note)

    def use_pace(self, pace: EventsPace) -> None:
        """Apply new settings from the next round on."""
        self._pace = pace

    def start(self) -> None:
        self._detector.start_if_needed()
        self._threads.start()

    def stop(self) -> None:
        self._stopping.set()
        self._detector.stop()
        self._threads.stop()
        for _, sender in self._senders.values():
            sender.close()

    def trouble(self) -> str:
        """Return the current fault of the threads, or an empty text."""
        if not (self._detector.is_running() and self._threads.are_running()):
            return "a thread has stopped; restart the service"
        return self._detector.trouble() or self._follower_fault

    def _look(self) -> float:
        """Run all due tasks once. Returns the seconds until the next round."""
        rows = destinations.KIND.enabled()
        self._every("trim", TRIM_SECONDS, self._trim)
        self._every("messages", MESSAGES_SECONDS, self._offer_messages)
        is_followed = self._is_followed()
        if not rows and not is_followed:
            self._stop_detection()
            return IDLE_SECONDS
        if not detection.is_running():
            detection.start(self._pace.silence)
            log.info("Events: event logging started")
        self._make()
        self._make_epcis(rows)
        if is_followed:
            self._follow()
        self._close_removed({row.no for row in rows})
        newest, retries, now = events.newest(), progress.retries_due(), clock.now()
        for row in rows:
            if row.kind != DestinationKind.STREAM and self._is_due(row, newest, retries, now):
                self._threads.offer(Turn(row.organization_id, row.no, row.name, partial(self._deliver, row)))
        return FOLLOWED_SECONDS if is_followed else LOOK_SECONDS

    def _offer_messages(self) -> None:
        for turn in self._messages():
            self._threads.offer(turn)

    def _stop_detection(self) -> None:
        if not detection.is_running():
            return
        with writing():
            if destinations.KIND.enabled():  # added since the last look
                return
            detection.stop()
        self._make_epcis(())
        log.info("Events: no destination and no rule is enabled; event logging stopped")

    def _is_followed(self) -> bool:
        if self._follower is None:
            return False
        if self._follower.is_needed():
            return True
        self._follower.rest()
        self._follower_fault = ""
        return False

    def _follow(self) -> None:
        """Let the follower read the log. Its faults do not delay deliveries."""
        if self._follower is None or time.monotonic() < self._due.get("follower", 0):
            return
        try:
            self._follower.follow()
        except EdgeError as error:
            self._detector.note(str(error))
            self._due["follower"] = time.monotonic() + UNEXPECTED_SECONDS / 10
        except Exception as error:
            log.exception("Rules failed unexpectedly; trying again in a minute")
            self._follower_fault = repr(error)
            self._due["follower"] = time.monotonic() + UNEXPECTED_SECONDS
        else:
            self._follower_fault = ""

    def _make(self) -> None:
        with suppress(HistoryUnavailable):  # the changes wait, everything else continues
            while detection.log_changes(self._pace.silence):
                if self._stopping.is_set():
                    return
        self._every("readers", READERS_SECONDS, lambda: detection.log_readers(self._pace.silence))
        self._every("unseen", UNSEEN_SECONDS, self._make_unseen)

    def _make_epcis(self, rows: Sequence[Destination]) -> None:
        if self._epcis is not None:
            is_needed = any(is_epcis(row) for row in rows)
            for _ in range(EPCIS_ROUNDS):  # rules and other organizations wait for this
                if not self._epcis.log_changes(is_needed=is_needed) or self._stopping.is_set():
                    return

    def _make_unseen(self) -> None:
        while detection.log_unseen(self._pace.silence) and not self._stopping.is_set():
            pass

    def _trim(self) -> None:
        while events.drop_old(clock.now() - self._pace.keep, TRIM_ROWS) and not self._stopping.wait(0.05):
            pass

    def _close_removed(self, present: set[int]) -> None:
        for no in set(self._senders) - present:
            if not self._threads.is_busy(no):
                self._senders.pop(no)[1].close()
                self._passed.pop(no, None)

    def _is_due(self, row: Destination, newest: int, retries: set[int], now: int) -> bool:
        if row.tested_at is not None:
            return True
        seq = max(row.position, self._passed[row.no].seq if row.no in self._passed else 0)
        return progress.is_due(row.next_try_at, now) and (newest > seq or row.id in retries)

    def _deliver(self, queued: Destination) -> bool:
        """Deliver for about one second. Returns True if the destination needs another turn."""
        row = destinations.KIND.find_enabled(queued.no)  # it may have been queued before its last delivery was recorded
        if row is None:
            return False
        sender = self._sender(row)
        if row.tested_at is not None:
            _, attempt = attempt_to_send(sender, self._test_message(row))
            progress.record_test(row.id, attempt)
            return False
        passed = self._passed.get(row.no, _Passed(row.position, 0.0))
        is_note_due = time.monotonic() - passed.noted_at > NOTE_SECONDS
        row_now = row._replace(position=max(row.position, passed.seq))
        one = Round(row_now, sender, self._stopping, self._make_body, is_note_due=is_note_due)
        has_more = one.run()
        self._passed[row.no] = _Passed(one.seq, time.monotonic() if is_note_due else passed.noted_at)
        return has_more

    def _make_body(self, row: Destination, event: Event, kind: str) -> bytes | None:
        if is_epcis(row):
            return self._epcis.body(row, event) if self._epcis else None
        return events.body(event, kind)

    def _test_message(self, row: Destination) -> Message:
        event_id = f"evt_test_{secrets.token_hex(8)}"
        event_json = {"id": event_id, "type": "test", "timestamp": clock.rfc3339(clock.now()), "data": {}}
        body = self._epcis.body(row, None) if self._epcis and is_epcis(row) else None
        return Message(event_id, "test", {}, body or json_text.encode(event_json))

    def _sender(self, row: Destination) -> Sender[Message]:
        """Return the connected sender of a destination, or a new one."""
        key = (f"{row.kind} {row.url} {row.topic} {row.network}", row.secret)
        known = self._senders.get(row.no)
        if known and known[0] == key:
            return known[1]
        if known:
            known[1].close()
        sender = self._new_sender(row)
        self._senders[row.no] = (key, sender)
        return sender

    def _new_sender(self, row: Destination) -> Sender[Message]:
        try:
            secret = unseal(row.secret)
        except SetupError as error:
            return Unusable(str(error))
        if row.kind == DestinationKind.WEBHOOK:
            return Webhook(row.url, secret, row.network, self._tls)
        client_id = f"edge-events-{fingerprint()}-{row.no}"
        return Broker(row.url, secret, row.topic, row.network, self._tls, client_id)

    @cached_property
    def _tls(self) -> ssl.SSLContext:
        """Take 1.4 MB for the first destination."""
        return trust(self._authority_file)

    def _every(self, name: str, seconds: float, do: Callable[[], object]) -> None:
        if time.monotonic() >= self._due.get(name, 0):
            do()
            self._due[name] = time.monotonic() + seconds


class _Passed(NamedTuple):
    """Position up to which a destination has read the log; recorded later if the filter excluded the events."""

    seq: int
    noted_at: float
