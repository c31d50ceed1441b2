"""The writer thread of ingest: takes what the network thread queued, commits it in batches, and reports what is done.

The two threads share deques and counters with one writer each, so that neither needs a lock.
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
from edge.ingest.pace import Pace

log = logging.getLogger(__name__)

IDLE_SECONDS = 0.5
RETRY_SECONDS = 1.0
CATCH_UP_SECONDS = 0.25
LOOK_SECONDS = 0.1
WORTH_A_COMMIT = 500  # messages
# Of payloads, whatever their number: read, a message takes about forty times the memory of its bytes.
QUEUE_BYTES = 16 * 1_048_576
BATCH_BYTES = 1_048_576


class Writer:
    """Hands messages in batches to `handle`, which commits the first of them and returns how many, at least 1.

    It is called until it has committed the batch, and raises Unavailable while the store cannot take it.

    `catch_up` does a little of what may wait, and says whether there is more; it is called when there is nothing to
    take, and now and then when there is. `on_done` is called after each batch, from this thread.
    """

    def __init__(
        self,
        handle: Callable[[Sequence[Message]], int],
        catch_up: Callable[[], bool],
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
        self._bytes_taken = self._bytes_done = 0  # one for each thread
        self._done: deque[tuple[int, int]] = deque()  # (packet id, connection) committed, to be acknowledged
        self._has_work = threading.Event()
        self._is_quiet = threading.Event()
        self._broker_waits_at = 0  # messages that are not acknowledged
        self._pace = Pace()
        self._caught_up_at = 0.0
        self._alive_at = time.monotonic()
        self.in_hand = 0
        self.store_problem = ""
        # A daemon is left behind when it does not stop in time: nothing it has in hand was acknowledged.
        self.thread = threading.Thread(target=self._run, name="writer", daemon=True)

    # What the network thread calls --------------------------------------------------------------------------------

    def has_room(self) -> bool:
        return len(self._queue) < self._queue_size and self._bytes_taken - self._bytes_done < QUEUE_BYTES

    def put(self, message: Message) -> None:
        """Nothing is done with it before `wake`."""
        self._bytes_taken += len(message.payload)
        self._queue.append(message)

    def put_done(self, mid: int, connection: int) -> None:
        """A message that needs no commit."""
        self._done.append((mid, connection))

    def take_done(self) -> list[tuple[int, int]]:
        """The (packet id, connection) of what was committed since."""
        return [self._done.popleft() for _ in range(len(self._done))]

    def wake(self) -> None:
        """Begin with the messages that were put."""
        self._is_quiet.clear()
        self._has_work.set()

    def be_quiet(self, *, is_sure: bool) -> None:
        """For a moment no more messages came. A broker that waits for us does so at the same number each time."""
        queued = len(self._queue)
        if is_sure and queued > 1:
            self._broker_waits_at = queued
        if is_sure or queued == self._broker_waits_at:
            self._is_quiet.set()

    # What any thread calls ----------------------------------------------------------------------------------------

    def requeue(self, message: Message) -> None:
        """A message that was set aside, once more."""
        self._queue.append(message)
        self._has_work.set()

    def queued(self) -> int:
        return len(self._queue)

    def seconds_since_progress(self) -> float:
        return time.monotonic() - self._alive_at

    # The thread ---------------------------------------------------------------------------------------------------

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
                    self._catch_up_a_little()

    def _gather(self) -> None:
        """While messages keep coming, commit several at once: most of the work is for the commit.

        The first one after a pause goes at once, and so do as many as are worth a commit. When no more come, the
        broker may wait for us to acknowledge: many have 20 on the way at most.
        """
        until = self._pace.commit_before()
        while len(self._queue) < min(WORTH_A_COMMIT, self._batch_size) and not self._stopping.is_set():
            left = until - time.monotonic()
            if left <= 0 or self._is_quiet.wait(min(left, LOOK_SECONDS)):
                return

    def _catch_up_while_idle(self) -> None:
        while not self._has_work.is_set() and self._catch_up_a_little():
            self._alive_at = time.monotonic()

    def _catch_up_a_little(self) -> bool:
        try:
            return self._catch_up()
        except Unavailable:
            return False  # the next commit tells why
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
                    log.error("Scans cannot be stored and stay at the broker until they can: %s", error)
                self.store_problem = str(error)
                if self._stopping.wait(RETRY_SECONDS):
                    self._queue.clear()  # unacknowledged: the broker sends them again
                    return
                # Part of it may be in the store: a batch with a poison message is committed in pieces.
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
