"""The thread of a site that talks to its hub. Without a hub it only looks, now and then, whether there is one."""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from edge import clock
from edge.errors import EdgeError, SetupError, Unavailable
from edge.sync import files, verify
from edge.sync.client import MAX_WAIT_SECONDS, HubClient
from edge.sync.sender import LinkError, SecondBox, Sender, Stopped
from edge.sync.store import change_feed, hub_link
from edge.sync.store.hub_link import Target

log = logging.getLogger(__name__)

RETRY_SECONDS = 1.0
AGAIN_SECONDS = 0.1  # the first time: a line loses a connection, and the next one works
UNEXPECTED_SECONDS = 60.0
POSITIONS_SECONDS = 60.0  # between reports of positions once the bytes of a day are used up
SEEN_EVERY = 180 * clock.SECOND  # between reports that assets were seen again where they were
SEEN_EVERY_METERED = 600 * clock.SECOND  # where bytes are limited
NOTE_AGAIN = 60 * clock.SECOND  # how often the same fault is recorded: each commit wears the SD card
TRIM_SECONDS = 600.0
TRIM_ROWS = 10_000
GIVE_WAY = 39  # times as long as it worked: while reads wait, sync gets a fortieth of a core
MAX_FEED_OF_HUB = 1_000_000  # changes of master data
MAX_FEED = 5_000_000  # changes that wait; beyond it they are found by digests instead


class Pace(NamedTuple):
    """How often to send, how much a day (bytes, 0: as much as there is), and how long acknowledged changes are kept."""

    interval_seconds: float
    bytes_a_day: int
    keep_days: int


class Worker:
    def __init__(self, data_dir: Path, pace: Pace, has_reads_waiting: Callable[[], bool]) -> None:
        self._data_dir = data_dir
        self._pace = pace
        self._has_reads_waiting = has_reads_waiting
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sync", daemon=True)
        self._client: HubClient | None = None
        self._sender: Sender | None = None
        self._for = ""  # the epoch and key the session was begun for
        self._has_gone_well = False
        self._trimmed_at = time.monotonic()

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join(3)

    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def _run(self) -> None:
        wait = 1.0
        while not self._stopping.wait(min(wait, MAX_WAIT_SECONDS)):
            began = time.thread_time()
            try:
                wait = self._round()
                self._has_gone_well = self._sender is not None
                if self._has_reads_waiting():
                    wait = max(wait, (time.thread_time() - began) * GIVE_WAY)
            except Stopped as error:
                log.error("Sync has stopped: %s", error)
                self._note(str(error), stopped=str(error))
                self._hang_up()
            except LinkError as error:
                self._note(str(error), is_rival=isinstance(error, SecondBox))
                self._hang_up()
                pause = max(error.wait_seconds, AGAIN_SECONDS if self._has_gone_well else RETRY_SECONDS)
                wait = pause * random.uniform(0.8, 1.2)  # noqa: S311  so that not all come at once
                self._has_gone_well = False
            except (SetupError, Unavailable) as error:
                self._note(str(error))
                wait = UNEXPECTED_SECONDS
            except Exception as error:
                log.exception("Sync failed unexpectedly; trying again in a minute")
                self._note(repr(error))
                self._hang_up()
                wait = UNEXPECTED_SECONDS
        self._hang_up()

    def _round(self) -> float:
        """Seconds until the next one."""
        here = hub_link.find()
        if here is None:
            self._trim_hub()
        if here is None or here.stopped or here.paused_at or here.recovering:
            self._hang_up()
            return self._pace.interval_seconds
        self._trim(here)
        is_used_up = 0 < self._pace.bytes_a_day <= _spent_today(here)
        sender = self._session(here)
        sent = sender.push(with_history=not is_used_up)
        if is_used_up:
            self._count()
            self._note(
                f"the {self._pace.bytes_a_day >> 20} MB of today are used up; history continues tomorrow (UTC), "
                "where assets are is still reported"
            )
            return POSITIONS_SECONDS
        self._count()
        if not sent.is_all:
            return sent.wait_seconds
        sender.pull()
        if here.verify_wanted and self._client:
            told = verify.repair(here, verify.compare(here, self._client.call))
            log.info("Sync: %s", told)
        elif self._client and verify.is_due(here) and (told := verify.next_slice(here, self._client.call)):
            log.warning("Sync: %s", told)
        self._count()
        return max(self._pace.interval_seconds, sent.wait_seconds)

    def _session(self, here: Target) -> Sender:
        """The current session, or a new one."""
        wanted = f"{here.client_id} {here.url}"
        if self._sender is None or self._for != wanted:
            self._hang_up()
            secret, authority = files.read(self._data_dir)
            self._client = HubClient(here.url, here.client_id, secret, authority)
            sender = Sender(self._client.call, SEEN_EVERY_METERED if self._pace.bytes_a_day else SEEN_EVERY)
            sender.connect()
            if here.last_error:
                log.info("Sync: the hub answers again")
                hub_link.update(last_error=None, last_error_at=None)
            self._sender, self._for = sender, wanted
        return self._sender

    def _hang_up(self) -> None:
        if self._client:
            self._client.close()
        self._client = self._sender = None

    def _count(self) -> None:
        if self._client and (self._client.sent or self._client.received):
            hub_link.count_bytes(self._client.sent, self._client.received)
            self._client.sent = self._client.received = 0

    def _trim(self, here: Target) -> None:
        if time.monotonic() - self._trimmed_at < TRIM_SECONDS:
            return
        self._trimmed_at = time.monotonic()
        before = clock.now() - self._pace.keep_days * clock.DAY
        while hub_link.trim(before, TRIM_ROWS) and not self._stopping.wait(0.05):
            pass
        if change_feed.count_after(here.acked_seq) > MAX_FEED:
            log.warning("More than %d changes wait for the hub: the oldest will be found by comparing", MAX_FEED)
            hub_link.update(verify_wanted=1)
            while change_feed.trim(change_feed.newest() - MAX_FEED, TRIM_ROWS) and not self._stopping.wait(0.05):
                pass

    def _trim_hub(self) -> None:
        """A site that asks for older changes of master data gets all of it, page by page."""
        while change_feed.newest() - change_feed.oldest_kept() > MAX_FEED_OF_HUB and not self._stopping.wait(0.05):
            change_feed.trim(change_feed.newest() - MAX_FEED_OF_HUB, TRIM_ROWS)

    def _note(self, fault: str, stopped: str | None = None, *, is_rival: bool = False) -> None:
        """The store itself may be what failed, and that must not end the thread."""
        try:
            found = hub_link.find()
            if found and found.last_error != fault:
                log.warning("Sync: %s", fault)
            elif found and not stopped and 0 <= clock.now() - (found.last_error_at or 0) < NOTE_AGAIN:
                return
            columns: dict[str, Any] = {} if stopped is None else {"stopped": stopped}
            if is_rival:
                columns["rival_at"] = clock.now()
            hub_link.update(last_error=fault, last_error_at=clock.now(), **columns)
        except EdgeError as error:
            log.error("Sync: %s. This cannot be recorded: %s", fault, error)


def _spent_today(here: Target) -> int:
    return here.bytes_sent + here.bytes_received if here.day == clock.now() // clock.DAY else 0
