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
from edge.ingest.messages import Message, Opened
from edge.ingest.reads import Malformed, Parsed
from edge.ingest.receipts import Receipt, Receipts, digest_of
from edge.ingest.routing import Line, Router
from edge.ingest.timing import Timekeeper
from edge.store import dead_letters, reader_status, tracking
from edge.store.database import writing
from edge.store.ledger import Bucket
from edge.store.matching import TagMatcher

log = logging.getLogger(__name__)


class Pipeline:
    """The state that outlives a batch: what was delivered before, the readers' clocks, the maps. For one thread."""

    def __init__(self, gap: int, replay_days: int) -> None:
        """`gap` in microseconds, see `store.scans.record`."""
        self._gap = gap
        self._router = Router()
        self._matcher = TagMatcher()
        self._receipts = Receipts()
        self.timekeeper = Timekeeper(tracking.newest_scan(), replay_days, reader_status.clock_offsets())

    def handle(self, messages: Sequence[Message]) -> None:
        """Commit a batch.

        Raises Unavailable when the store cannot take it now: hand the same batch in again later. Whatever else goes
        wrong is put down to a single message, which is set aside with its bytes.
        """
        try:
            self._commit(messages)
        except Unavailable:
            raise
        except Exception as error:
            if len(messages) == 1:
                log.exception("A message on %s could not be handled and was set aside", messages[0].topic)
                self._commit(messages, poison=f"{type(error).__name__}: {error}")
            else:
                half = len(messages) // 2  # a few transactions find it, where one for each message would take seconds
                self.handle(messages[:half])
                self.handle(messages[half:])

    def _commit(self, messages: Sequence[Message], poison: str = "") -> None:
        with metrics.commit_seconds.time(), writing():
            self._router.refresh()
            opened = self._open_all(messages, poison)
            self._matcher.prepare(_identities(opened))
            batch = Batch(self._matcher, self.timekeeper)
            for item in opened:
                batch.add(item)
            recorded = batch.write(self._gap)
            dead_letters.discard([item.message.dead_letter_id for item in opened if item.message.dead_letter_id])
            receipts = [
                Receipt(item.message.mid, item.digest, is_recorded)
                for item, is_recorded in zip(opened, recorded, strict=True)
                if item.message.qos
            ]
            self._receipts.keep(receipts)
        self._receipts.add(receipts)
        batch.count()

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
        digest = digest_of(message.topic, message.payload)
        received_at = message.received_at if message.dead_letter_id else self.timekeeper.receive(message.received_at)
        line = self._router.find(message.topic)
        if message.is_redelivered and (self._receipts.has(message.mid, digest) or fresh.get(message.mid) == digest):
            return Opened(message, digest, received_at, line, bucket=Bucket.REPEAT)
        if message.is_retained:
            return Opened(message, digest, received_at, line, bucket=Bucket.RETAINED)
        if line is None:
            return Opened(message, digest, received_at, bucket=Bucket.UNKNOWN_TOPIC)
        if message.size:
            reason = f"the message has {message.size:,} bytes; a reader that sends smaller ones (1 MiB at most) is read"
            return Opened(message, digest, received_at, line, bucket=Bucket.TOO_LARGE, reason=reason)
        try:
            parsed = _parse(line, message, poison)
        except Malformed as error:
            return Opened(message, digest, received_at, line, bucket=Bucket.MALFORMED, reason=str(error))
        times = [read.observed_at for read in parsed.reads]
        if times and None not in times and self._receipts.has_recorded(digest) and not message.dead_letter_id:
            return Opened(message, digest, received_at, line, parsed, bucket=Bucket.REPEAT)
        stamps = self.timekeeper.stamp(line.route.reader_id, times, received_at)
        return Opened(message, digest, received_at, line, parsed, stamps)


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
