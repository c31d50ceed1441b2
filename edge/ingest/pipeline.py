"""Commit a batch of MQTT messages in one transaction.

Every message ends in exactly one bucket of the ledger, and so does every read. There are three steps: open each message
(reader, reads, times), match its reads (asset, location), and record them. MQTT is visible only as fields of `Message`.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from edge import clock, metrics
from edge.clock import SECOND
from edge.database.bounds import DEFAULT, Bounds
from edge.database.connection import others_wait, writing
from edge.doors.passages import DoorReads
from edge.errors import Unavailable
from edge.formats.reads import Malformed, Parsed
from edge.ingest import held_messages
from edge.ingest.batch import Batch
from edge.ingest.messages import Earlier, Message, Opened
from edge.ingest.reader_clock import Source
from edge.ingest.receipts import Receipts, digest_of
from edge.ingest.replay import COUNTED_READS, Entry, Replays, divide, packs_of
from edge.ingest.routing import Line, Router
from edge.ingest.timing import Timekeeper, times_of
from edge.readers import dead_letters, sled_scans
from edge.readers.clocks import READER, known_clocks
from edge.readers.kept_messages import Pack, Window
from edge.readers.ledger import NO_READER, Bucket
from edge.readers.matching import TagMatcher
from edge.readers.reader_messages import Keeper, ReaderMessage
from edge.records import gs1
from edge.tracking import carriers, report
from edge.tracking.positions import settle
from edge.tracking.recent_reads import RecentReads
from edge.tracking.stays import Quality

log = logging.getLogger(__name__)

# Limit for a transaction and for a single message, because other writers wait for the lock. A read takes 20 to 50
# microseconds, so 5,000 reads take less than 250 ms.
MOST_READS = 5_000
LEAST_READS = 500  # with fewer, assets with late reads are decided again for nearly each of them
SLICE = 0.1  # seconds of processor time after which a transaction should end, while a scan of a person waits for it
MOST_PARSING = 0.25  # seconds of processor time in a transaction: small gzip messages may unpack to much without reads
SLED_COST = 12  # a new read of a sled is a scan and takes as long as 12 reads of other readers, 400 microseconds
QUIET = 3 * SECOND // 2  # time without a scan after which the wall clock is used
LAG = 1  # seconds that a read may take to arrive
# Enum members as globals: in Python 3.11 an Enum lookup costs as much as a function call.
_HELD, _RECORDED, _REPEAT = Bucket.HELD, Bucket.RECORDED, Bucket.REPEAT
_ACCEPTED = (Quality.READER, Quality.CORRECTED)  # times taken from the reader's clock


class Pipeline:
    """State kept between batches: receipts, reader clocks, routes and tags. Not thread-safe."""

    def __init__(
        self,
        gap: int,
        replay_days: int,
        bounds: Bounds = DEFAULT,
        *,
        window: Window | None = None,
        is_smoothing: bool = True,
        is_vouched: Callable[[int], bool] = lambda later_scan: not later_scan,
        confirmed_at: Callable[[], int] = lambda: 0,
    ) -> None:
        """Load the state from the database.

        `gap`: microseconds, see `tracking.positions.record`. `window`: store for messages that may be replayed later;
        None discards them. `is_smoothing`: False records every read as a position. `is_vouched`, `confirmed_at`: see
        Timekeeper.
        """
        self._gap = gap
        self._bounds = bounds
        self._recent = RecentReads() if is_smoothing else None
        self._router = Router()
        self._doors = DoorReads()
        self._matcher = TagMatcher()
        self._receipts = Receipts()
        self._window = window
        self._replays = Replays()
        self._keeper = Keeper()
        self.timekeeper = Timekeeper(report.newest_scan(), replay_days, known_clocks(), is_vouched, confirmed_at)
        self._recorded_at = self._committed_at = 0  # times of receipt and of the commit of the newest scan
        self._room = MOST_READS  # reads of the next transaction
        self._held: set[Source] = set()  # clocks with messages on hold
        self._restore_held()

    def use_gap(self, gap: int) -> None:
        """Set the gap (microseconds), starting with the next batch."""
        self._gap = gap

    def handle(self, messages: Sequence[Message]) -> None:
        """Commit all messages, in one or more transactions. Raises like `handle_some`."""
        while messages:
            messages = messages[self.handle_some(messages) :]

    def handle_some(self, messages: Sequence[Message]) -> int:
        """Commit as many of the first messages as fit in one transaction. Returns their number, at least 1.

        Raises Unavailable if the database cannot be written now: retry later with the same messages. Any other error is
        narrowed down to one message, which is stored as a dead letter.
        """
        try:
            return self._commit(messages)
        except Unavailable:
            raise
        except Exception as error:
            self._forget()
            if len(messages) > 1:
                half = len(messages) // 2  # bisect: one transaction for each message would take seconds
                self.handle(messages[:half])
                self.handle(messages[half:])
                return len(messages)
            log.exception("Failed to process a message on %s; stored as a dead letter", messages[0].topic)
            return self._commit(messages, poison=f"{type(error).__name__}: {error}")

    def _refresh(self) -> None:
        """Reload state that changed in the database. First step of each transaction."""
        self._router.refresh()
        self._doors.refresh()
        self.timekeeper.serve(self._router.organizations)
        if self._recent:
            self._recent.refresh()

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """Write with the present state, which is discarded if the database cannot be written."""
        try:
            if self._recent:
                self._recent.load_all()
            with writing():
                self._refresh()
                yield
                if self._recent:
                    self._recent.done()
        except Unavailable:
            self._forget()
            raise

    def _forget(self) -> None:
        """Discard in-memory state after a rollback; it is reloaded from the database."""
        self._router.forget()
        self._doors.forget()
        if self._recent:
            self._recent.forget()

    def _commit(self, messages: Sequence[Message], poison: str = "") -> int:
        gs1.load_epc_library()  # not at startup, because a site without reads never needs it
        with metrics.commit_seconds.time(), self._transaction():
            began = time.thread_time()
            opened = self._open_first(messages, poison)
            messages = messages[: len(opened)]
            batch = self._record(opened)
            if self._window:
                self._window.keep(packs_of(opened, self._doors))
            self._keeper.keep(_samples_for_trial(opened))
            if any(message.is_reprocessed for message in messages):
                dead_letters.discard([message.dead_letter_id for message in messages if message.dead_letter_id])
                held_messages.discard([message.held_as.no for message in messages if message.held_as])
            if self._held:
                held_messages.keep(opened)
            receipts = [
                (item.message.session, item.message.mid, item.digest, _is_in_history(item))
                for item in opened
                if item.message.qos
            ]
            if receipts:
                self._receipts.keep(receipts)
            is_awaited = others_wait()
        if batch.scans:
            self._recorded_at = max(opened[-1].received_at, self._recorded_at)
            self._committed_at = clock.now()
        if receipts:
            self._receipts.add(receipts)
        batch.count()
        used = time.thread_time() - began
        # Shorter only while others wait: late reads cost four times as much each in short transactions.
        self._room = self._shorter(opened, used) if is_awaited else min(MOST_READS, 2 * self._room)
        return len(opened)

    def _shorter(self, opened: Sequence[Opened], used: float) -> int:
        """Return how many reads the next transaction takes, from the processor time for which others waited."""
        reads = sum(_cost(item.line, item.parsed) for item in opened if item.parsed)
        return min(self._room, max(LEAST_READS, int(reads * SLICE / used)))

    def _record(self, opened: Sequence[Opened]) -> Batch:
        """Match the reads of these messages and write the results."""
        self._matcher.prepare(_identities(opened))
        batch = Batch(self._matcher, self.timekeeper, self._bounds, self._doors, self._gap)
        for item in opened:
            batch.add(item)
        batch.write(self._recent)
        return batch

    def catch_up(self, is_idle: bool = True) -> bool:
        """Replay some messages that lacked a tag or reader which has since been set up. Returns True if there are more.

        Called repeatedly while ingest is idle, and now and then while messages are queued. Raises Unavailable.
        """
        if self._read_held() or self._settle(is_idle) or self._settle_doors() or self._recount_sleds():
            return True
        if self._window is None:
            return False
        if not self._replays.is_under_way:
            readers = self._replays.begin()
            if not self._replays.is_under_way:
                return False
            self._read_dead_letters(readers)
        try:
            with self._transaction():
                if pack := self._replays.next_pack():
                    self._replay(*pack, self._window)
        except Unavailable:
            self._replays.step_back()
            raise
        except Exception:
            self._forget()
            log.exception("Failed to replay some kept messages; they stay unchanged")
        return True

    def _settle(self, is_idle: bool) -> bool:
        """Settle positions that depend on the absence of reads. Returns True if more are due.

        While reads arrive, the time of the newest read counts as now, because the queue and the broker may still hold
        older ones. Those of a long queue arrived a while ago.
        """
        recent = self._recent
        if recent is None or not self._gap:
            return False
        now = self.timekeeper.receive(clock.now())
        if now - self._recorded_at < QUIET or (not is_idle and clock.now() - self._committed_at < QUIET):
            now = recent.newest_at
        until = now // SECOND - LAG
        if not recent.is_due(until):
            return False
        with self._transaction():
            moved = settle(recent, self._gap, until)
            recent.forget_positions(carriers.follow(moved, self._gap))
        return recent.is_due(until)

    def _settle_doors(self) -> bool:
        """Judge some tags together that passed a door together. Returns True if there were any."""
        if not self._doors.is_due:
            return False
        with self._transaction():
            return self._doors.settle()

    def _recount_sleds(self) -> bool:
        """Compare some reads of sleds with a choice of a location that arrived late. Returns True if there were any."""
        if not sled_scans.is_recount_due():
            return False
        with self._transaction():
            sled_scans.recount_some(self._gap)
            if self._recent:
                self._recent.note_scans()
        return True

    def _replay(self, no: int, pack: Pack, window: Window) -> None:
        def is_due(topic: str) -> bool:
            line = self._router.find(topic)
            is_its_reader = line is not None and line.route.organization_id == pack.organization_id
            return is_its_reader or pack.reader_id == NO_READER  # otherwise it was removed, or its topic changed

        entries, rest = divide(pack, is_due)
        if not entries:
            return
        opened = [one for entry in entries if (one := self._open_again(entry))]
        self._record(opened)
        window.remove(no, pack)
        window.keep([*packs_of(opened, self._doors), *([rest] if rest else [])])

    def _open_again(self, entry: Entry) -> Opened | None:
        """Parse a kept message again, with its earlier times.

        Returns None if some of its reads had counted and the format has changed, so that they cannot be recognized.
        """
        message, earlier = entry
        has_counted = not COUNTED_READS.isdisjoint(earlier.reads)
        line = self._router.find(message.topic)
        opened = Opened(message, b"", message.received_at, line, earlier)
        if line is None:
            opened.bucket = Bucket.UNKNOWN_TOPIC
            return opened
        try:
            opened.parsed = _parse(line, message, "")
        except Malformed as error:
            opened.bucket, opened.reason = Bucket.MALFORMED, str(error)
            return None if has_counted else opened
        opened.stamps = earlier.stamps
        if len(earlier.stamps) != len(opened.parsed.reads):
            if has_counted:
                return None
            setting = line.route.clock_setting
            times = times_of(opened.parsed.reads, setting)
            opened.stamps = self.timekeeper.stamp(line.clock_of(message.topic), times, message.received_at, setting)
        return opened

    def _read_dead_letters(self, reader_ids: Sequence[int]) -> None:
        """Process the dead letters of readers whose format may have been fixed."""
        for reader_id in reader_ids:
            letters = dead_letters.of_reader(reader_id)
            again = [Message(one.topic, one.payload, one.received_at, dead_letter_id=one.no) for one in letters]
            if again:
                self.handle(again)

    def _open_first(self, messages: Sequence[Message], poison: str) -> list[Opened]:
        """Open messages until the transaction has its maximum of reads or parsing. Opens at least one."""
        in_batch: dict[tuple[int, int], bytes] = {}
        opened_messages: list[Opened] = []
        room, ends = self._room, time.thread_time() + MOST_PARSING
        for message in messages:
            opened = self._open(message, poison, in_batch)
            if opened.parsed:
                room -= _cost(opened.line, opened.parsed)
                if opened_messages and room < 0:
                    break
                if opened.bucket is None and opened.line:
                    self._set_times(opened, opened.line, opened.parsed)
            in_batch[message.session, message.mid] = opened.digest
            opened_messages.append(opened)
            if time.thread_time() > ends:
                break
        return opened_messages

    def _open(self, message: Message, poison: str, in_batch: Mapping[tuple[int, int], bytes]) -> Opened:
        """Parse a message without setting its times.

        `poison`: the error of an earlier attempt, or empty. `in_batch`: digests of the preceding messages of the batch,
        by session and packet id.
        """
        line = self._router.find(message.topic)
        if message.is_reprocessed:
            received_at, earlier = self.timekeeper.recall(message.received_at), _earlier_outcome(line, message)
        else:
            received_at, earlier = self.timekeeper.receive(message.received_at), None
        opened = Opened(message, digest_of(message.topic, message.payload), received_at, line, earlier)
        if message.is_redelivered and self._is_known(opened, in_batch):
            opened.bucket = Bucket.REPEAT
        elif message.is_retained:
            opened.bucket = Bucket.RETAINED
        elif line is None:
            opened.bucket = Bucket.UNKNOWN_TOPIC
        elif message.size:
            opened.bucket = Bucket.TOO_LARGE
            opened.reason = f"the message has {message.size:,} bytes; set the reader to send at most 1 MiB"
        else:
            try:
                opened.parsed = _parse(line, message, poison)
            except Malformed as error:
                opened.bucket, opened.reason = Bucket.MALFORMED, str(error)
        return opened

    def _is_known(self, opened: Opened, in_batch: Mapping[tuple[int, int], bytes]) -> bool:
        """Return True if a redelivered message was already accepted."""
        session, mid, digest = opened.message.session, opened.message.mid, opened.digest
        return self._receipts.has(session, mid, digest) or in_batch.get((session, mid)) == digest

    def _set_times(self, opened: Opened, line: Line, parsed: Parsed) -> None:
        """Set the times of the reads, or the bucket if the message is a repeat or must be held."""
        message, received_at, keeper = opened.message, opened.received_at, self.timekeeper
        setting, source = line.route.clock_setting, line.clock_of(message.topic)
        times = times_of(parsed.reads, setting)
        if opened.earlier is None:
            is_known = bool(times) and self._receipts.has_recorded(opened.digest) and None not in times
            box_ahead = keeper.box_ahead
            is_doubtful = keeper.observe(source, times, received_at, len(message.payload), is_known)
            if keeper.box_ahead != box_ahead:
                opened.received_at = received_at = keeper.receive(message.received_at)
            if is_doubtful and (setting != READER or keeper.is_box_doubted):
                self._held.add(source)
                opened.bucket = _HELD
                return
            if is_known and (setting == READER or keeper.clock_of(source).stands_at is None):
                opened.bucket = _REPEAT
                return
        opened.stamps = keeper.stamp(source, times, received_at, setting)

    def _read_held(self) -> bool:
        """Process some held messages after their clock offset has been decided. Returns True if there were any."""
        now = self.timekeeper.time_of(clock.now())
        for source in [source for source in self._held if not self.timekeeper.is_undecided(source, now)]:
            if held := held_messages.first_of(source.reader_id, source.topic):
                self.handle(held)
                return True
            self._held.discard(source)
        return False

    def _restore_held(self) -> None:
        """Restore the state of the clocks with messages on hold."""
        self._router.refresh()
        for held in held_messages.outlines():
            line = self._router.find(held.topic)
            source = line.clock_of(held.topic) if line else Source(held.reader_id)
            self.timekeeper.observe(source, [held.newest], held.received_at)
            self._held.add(source)


def _samples_for_trial(opened: Sequence[Opened]) -> Iterator[ReaderMessage]:
    """Yield new messages with reads. An upgrade tests the new release with them."""
    for item in opened:
        message = item.message
        if (
            item.line
            and item.parsed
            and item.parsed.reads
            and not (message.is_reprocessed or item.earlier or message.size)
        ):
            yield ReaderMessage(item.line.route.reader_id, message.topic, message.payload, item.received_at)


def _is_in_history(opened: Opened) -> bool:
    """Return True if the same message must count as a repeat later. Requires accepted times for all its reads."""
    for stamp in opened.stamps:
        if stamp.quality not in _ACCEPTED:
            return False
    for bucket in opened.buckets:
        if bucket is not _RECORDED and bucket is not _REPEAT:
            return False
    return opened.bucket is not _HELD


def _earlier_outcome(line: Line | None, message: Message) -> Earlier | None:
    """Return how the ledger counted a held message or dead letter."""
    if message.held_as:
        return Earlier(message.held_as.reader_id, Bucket.HELD, [], [])
    return Earlier(line.route.reader_id, Bucket.MALFORMED, [], []) if line and message.dead_letter_id else None


def _cost(line: Line | None, parsed: Parsed) -> int:
    """Return how much of a transaction the reads of a message take, at most `MOST_READS` in all."""
    return len(parsed.reads) * (SLED_COST if line and line.route.owners else 1)


def _parse(line: Line, message: Message, poison: str) -> Parsed:
    if poison:
        raise Malformed(poison)
    parsed = line.parse(message.topic, message.payload)
    if parsed.skipped and not parsed.reads:
        raise Malformed(parsed.note or "no entry could be read")
    if _cost(line, parsed) > MOST_READS:
        most = MOST_READS // SLED_COST if line.route.owners else MOST_READS
        raise Malformed(
            f"the message has {len(parsed.reads):,} reads; set the reader to publish at most {most:,} at once"
        )
    return line.numbered(parsed)


def _identities(opened: Sequence[Opened]) -> Iterator[tuple[int, str, str]]:
    for item in opened:
        if item.line and item.parsed:
            organization_id = item.line.route.organization_id
            for read in item.parsed.reads:
                yield organization_id, read.tag_type, read.value
                for alias in read.aliases:
                    yield organization_id, read.tag_type, alias
