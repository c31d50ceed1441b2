"""From a batch of MQTT messages to one committed transaction.

Every message ends in exactly one bucket of the ledger, and so does every read. What a message is worth is decided
in three steps: open it (whose is it, what does it say, when was it), match its reads (which asset, which location),
and record what counts. Nothing here knows MQTT beyond the fields of `Message`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence

from edge import metrics
from edge.errors import Unavailable
from edge.ingest.batch import Batch
from edge.ingest.messages import Earlier, Message, Opened
from edge.ingest.reads import Malformed, Parsed
from edge.ingest.receipts import Receipt, Receipts, digest_of
from edge.ingest.replay import Entry, Replays, entries_of, packs_of
from edge.ingest.routing import Line, Router
from edge.ingest.timing import Stamp, Timekeeper
from edge.store import dead_letters, reader_status, tracking
from edge.store.bounds import DEFAULT, Bounds
from edge.store.database import writing
from edge.store.ledger import Bucket
from edge.store.matching import TagMatcher
from edge.store.raw_messages import Pack, Window
from edge.store.recent_reads import RecentReads

log = logging.getLogger(__name__)

_IN_HISTORY = frozenset((Bucket.RECORDED, Bucket.REPEAT))


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
    ) -> None:
        """`gap` in microseconds, see `store.scans.record`. `window` keeps what did not count; None keeps nothing.
        Without smoothing, every read counts.
        """
        self._gap = gap
        self._bounds = bounds
        self._recent = RecentReads() if is_smoothing else None
        self._router = Router()
        self._matcher = TagMatcher()
        self._receipts = Receipts()
        self._window = window
        self._replays = Replays()
        self.timekeeper = Timekeeper(tracking.newest_scan(), replay_days, reader_status.clock_offsets())

    def handle(self, messages: Sequence[Message]) -> None:
        """Commit a batch.

        Raises Unavailable when the store cannot take it now: hand the same batch in again later. Whatever else goes
        wrong is put down to a single message, which is set aside with its bytes.
        """
        try:
            self._commit(messages)
        except Unavailable:
            self._undone()
            raise
        except Exception as error:
            self._undone()
            if len(messages) == 1:
                log.exception("A message on %s could not be handled and was set aside", messages[0].topic)
                self._commit(messages, poison=f"{type(error).__name__}: {error}")
            else:
                half = len(messages) // 2  # a few transactions find it, where one for each message would take seconds
                self.handle(messages[:half])
                self.handle(messages[half:])

    def _refresh(self) -> None:
        """First in each transaction: what is in memory follows the database."""
        self._router.refresh()
        if self._recent:
            self._recent.refresh()

    def _undone(self) -> None:
        """A transaction was rolled back, so what it told is to be read from the database again."""
        if self._recent:
            self._recent.forget()

    def _commit(self, messages: Sequence[Message], poison: str = "") -> None:
        with metrics.commit_seconds.time(), writing():
            self._refresh()
            opened = self._open_all(messages, poison)
            self._matcher.prepare(_identities(opened))
            batch = Batch(self._matcher, self.timekeeper, self._bounds)
            for item in opened:
                batch.add(item)
            outcomes = batch.write(self._gap, self._recent)
            if self._window:
                self._window.keep(packs_of(opened, outcomes))
            dead_letters.discard([item.message.dead_letter_id for item in opened if item.message.dead_letter_id])
            receipts = [
                Receipt(item.message.mid, item.digest, _IN_HISTORY.issuperset(outcome.reads))
                for item, outcome in zip(opened, outcomes, strict=True)
                if item.message.qos
            ]
            self._receipts.keep(receipts)
        self._receipts.add(receipts)
        batch.count()

    def catch_up(self) -> bool:
        """Read a little of what waited for a tag or a reader that was set up since; whether there is more to read.

        To be called again and again while there is nothing better to do. Raises Unavailable.
        """
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
        except Unavailable:
            self._undone()
            raise
        except Exception:
            self._undone()
            log.exception("Some messages that had not counted could not be read again, and stay as they are")
        return True

    def _replay(self, no: int, pack: Pack, window: Window) -> None:
        self._refresh()
        opened = [self._open_again(entry) for entry in entries_of(pack)]
        self._matcher.prepare(_identities(opened))
        batch = Batch(self._matcher, self.timekeeper, self._bounds)
        for item in opened:
            batch.add(item)
        outcomes = batch.write(self._gap, self._recent)
        window.remove(no, pack)
        window.keep(packs_of(opened, outcomes))

    def _open_again(self, entry: Entry) -> Opened:
        """With the times it was given then, so that what was recorded is a repeat."""
        message, earlier = entry
        opened = Opened(message, b"", message.received_at, self._router.find(message.topic), earlier=earlier)
        if opened.line is None:
            return opened._replace(bucket=Bucket.UNKNOWN_TOPIC)
        try:
            parsed = _parse(opened.line, message, "")
        except Malformed as error:
            return opened._replace(bucket=Bucket.MALFORMED, reason=str(error))
        stamps: Sequence[Stamp] = earlier.stamps
        if len(stamps) != len(parsed.reads):
            times = [read.observed_at for read in parsed.reads]
            stamps = self.timekeeper.stamp(opened.line.route.reader_id, times, message.received_at)
        return opened._replace(parsed=parsed, stamps=stamps)

    def _read_dead_letters(self, reader_ids: Sequence[int]) -> None:
        """Of readers whose format may be right now."""
        for reader_id in reader_ids:
            letters = dead_letters.of_reader(reader_id)
            again = [Message(one.topic, one.payload, one.received_at, dead_letter_id=one.no) for one in letters]
            if again:
                self.handle(again)

    def _open_all(self, messages: Sequence[Message], poison: str) -> list[Opened]:
        fresh: dict[int, bytes] = {}
        found = []
        for message in messages:
            opened = self._open(message, poison, fresh)
            fresh[message.mid] = opened.digest
            found.append(opened)
        return found

    def _open(self, message: Message, poison: str, fresh: Mapping[int, bytes]) -> Opened:
        """`fresh`: the digests of the messages before it in the batch, by packet id."""
        received_at = message.received_at if message.dead_letter_id else self.timekeeper.receive(message.received_at)
        line = self._router.find(message.topic)
        digest = digest_of(message.topic, message.payload)
        earlier = _set_aside(line) if message.dead_letter_id else None

        def ended(bucket: Bucket, reason: str = "", parsed: Parsed | None = None) -> Opened:
            return Opened(message, digest, received_at, line, parsed, (), bucket, reason, earlier)

        if message.is_redelivered and (self._receipts.has(message.mid, digest) or fresh.get(message.mid) == digest):
            return ended(Bucket.REPEAT)
        if message.is_retained:
            return ended(Bucket.RETAINED)
        if line is None:
            return ended(Bucket.UNKNOWN_TOPIC)
        if message.size:
            reason = f"the message has {message.size:,} bytes; a reader that sends smaller ones (1 MiB at most) is read"
            return ended(Bucket.TOO_LARGE, reason)
        try:
            parsed = _parse(line, message, poison)
        except Malformed as error:
            return ended(Bucket.MALFORMED, str(error))
        times = [read.observed_at for read in parsed.reads]
        if times and None not in times and self._receipts.has_recorded(digest) and not message.dead_letter_id:
            return ended(Bucket.REPEAT, parsed=parsed)
        stamps = self.timekeeper.stamp(line.route.reader_id, times, received_at)
        return Opened(message, digest, received_at, line, parsed, stamps, earlier=earlier)


def _set_aside(line: Line | None) -> Earlier | None:
    """What the ledger says of a dead letter that is read once more."""
    return Earlier(line.route.reader_id, Bucket.MALFORMED, [], []) if line else None


def _parse(line: Line, message: Message, poison: str) -> Parsed:
    if poison:
        raise Malformed(poison)
    parsed = line.parse(message.topic, message.payload)
    if parsed.skipped and not parsed.reads:
        raise Malformed(parsed.note or "no entry could be read")
    return parsed


def _identities(opened: Sequence[Opened]) -> Iterator[tuple[int, str, str]]:
    for item in opened:
        if item.line and item.parsed:
            organization_id = item.line.route.organization_id
            for read in item.parsed.reads:
                yield organization_id, read.tag_type, read.value
                for alias in read.aliases:
                    yield organization_id, read.tag_type, alias
