"""From a batch of MQTT messages to one committed transaction.

Every message ends in exactly one bucket of the ledger, and so does every read. What a message is worth is decided
in three steps: open it (whose is it, what does it say, when was it), match its reads (which asset, which location),
and record what counts. Nothing here knows MQTT beyond the fields of `Message`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence

from edge import clock, metrics
from edge.clock import SECOND
from edge.database.bounds import DEFAULT, Bounds
from edge.database.connection import execute, writing
from edge.errors import Unavailable
from edge.formats.reads import Malformed, Parsed
from edge.ingest import held_messages
from edge.ingest.batch import Batch
from edge.ingest.by_source import Source
from edge.ingest.held_messages import Held, NewHeld
from edge.ingest.messages import Earlier, HeldAs, Message, Opened
from edge.ingest.receipts import Receipts, digest_of
from edge.ingest.replay import Entry, Replays, entries_of, packs_of
from edge.ingest.routing import Line, Router
from edge.ingest.timing import Timekeeper, times_of
from edge.readers import dead_letters
from edge.readers.clocks import READER, known_clocks
from edge.readers.kept_messages import Pack, Window
from edge.readers.ledger import Bucket
from edge.readers.matching import TagMatcher
from edge.readers.reader_messages import Keeper, ReaderMessage
from edge.tracking import carriers, report
from edge.tracking.positions import settle
from edge.tracking.recent_reads import RecentReads
from edge.tracking.stays import Quality

log = logging.getLogger(__name__)

# In one transaction, and in one message: while it holds the write lock, everybody else who writes waits. A read takes
# 20 to 50 microseconds, so that 5,000 of them stay below a quarter of a second.
MOST_READS = 5_000
QUIET = 3 * SECOND // 2  # without a scan
LAG = 1  # seconds that a read may take to get here
# Python 3.11 takes as long to look a member of an Enum up as to call a function.
_HELD, _RECORDED, _REPEAT = Bucket.HELD, Bucket.RECORDED, Bucket.REPEAT
_ACCEPTED = (Quality.READER, Quality.CORRECTED)  # times by the reader's clock


class Pipeline:
    """The state that outlives a batch: what was delivered before, the readers' clocks, the maps. For one thread."""

    def __init__(
        self,
        gap: int,
        replay_days: int,
        bounds: Bounds = DEFAULT,
        *,
        window: Window | None = None,
        is_smoothing: bool = True,
        is_vouched: Callable[[], bool] = lambda: True,
    ) -> None:
        """`gap` in microseconds, see `tracking.positions.record`. `window` keeps what did not count; None keeps
        nothing.
        Without smoothing, every read counts. `is_vouched`: see Timekeeper.
        """
        self._gap = gap
        self._bounds = bounds
        self._recent = RecentReads() if is_smoothing else None
        self._router = Router()
        self._matcher = TagMatcher()
        self._receipts = Receipts()
        self._window = window
        self._replays = Replays()
        self._keeper = Keeper()
        self._recent_version = 0  # of the reads that positions are decided from
        self.timekeeper = Timekeeper(report.newest_scan(), replay_days, known_clocks(), is_vouched)
        self._recorded_at = 0  # when the newest scan was received
        self._held: set[Source] = set()  # whose messages are held back
        self._remember_held()

    def use_gap(self, gap: int) -> None:
        """From the next batch on."""
        self._gap = gap

    def handle(self, messages: Sequence[Message]) -> None:
        """Commit all messages, in as many transactions as that takes; raises as `handle_some` does."""
        while messages:
            messages = messages[self.handle_some(messages) :]

    def handle_some(self, messages: Sequence[Message]) -> int:
        """Commit the first messages, as many as one transaction may hold; returns their number, which is at least 1.

        Raises Unavailable when the store cannot take them now: hand the same messages in again later. Any other error
        is attributed to a single message, which is set aside with its bytes.
        """
        try:
            return self._commit(messages)
        except Unavailable:
            self._undone()
            raise
        except Exception as error:
            self._undone()
            if len(messages) > 1:
                half = len(messages) // 2  # a few transactions find it, where one for each message would take seconds
                self.handle(messages[:half])
                self.handle(messages[half:])
                return len(messages)
            log.exception("A message on %s could not be handled and was set aside", messages[0].topic)
            return self._commit(messages, poison=f"{type(error).__name__}: {error}")

    def _refresh(self) -> None:
        """First in each transaction: what is in memory follows the database."""
        self._router.refresh()
        self.timekeeper.serve(self._router.organizations)
        if self._recent:
            version = execute("SELECT recent_reads FROM version").fetchone()[0]
            if version != self._recent_version:
                self._recent.forget()
            self._recent_version = version
            self._recent.refresh()

    def _done(self) -> None:
        """Last in each transaction."""
        if self._recent:
            self._recent.done()

    def _undone(self) -> None:
        """A transaction was rolled back, so what it told is to be read from the database again."""
        self._router.forget()
        if self._recent:
            self._recent.forget()

    def _commit(self, messages: Sequence[Message], poison: str = "") -> int:
        with metrics.commit_seconds.time(), writing():
            self._refresh()
            opened = self._open_first(messages, poison)
            messages = messages[: len(opened)]
            self._matcher.prepare(_identities(opened))
            batch = Batch(self._matcher, self.timekeeper, self._bounds)
            for item in opened:
                batch.add(item)
            batch.write(self._gap, self._recent)
            if self._window:
                self._window.keep(packs_of(opened))
            self._keeper.keep(_worth_a_trial(opened))
            dead_letters.discard([message.dead_letter_id for message in messages if message.dead_letter_id])
            held_messages.discard([message.held_as.no for message in messages if message.held_as])
            held_messages.keep(_held_back(opened))
            receipts = [
                (item.message.session, item.message.mid, item.digest, _is_in_history(item))
                for item in opened
                if item.message.qos
            ]
            self._receipts.keep(receipts)
            self._done()
        if batch.has_scans:
            self._recorded_at = max(opened[-1].received_at, self._recorded_at)
        self._receipts.add(receipts)
        batch.count()
        return len(opened)

    def catch_up(self) -> bool:
        """Read a little of what waited for a tag or a reader that was set up since; whether there is more to read.

        To be called again and again while there is nothing better to do. Raises Unavailable.
        """
        if self._read_held() or self._settle():
            return True
        if self._window is None:
            return False
        if not self._replays.is_under_way:
            readers = self._replays.begin()
            if not self._replays.is_under_way:
                return False
            self._read_dead_letters(readers)
        try:
            with writing():
                found = self._replays.next_pack()
                if found:
                    self._replay(*found, self._window)
                    self._done()
        except Unavailable:
            self._undone()
            self._replays.step_back()
            raise
        except Exception:
            self._undone()
            log.exception("Some messages that had not counted could not be read again, and stay as they are")
        return True

    def _settle(self) -> bool:
        """Decide what silence decides by now; whether there is more of it.

        While reads come, it is as late as the newest of them says, since there may be more waiting at the broker.
        """
        recent = self._recent
        if recent is None or not self._gap:
            return False
        now = self.timekeeper.receive(clock.now())
        if now - self._recorded_at < QUIET:
            now = recent.newest_at
        until = now // SECOND - LAG
        if not recent.is_due(until):
            return False
        try:
            with writing():
                self._refresh()
                moved = settle(recent, self._gap, until)
                recent.forget_positions(carriers.follow(moved, self._gap))
                self._done()
        except Unavailable:
            self._undone()
            raise
        return recent.is_due(until)

    def _replay(self, no: int, pack: Pack, window: Window) -> None:
        self._refresh()
        opened = [self._open_again(entry) for entry in entries_of(pack)]
        self._matcher.prepare(_identities(opened))
        batch = Batch(self._matcher, self.timekeeper, self._bounds)
        for item in opened:
            batch.add(item)
        batch.write(self._gap, self._recent)
        window.remove(no, pack)
        window.keep(packs_of(opened))

    def _open_again(self, entry: Entry) -> Opened:
        """With the times it was given then, so that what was recorded is a repeat."""
        message, earlier = entry
        line = self._router.find(message.topic)
        opened = Opened(message, b"", message.received_at, line, earlier)
        if line is None:
            opened.bucket = Bucket.UNKNOWN_TOPIC
            return opened
        try:
            opened.parsed = _parse(line, message, "")
        except Malformed as error:
            opened.bucket, opened.reason = Bucket.MALFORMED, str(error)
            return opened
        opened.stamps = earlier.stamps
        if len(earlier.stamps) != len(opened.parsed.reads):
            setting = line.route.clock_setting
            times = times_of(opened.parsed.reads, setting)
            opened.stamps = self.timekeeper.stamp(line.clock_of(message.topic), times, message.received_at, setting)
        return opened

    def _read_dead_letters(self, reader_ids: Sequence[int]) -> None:
        """Of readers whose format may be right now."""
        for reader_id in reader_ids:
            letters = dead_letters.of_reader(reader_id)
            again = [Message(one.topic, one.payload, one.received_at, dead_letter_id=one.no) for one in letters]
            if again:
                self.handle(again)

    def _open_first(self, messages: Sequence[Message], poison: str) -> list[Opened]:
        """Open the first message, and those after it until the transaction has as many reads as it may hold."""
        fresh: dict[tuple[int, int], bytes] = {}
        found: list[Opened] = []
        room = MOST_READS
        for message in messages:
            opened = self._open(message, poison, fresh)
            if opened.parsed:
                room -= len(opened.parsed.reads)
                if found and room < 0:
                    break
                if opened.bucket is None and opened.line:
                    self._give_times(opened, opened.line, opened.parsed)
            fresh[message.session, message.mid] = opened.digest
            found.append(opened)
        return found

    def _open(self, message: Message, poison: str, fresh: Mapping[tuple[int, int], bytes]) -> Opened:
        """Read a message; it has no times yet. `fresh`: the digests of those before it in the batch, by packet id."""
        line = self._router.find(message.topic)
        if message.is_again:
            received_at, earlier = self.timekeeper.recall(message.received_at), _before(line, message)
        else:
            received_at, earlier = self.timekeeper.receive(message.received_at), None
        opened = Opened(message, digest_of(message.topic, message.payload), received_at, line, earlier)
        if message.is_redelivered and self._is_known(opened, fresh):
            opened.bucket = Bucket.REPEAT
        elif message.is_retained:
            opened.bucket = Bucket.RETAINED
        elif line is None:
            opened.bucket = Bucket.UNKNOWN_TOPIC
        elif message.size:
            opened.bucket = Bucket.TOO_LARGE
            opened.reason = (
                f"the message has {message.size:,} bytes; a reader that sends smaller ones (1 MiB at most) is read"
            )
        else:
            try:
                opened.parsed = _parse(line, message, poison)
            except Malformed as error:
                opened.bucket, opened.reason = Bucket.MALFORMED, str(error)
        return opened

    def _is_known(self, opened: Opened, fresh: Mapping[tuple[int, int], bytes]) -> bool:
        """Whether a message that the broker sends again was taken the first time."""
        session, mid, digest = opened.message.session, opened.message.mid, opened.digest
        return self._receipts.has(session, mid, digest) or fresh.get((session, mid)) == digest

    def _give_times(self, opened: Opened, line: Line, parsed: Parsed) -> None:
        """Or the bucket for what came before, and for what is held back until its time is known."""
        message, received_at, keeper = opened.message, opened.received_at, self.timekeeper
        setting, source = line.route.clock_setting, line.clock_of(message.topic)
        times = times_of(parsed.reads, setting)
        if opened.earlier is None:
            is_known = bool(times) and self._receipts.has_recorded(opened.digest) and None not in times
            box_ahead = keeper.box_ahead
            is_doubtful = keeper.hear(source, times, received_at, len(message.payload), is_known)
            if keeper.box_ahead != box_ahead:
                opened.received_at = received_at = keeper.receive(message.received_at)
            if is_doubtful and (setting != READER or keeper.is_box_doubted):
                self._held.add(source)
                opened.bucket = _HELD
                return
            if is_known and (setting == READER or keeper.stands_at(source) is None):
                opened.bucket = _REPEAT
                return
        opened.stamps = keeper.stamp(source, times, received_at, setting)

    def _read_held(self) -> bool:
        """Read some of what was held back, once it is known how far its clock is off; whether there was any."""
        now = self.timekeeper.time_of(clock.now())
        for source in [source for source in self._held if not self.timekeeper.is_undecided(source, now)]:
            found = held_messages.first_of(source.reader_id, source.topic)
            if found:
                self.handle([_again(source.reader_id, one) for one in found])
                return True
            self._held.discard(source)
        return False

    def _remember_held(self) -> None:
        """What was held back when the process ended still is."""
        self._router.refresh()
        for one in held_messages.outlines():
            line = self._router.find(one.topic)
            source = line.clock_of(one.topic) if line else Source(one.reader_id)
            self.timekeeper.hear(source, [one.newest], one.received_at)
            self._held.add(source)


def _held_back(opened: Sequence[Opened]) -> Iterator[NewHeld]:
    for item in opened:
        if item.bucket is _HELD and item.line and item.parsed:
            route, message = item.line.route, item.message
            times = times_of(item.parsed.reads, route.clock_setting)
            newest = max((time for time in times if time is not None), default=0)
            yield NewHeld(route.reader_id, message.topic, message.payload, item.received_at, newest)


def _worth_a_trial(opened: Sequence[Opened]) -> Iterator[ReaderMessage]:
    """Messages with reads that came just now: a new release is tried with them."""
    for item in opened:
        message = item.message
        if item.line and item.parsed and item.parsed.reads and not (message.is_again or item.earlier or message.size):
            yield ReaderMessage(item.line.route.reader_id, message.topic, message.payload, item.received_at)


def _again(reader_id: int, held: Held) -> Message:
    return Message(held.topic, held.payload, held.received_at, held_as=HeldAs(held.no, reader_id))


def _is_in_history(opened: Opened) -> bool:
    """Whether the same message again is a repeat: only a time that was accepted can make it one."""
    for stamp in opened.stamps:
        if stamp.quality not in _ACCEPTED:
            return False
    for bucket in opened.buckets:
        if bucket is not _RECORDED and bucket is not _REPEAT:
            return False
    return opened.bucket is not _HELD


def _before(line: Line | None, message: Message) -> Earlier | None:
    """What the ledger says of a message that was taken before."""
    if message.held_as:
        return Earlier(message.held_as.reader_id, Bucket.HELD, [], [])
    return Earlier(line.route.reader_id, Bucket.MALFORMED, [], []) if line and message.dead_letter_id else None


def _parse(line: Line, message: Message, poison: str) -> Parsed:
    if poison:
        raise Malformed(poison)
    parsed = line.parse(message.topic, message.payload)
    if parsed.skipped and not parsed.reads:
        raise Malformed(parsed.note or "no entry could be read")
    if len(parsed.reads) > MOST_READS:
        raise Malformed(
            f"the message has {len(parsed.reads):,} reads; let the reader publish at most {MOST_READS:,} at once"
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
