"""Sync thread of a site. Without a hub it only checks periodically for one."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from edge import clock
from edge.database import change_log
from edge.database.connection import close_database
from edge.errors import EdgeError, SetupError, Unavailable
from edge.events.standby_thread import UNEXPECTED_SECONDS, StandbyThread
from edge.sync import files, verify
from edge.sync.client import HubClient
from edge.sync.sender import HistoryWaits, LinkError, SecondBox, Sender, Sent, Stopped
from edge.sync.store import change_feed, hub_link, site_health
from edge.sync.store.hub_link import Target
from edge.sync.store.site_health import HealthLane, SiteHealth

log = logging.getLogger(__name__)

RETRY_SECONDS = 1.0
AGAIN_SECONDS = 0.1  # first retry, since a single connection loss is common
POSITIONS_SECONDS = 60.0  # interval of position reports after the daily limit is reached
SEEN_EVERY = 180 * clock.SECOND  # interval of last-seen updates
SEEN_EVERY_METERED = 600 * clock.SECOND  # with a daily limit
NOTE_AGAIN = 60 * clock.SECOND  # interval for recording a repeated fault; each commit wears the SD card
TRIM_SECONDS = 600.0
TRIM_ROWS = 10_000
GIVE_WAY = 39  # pause factor while reads wait: sync gets 1/40 of a core
MAX_FEED_OF_HUB = 1_000_000  # master data changes kept
MAX_FEED = 5_000_000  # changes that wait for a hub or for readers of the open feed, about 110 MB


class SyncPace(NamedTuple):
    """Send interval, daily limit in bytes (0: none), and days to keep acknowledged changes."""

    interval_seconds: float
    bytes_a_day: int
    keep_days: int


class SyncWorker(StandbyThread):
    stop_seconds = 3.0

    def __init__(
        self,
        data_dir: Path,
        pace: SyncPace,
        has_reads_waiting: Callable[[], bool],
        read_health: Callable[[int], SiteHealth] | None = None,
    ) -> None:
        super().__init__("sync", lambda: True, self.work, self._hang_up)
        self._data_dir = data_dir
        self._pace = pace
        self._has_reads_waiting = has_reads_waiting
        every = site_health.EVERY_METERED if pace.bytes_a_day else site_health.EVERY
        self._health = HealthLane(read_health, every) if read_health else None
        self._client: HubClient | None = None
        self._sender: Sender | None = None
        self._session_key = ""  # client id and URL of the session
        self._has_gone_well = False
        self._trimmed_at = time.monotonic()
        self._hub_full_until = 0.0  # of the monotonic clock; until then the hub gets current locations only

    def work(self) -> float:
        """Run one round, and record its fault. Returns the seconds until the next."""
        began = time.thread_time()
        try:
            wait = self._round()
        except (SetupError, Unavailable) as error:
            self._note(str(error))
            return UNEXPECTED_SECONDS
        except LinkError as error:
            self._note(str(error), is_rival=isinstance(error, SecondBox))
            self._hang_up()
            pause = max(error.wait_seconds, AGAIN_SECONDS if self._has_gone_well else RETRY_SECONDS)
            self._has_gone_well = False
            return pause * random.uniform(0.8, 1.2)  # noqa: S311  jitter needs no secure random numbers
        except Exception as error:
            self._note(str(error) or repr(error), stopped=str(error) if isinstance(error, Stopped) else None)
            self._hang_up()
            raise
        self._has_gone_well = self._sender is not None
        return max(wait, (time.thread_time() - began) * GIVE_WAY) if self._has_reads_waiting() else wait

    def _push(self, sender: Sender, *, is_used_up: bool) -> Sent | None:
        """Send the next batch. Returns None if the hub takes only current locations for now."""
        is_hub_full = time.monotonic() < self._hub_full_until
        try:
            sent = sender.push(with_history=not is_used_up and not is_hub_full, with_new=not is_hub_full)
        except HistoryWaits as error:
            self._hub_full_until = time.monotonic() + max(error.wait_seconds, POSITIONS_SECONDS)
            log.warning("Sync: %s", error)
            return None
        return None if is_hub_full else sent

    def _round(self) -> float:
        """Run one round. Returns the seconds until the next."""
        here = hub_link.find()
        if here is None:
            self._trim_hub()
            close_database()  # without a hub, the connection is not worth half a megabyte
        if here is None or here.stopped or here.paused_at or here.recovering:
            self._hang_up()
            return self._pace.interval_seconds
        self._trim(here)
        is_used_up = 0 < self._pace.bytes_a_day <= _spent_today(here)
        is_new = self._sender is None
        sender = self._session(here)
        sent = self._push(sender, is_used_up=is_used_up)
        if is_new and here.last_error:  # a hub may greet and still take nothing
            log.info("Sync: connection to the hub restored")
            hub_link.update(last_error=None, last_error_at=None)
        if is_used_up:
            self._count()
            self._note(
                f"the {self._pace.bytes_a_day >> 20} MB for today are used up; history continues tomorrow (UTC), "
                "current locations are still reported"
            )
            return POSITIONS_SECONDS
        self._count()
        if sent is None:
            sender.pull()
            self._count()
            return self._pace.interval_seconds
        if not sent.is_all:
            return sent.wait_seconds
        sender.pull()
        if here.verify_wanted and self._client:
            is_full = here.verify_wanted == verify.FULL
            summary = verify.repair(here, verify.compare(here, self._client.call, is_full=is_full))
            log.info("Sync: %s", summary)
        elif self._client and verify.is_due(here) and (summary := verify.next_slice(here, self._client.call)):
            log.warning("Sync: %s", summary)
        self._count()
        return max(self._pace.interval_seconds, sent.wait_seconds)

    def _session(self, here: Target) -> Sender:
        """Return the current session, or a new one."""
        session_key = f"{here.client_id} {here.url}"
        if self._sender is None or self._session_key != session_key:
            self._hang_up()
            secret, authority = files.read(self._data_dir)
            self._client = HubClient(here.url, here.client_id, secret, authority)
            seen_every = SEEN_EVERY_METERED if self._pace.bytes_a_day else SEEN_EVERY
            sender = Sender(self._client.call, seen_every, self._pace.interval_seconds, self._health)
            sender.connect()
            self._sender, self._session_key = sender, session_key
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
            log.warning(
                "More than %d changes wait for the hub; dropping the oldest, a comparison will resend them", MAX_FEED
            )
            hub_link.update(verify_wanted=1)
            while change_log.trim(change_log.newest() - MAX_FEED, TRIM_ROWS) and not self._stopping.wait(0.05):
                pass

    def _trim_hub(self) -> None:
        """Drop old master data changes. A site that asks for older ones gets all master data, page by page."""
        is_open = change_feed.is_open()
        until = change_log.newest() - MAX_FEED if is_open else change_feed.record_before(MAX_FEED_OF_HUB)
        while change_log.trim(until, TRIM_ROWS) and not self._stopping.wait(0.05):
            pass

    def _note(self, fault: str, stopped: str | None = None, *, is_rival: bool = False) -> None:
        """Log and record a fault. A failing store must not end the thread."""
        try:
            target = hub_link.find()
            if target and target.last_error != fault:
                log.warning("Sync: %s", fault)
            elif target and not stopped and 0 <= clock.now() - (target.last_error_at or 0) < NOTE_AGAIN:
                return
            columns: dict[str, Any] = {} if stopped is None else {"stopped": stopped}
            if is_rival:
                columns["rival_at"] = clock.now()
            hub_link.update(last_error=fault, last_error_at=clock.now(), **columns)
        except EdgeError as error:
            log.error("Sync: %s. Recording this failed: %s", fault, error)


def _spent_today(here: Target) -> int:
    return here.bytes_sent + here.bytes_received if here.day == clock.now() // clock.DAY else 0
