"""Writer thread of ingest: commits queued messages in batches and reports the committed ones to the network thread.

The threads share deques and counters. Only one thread writes to each of them, so no lock is needed.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence

from msgspec.structs import replace

from edge.errors import Unavailable
from edge.ingest.messages import Message

log = logging.getLogger(__name__)

IDLE_SECONDS = 0.5
RETRY_SECONDS = 1.0
CATCH_UP_SECONDS = 0.25
POLL_SECONDS = 0.1
WORTH_A_COMMIT = 500  # messages
# Sum of the payloads. A parsed message needs about 40 times the memory of its payload.
QUEUE_BYTES = 16 * 1_048_576
BATCH_BYTES = 1_048_576
# The network thread looks for messages every 20 ms (subscriber.PAUSE_SECONDS). With that, a read waits at most 50 ms
# at up to 150 messages a second, and at most 150 ms above, plus the time of the commit itself. The first one after a
# pause waits too: readers send several at once, and an SD card wears with each commit.
QUIET_SECONDS = 0.03
BUSY_SECONDS = 0.13
BUSY_RATE = 160.0  # messages a second; above 150, because the measured rate fluctuates
MEASURED_SECONDS = 0.5


class Pace:
    """Measure the rate of messages and derive the longest time between two commits.

    mosquitto acknowledges reads before edge has written them, so a longer interval loses more reads in a power cut.
    Each commit costs CPU time, so the interval is longer at a busy site.
    """

    def __init__(self) -> None:
        self._since = self._committed_at = 0.0
        self._count = 0
        self._rate = 0.0

    def commit_before(self, now: float) -> float:
        """Return when the next commit is due for a message that is queued `now`, on the clock of `committed`."""
        return max(
            self._committed_at + (BUSY_SECONDS if self._rate > BUSY_RATE else QUIET_SECONDS), now + QUIET_SECONDS
        )

    def committed(self, count: int, now: float) -> None:
        """Record a commit of `count` messages."""
        self._committed_at = now
        self._count += count
        if now - self._since >= MEASURED_SECONDS:
            self._rate = self._count / (now - self._since)
            self._since, self._count = now, 0


class Writer:
    """Pass messages in batches to `handle`.

    `handle` commits the first messages and returns their number, at least 1. It is called until the batch is committed,
    and raises Unavailable while the database cannot be written.

    `catch_up` does some background work and returns True if there is more. It is called with True when the queue is
    empty, and with False every `CATCH_UP_SECONDS` under load. `on_done` is called after each batch, on this thread.
    """

    def __init__(
        self,
        handle: Callable[[Sequence[Message]], int],
        catch_up: Callable[[bool], bool],
        on_done: Callable[[], None],
        *,
        queue_size: int,
        batch_size: int,
        stopping: threading.Event,
    ) -> None:
        self._handle = handle
        self._catch_up = catch_up
        self._on_done = on_done
        self._queue_size = queue_size
        self._batch_size = batch_size
        self._stopping = stopping
        self._queue: deque[Message] = deque()
        self._bytes_taken = self._bytes_done = 0  # each written by one thread
        self._done: deque[tuple[int, int]] = deque()  # (packet ID, connection) to acknowledge
        self._has_work = threading.Event()
        self._is_quiet = threading.Event()
        self._broker_waits_at = 0  # number of unacknowledged messages at which the broker stops sending
        self._pace = Pace()
        self._caught_up_at = 0.0
        self._alive_at = time.monotonic()
        self.in_hand = 0
        self.store_problem = ""
        # A daemon thread may be abandoned at exit: its pending messages are not acknowledged.
        self.thread = threading.Thread(target=self._run, name="writer", daemon=True)

    # Called by the network thread ---------------------------------------------------------------------------------

    def has_room(self) -> bool:
        return len(self._queue) < self._queue_size and self._bytes_taken - self._bytes_done < QUEUE_BYTES

    def put(self, message: Message) -> None:
        """Queue a message. The writer starts with it after `wake`."""
        self._bytes_taken += len(message.payload)
        self._queue.append(message)

    def put_done(self, mid: int, connection: int) -> None:
        """Mark a message that needs no commit as done."""
        self._done.append((mid, connection))

    def take_done(self) -> list[tuple[int, int]]:
        """Return (packet ID, connection) of the messages committed since the last call."""
        return [self._done.popleft() for _ in range(len(self._done))]

    def wake(self) -> None:
        """Start processing the queued messages."""
        self._is_quiet.clear()
        self._has_work.set()

    def note_pause(self, *, is_sure: bool) -> None:
        """Note that no more messages arrive for now. A broker with a limit always stops at the same number.

        `is_sure`: the pause was long enough to exclude delays by TCP.
        """
        queued = len(self._queue)
        if is_sure and queued > 1:
            self._broker_waits_at = queued
        if is_sure or queued == self._broker_waits_at:
            self._is_quiet.set()

    # Thread-safe --------------------------------------------------------------------------------------------------

    def requeue(self, message: Message) -> None:
        """Queue a dead letter again."""
        self._queue.append(message)
        self._has_work.set()

    def queued(self) -> int:
        return len(self._queue)

    def seconds_since_progress(self) -> float:
        return time.monotonic() - self._alive_at

    # Writer thread ------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while not (self._stopping.is_set() and not self._queue):
            self._alive_at = time.monotonic()
            if not self._has_work.wait(IDLE_SECONDS):
                self._catch_up_while_idle()
                continue
            self._has_work.clear()
            while self._queue:
                self._gather()
                self._is_quiet.clear()
                batch = self._next_batch()
                self._commit(batch)
                self._pace.committed(len(batch), time.monotonic())
                if time.monotonic() - self._caught_up_at > CATCH_UP_SECONDS:
                    self._catch_up_a_little(is_idle=False)

    def _gather(self) -> None:
        """Wait for more messages, because most of the cost is the commit itself.

        Returns immediately when `WORTH_A_COMMIT` messages are queued. Returns early when no more arrive, because the
        broker may be waiting for acknowledgements (often after 20 messages).
        """
        until = self._pace.commit_before(time.monotonic())
        while len(self._queue) < min(WORTH_A_COMMIT, self._batch_size) and not self._stopping.is_set():
            left = until - time.monotonic()
            if left <= 0 or self._is_quiet.wait(min(left, POLL_SECONDS)):
                return

    def _catch_up_while_idle(self) -> None:
        while not self._has_work.is_set() and self._catch_up_a_little(is_idle=True):
            self._alive_at = time.monotonic()

    def _catch_up_a_little(self, *, is_idle: bool) -> bool:
        try:
            return self._catch_up(is_idle)
        except Unavailable:
            return False  # the next commit reports the reason
        finally:
            self._caught_up_at = time.monotonic()

    def _next_batch(self) -> list[Message]:
        batch: list[Message] = []
        size = requeued = 0
        while self._queue and len(batch) < self._batch_size and size < BATCH_BYTES:
            message = self._queue.popleft()
            batch.append(message)
            size += len(message.payload)
            if message.dead_letter_id:
                requeued += len(message.payload)
        self._bytes_done += size - requeued
        return batch

    def _commit(self, batch: list[Message]) -> None:
        while batch:
            self.in_hand = len(batch)
            self._alive_at = time.monotonic()
            try:
                count = self._handle(batch)
            except Unavailable as error:
                if not self.store_problem:
                    log.error("Scans cannot be stored; the broker keeps them until they can: %s", error)
                self.store_problem = str(error)
                if self._stopping.wait(RETRY_SECONDS):
                    self._queue.clear()  # unacknowledged: the broker resends them
                    return
                # Part of the batch may be committed: a batch with a poison message is split.
                batch = [replace(message, is_redelivered=True) for message in batch]
                continue
            self._committed(batch[:count])
            batch = batch[count:]
        self.in_hand = 0

    def _committed(self, messages: Sequence[Message]) -> None:
        if self.store_problem:
            log.info("Scans are stored again")
        self.store_problem = ""
        self._done.extend((message.mid, message.connection) for message in messages if message.qos)
        self._on_done()
