"""From a batch of MQTT messages to one committed transaction.

Every message ends in exactly one bucket of the ledger, and so does every read. What a message is worth is decided
in three steps: open it (whose is it, what does it say, when was it), match its reads (which asset, which location),
and record what counts. Nothing here knows MQTT beyond the fields of `Message`.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from edge import metrics
from edge.errors import Unavailable
from edge.ingest.reads import Kind, Malformed, Parsed, Read
from edge.ingest.receipts import Receipts, digest_of
from edge.ingest.routing import Line, Router
from edge.ingest.timing import Stamp, Timekeeper
from edge.store import dead_letters, ledger, reader_status, tracking, unassigned_topics, unknown_tags
from edge.store.database import writing
from edge.store.dead_letters import NewDeadLetter
from edge.store.ledger import Bucket, Tally
from edge.store.matching import NoAsset, TagMatcher
from edge.store.reader_status import ReaderStatus
from edge.store.readers import Placement
from edge.store.scans import record
from edge.store.stays import Scan
from edge.store.tags import match_key
from edge.store.unknown_tags import Sighting

log = logging.getLogger(__name__)

NO_PORT = 0  # in places and states, where the reader has no antennas
MAX_NOTE = 500


class Message(NamedTuple):
    """One MQTT message as it was delivered; `received_at` by the box's clock.

    `connection` counts the connections to the broker: a packet id means something only on its own. `dead_letter_id`:
    it was set aside under this number and is queued once more, so it is no repeat of itself.
    """

    topic: str
    payload: bytes
    received_at: int
    mid: int = 0
    qos: int = 0
    is_retained: bool = False
    is_redelivered: bool = False
    connection: int = 0
    dead_letter_id: int = 0


class _Opened(NamedTuple):
    """A message that was read: its reader, its reads with their times, or the bucket it already fell into."""

    message: Message
    digest: bytes
    received_at: int
    line: Line | None = None
    parsed: Parsed | None = None
    stamps: Sequence[Stamp] = ()
    bucket: Bucket | None = None
    reason: str = ""


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
            batch = _Batch(self._matcher, self.timekeeper)
            for item in opened:
                batch.add(item)
            batch.write(self._gap)
            dead_letters.discard([item.message.dead_letter_id for item in opened if item.message.dead_letter_id])
            receipts = [(item.message.mid, item.digest) for item in opened if item.message.qos]
            self._receipts.keep(receipts)
        self._receipts.add(receipts)
        batch.count()

    def _open_all(self, messages: Sequence[Message], poison: str) -> list[_Opened]:
        fresh: dict[int, bytes] = {}
        found = []
        for message in messages:
            opened = self._open(message, poison, fresh)
            fresh[message.mid] = opened.digest
            found.append(opened)
        return found

    def _open(self, message: Message, poison: str, fresh: Mapping[int, bytes]) -> _Opened:
        """`fresh`: the digests of the messages before it in the batch, by packet id."""
        digest = digest_of(message.topic, message.payload)
        received_at = message.received_at if message.dead_letter_id else self.timekeeper.receive(message.received_at)
        line = self._router.find(message.topic)
        if message.is_redelivered and (self._receipts.has(message.mid, digest) or fresh.get(message.mid) == digest):
            return _Opened(message, digest, received_at, line, bucket=Bucket.REPEAT)
        if message.is_retained:
            return _Opened(message, digest, received_at, line, bucket=Bucket.RETAINED)
        if line is None:
            return _Opened(message, digest, received_at, bucket=Bucket.UNKNOWN_TOPIC)
        try:
            parsed = _parse(line, message, poison)
        except Malformed as error:
            return _Opened(message, digest, received_at, line, bucket=Bucket.MALFORMED, reason=str(error))
        times = [read.observed_at for read in parsed.reads]
        if times and None not in times and self._receipts.has_digest(digest) and not message.dead_letter_id:
            return _Opened(message, digest, received_at, line, parsed, bucket=Bucket.REPEAT)
        stamps = self.timekeeper.stamp(line.route.reader_id, times, received_at)
        return _Opened(message, digest, received_at, line, parsed, stamps)


def _parse(line: Line, message: Message, poison: str) -> Parsed:
    if poison:
        raise Malformed(poison)
    parsed = line.parse(message.topic, message.payload)
    if parsed.skipped and not parsed.reads:
        raise Malformed(parsed.note or "no entry could be read")
    return parsed


class _Batch:
    """What one batch adds to the ledger, collected first and written together."""

    def __init__(self, matcher: TagMatcher, timekeeper: Timekeeper) -> None:
        self._matcher = matcher
        self._timekeeper = timekeeper
        self._scans: list[Scan] = []
        self._outcomes: list[tuple[_Opened, list[Bucket | int]]] = []
        self._letters: list[NewDeadLetter] = []
        self._unknown: list[Sighting] = []
        self._unassigned: list[tuple[str, int, bytes]] = []
        self._heard: dict[int, _Opened] = {}  # the newest message of each reader
        self._notes: dict[int, str] = {}
        self._read_at: dict[int, int] = {}
        self._antennas: dict[tuple[int, int], int] = {}
        self._messages: Counter[Tally] = Counter()
        self._reads: Counter[Tally] = Counter()

    def add(self, opened: _Opened) -> None:
        outcomes: list[Bucket | int] = []
        message, line = opened.message, opened.line
        if line is None and opened.bucket is Bucket.UNKNOWN_TOPIC:
            self._unassigned.append((message.topic, opened.received_at, message.payload))
        elif line and opened.bucket is Bucket.MALFORMED:
            route = line.route
            self._letters.append(
                NewDeadLetter(
                    route.organization_id,
                    route.reader_id,
                    message.topic,
                    message.payload,
                    opened.reason,
                    opened.received_at,
                )
            )
        elif line and opened.parsed:
            self._hear(opened, line, opened.parsed)
            if opened.bucket:
                outcomes = [opened.bucket] * len(opened.parsed.reads)
            else:
                outcomes = [
                    self._classify(line, read, stamp, opened.received_at)
                    for read, stamp in zip(opened.parsed.reads, opened.stamps, strict=True)
                ]
        self._outcomes.append((opened, outcomes))

    def write(self, gap: int) -> None:
        news = record(self._scans, gap)
        self._timekeeper.recorded(max((scan.observed_at for scan in self._scans), default=0))
        for opened, outcomes in self._outcomes:
            reader_id = opened.line.route.reader_id if opened.line else ledger.NO_READER
            hour = ledger.hour_of(opened.received_at)
            buckets = [
                outcome if isinstance(outcome, Bucket) else (Bucket.RECORDED if news[outcome] else Bucket.REPEAT)
                for outcome in outcomes
            ]
            for bucket in buckets:
                self._reads[Tally(reader_id, hour, bucket)] += 1
            self._messages[Tally(reader_id, hour, _bucket_of(opened, buckets))] += 1
        ledger.add(self._messages, self._reads)
        dead_letters.add(self._letters)
        unknown_tags.record(self._unknown)
        unassigned_topics.record(self._unassigned)
        reader_status.record_readers(self._states())
        reader_status.record_antennas(self._antennas)

    def count(self) -> None:
        """For the metrics, once the ledger is on disk."""
        for counter, tallies in ((metrics.messages, self._messages), (metrics.reads, self._reads)):
            metrics.count(counter, {(tally.reader_id, tally.bucket): number for tally, number in tallies.items()})

    def _hear(self, opened: _Opened, line: Line, parsed: Parsed) -> None:
        """Every recognised message is a sign of life; a dock at night reads nothing for hours."""
        if parsed.kind is Kind.IGNORED:
            return
        reader_id = line.route.reader_id
        self._heard[reader_id] = opened
        if parsed.note:
            printable = filter(str.isprintable, parsed.note)  # a terminal obeys some letters that are not
            self._notes[reader_id] = "".join(printable)[:MAX_NOTE]
        for read in parsed.reads:
            self._antennas[reader_id, read.antenna or NO_PORT] = opened.received_at
        if parsed.reads:
            self._read_at[reader_id] = opened.received_at

    def _states(self) -> Iterator[ReaderStatus]:
        for reader_id, newest in self._heard.items():
            yield ReaderStatus(
                reader_id,
                newest.received_at,
                self._read_at.get(reader_id),
                self._timekeeper.offset(reader_id),
                newest.message.qos,
                self._notes.get(reader_id),
                newest.parsed is not None and newest.parsed.kind is Kind.OFFLINE,
            )

    def _classify(self, line: Line, read: Read, stamp: Stamp, received_at: int) -> Bucket | int:
        """The bucket of a read, or its index among the scans that count."""
        route = line.route
        placement = route.antennas.get(read.antenna or NO_PORT, route.placement)
        if not placement.is_enabled or _is_weak(read, placement):
            return Bucket.FILTERED
        asset = self._matcher.match(route.organization_id, read.tag_type, read.value, read.aliases)
        if isinstance(asset, NoAsset):
            return self._unmatched(line, read, asset, placement, received_at)
        if placement.location_id is None:
            return Bucket.NO_LOCATION
        self._scans.append(
            Scan(
                route.organization_id,
                asset,
                placement.location_id,
                route.reader_id,
                read.antenna,
                stamp.observed_at,
                received_at,
                stamp.quality,
                read.rssi,
            )
        )
        return len(self._scans) - 1

    def _unmatched(self, line: Line, read: Read, why: NoAsset, placement: Placement, received_at: int) -> Bucket:
        if why is not NoAsset.LOCATION:
            route = line.route
            self._unknown.append(
                Sighting(
                    route.organization_id,
                    read.tag_type,
                    match_key(read.tag_type, read.value) or read.value,
                    route.reader_id,
                    read.value,
                    why,
                    received_at,
                    placement.location_id,
                )
            )
        return Bucket.AMBIGUOUS_TAG if why is NoAsset.AMBIGUOUS else Bucket.UNMATCHED_TAG


_WORTH = (
    Bucket.RECORDED,
    Bucket.REPEAT,
    Bucket.NO_LOCATION,
    Bucket.AMBIGUOUS_TAG,
    Bucket.UNMATCHED_TAG,
    Bucket.FILTERED,
)


def _bucket_of(opened: _Opened, reads: Sequence[Bucket]) -> Bucket:
    """A message with reads ends where its most telling read ends."""
    if opened.bucket:
        return opened.bucket
    if reads:
        return min(reads, key=_WORTH.index)
    return Bucket.STATUS if opened.parsed and opened.parsed.kind is not Kind.IGNORED else Bucket.IGNORED


def _is_weak(read: Read, placement: Placement) -> bool:
    return placement.min_rssi is not None and read.rssi is not None and read.rssi < placement.min_rssi


def _identities(opened: Sequence[_Opened]) -> Iterator[tuple[int, str, str]]:
    for item in opened:
        if item.line and item.parsed:
            organization_id = item.line.route.organization_id
            for read in item.parsed.reads:
                yield organization_id, read.tag_type, read.value
                for alias in read.aliases:
                    yield organization_id, read.tag_type, alias
