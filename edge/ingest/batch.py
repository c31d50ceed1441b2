"""What one batch of messages adds to the database, collected first and written together."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Sequence

from edge import metrics
from edge.clock import SECOND
from edge.database.bounds import Bounds
from edge.formats.reads import Kind, Parsed, Read
from edge.ingest.messages import Earlier, Opened
from edge.ingest.routing import Line
from edge.ingest.timing import Stamp, Timekeeper
from edge.readers import (
    dead_letters,
    ignored_messages,
    ledger,
    live_reads,
    mapped_fields,
    status,
    unassigned_topics,
    unknown_tags,
)
from edge.readers.dead_letters import NewDeadLetter
from edge.readers.ignored_messages import IgnoredMessage
from edge.readers.ledger import Bucket, Tally
from edge.readers.matching import NoAsset, TagMatcher
from edge.readers.readers import Placement, Route
from edge.readers.status import ReaderStatus
from edge.readers.unassigned_topics import Unassigned
from edge.readers.unknown_tags import Sighting
from edge.records.tags import match_key
from edge.tracking import carriers
from edge.tracking.positions import record
from edge.tracking.recent_reads import RecentReads, Sign
from edge.tracking.signal_strength import weight_of
from edge.tracking.signs import GOODBYE, OTHERS
from edge.tracking.stays import Scan
from edge.validation.field_counts import FieldCount, added

NO_PORT = 0  # in antennas and their states, where the reader has no antennas
MAX_NOTE = 500
SET_ASIDE = frozenset((Bucket.MALFORMED, Bucket.TOO_LARGE))
# Python 3.11 takes as long to look a member of an Enum up as to call a function.
_RECORDED, _REPEAT, _IGNORED = Bucket.RECORDED, Bucket.REPEAT, Kind.IGNORED


class Batch:
    """What one batch adds to the ledger, collected first and written together."""

    def __init__(self, matcher: TagMatcher, timekeeper: Timekeeper, bounds: Bounds) -> None:
        self._matcher = matcher
        self._timekeeper = timekeeper
        self._bounds = bounds
        self._scans: list[Scan] = []
        self._signs: dict[tuple[int, int], int] = {}  # (reader, second) -> the only asset that was read, or OTHERS
        self._goodbyes: list[Sign] = []
        self._opened: list[Opened] = []
        self._letters: list[NewDeadLetter] = []
        self._unknown: list[Sighting] = []
        self._unassigned: list[Unassigned] = []
        self._heard: dict[int, Opened] = {}  # the newest message of each reader
        self._notes: dict[int, str] = {}
        self._read_at: dict[int, int] = {}
        self._antennas: dict[tuple[int, int], int] = {}
        self._offsets: dict[int, int | None] = {}  # of the clocks for which messages were held back
        self._ignored: dict[int, deque[IgnoredMessage]] = {}
        self._messages: Counter[Tally] = Counter()
        self._reads: Counter[Tally] = Counter()
        self._fields: dict[int, dict[str, FieldCount]] = {}  # what the paths of mappings led to
        self._live: list[live_reads.LiveRead] = []  # of readers that somebody watches
        self._struck_messages: Counter[Tally] = Counter()  # what counts anew, with numbers below zero
        self._struck_reads: Counter[Tally] = Counter()
        self._again_messages: Counter[Tally] = Counter()  # what the metrics have counted before
        self._again_reads: Counter[Tally] = Counter()

    def add(self, opened: Opened) -> None:
        line, parsed = opened.line, opened.parsed
        self._opened.append(opened)
        if line is None:
            self._keep_unassigned(opened)
        elif parsed:
            if opened.earlier is None:
                self._hear(opened, line, parsed)
            elif opened.message.held_as:
                self._offsets[line.route.reader_id] = self._offset_of(opened)
            if opened.bucket is None:
                opened.outcomes = [
                    self._classify(opened, line, read, stamp)
                    for read, stamp in zip(parsed.reads, opened.stamps, strict=True)
                ]
                self._note_signs(opened, line, parsed)
            elif opened.bucket is not Bucket.HELD:  # the reads of one that is held back are counted when it is read
                opened.outcomes = [opened.bucket] * len(parsed.reads)
        elif opened.bucket in SET_ASIDE:
            self._set_aside(opened, line)

    def _note_signs(self, opened: Opened, line: Line, parsed: Parsed) -> None:
        """The seconds in which its reader was there, and what it read then."""
        reader_id, scans, signs = line.route.reader_id, self._scans, self._signs
        for outcome, stamp in zip(opened.outcomes, opened.stamps, strict=True):
            asset_id = scans[outcome].asset_id if type(outcome) is int else OTHERS
            key = (reader_id, stamp.observed_at // SECOND)
            if signs.setdefault(key, asset_id) != asset_id:
                signs[key] = OTHERS
        if not opened.outcomes and parsed.kind is not _IGNORED:
            key = (reader_id, opened.received_at // SECOND)
            if parsed.kind is Kind.OFFLINE:
                self._goodbyes.append((*key, GOODBYE))
            else:
                signs[key] = OTHERS

    def _keep_unassigned(self, opened: Opened) -> None:
        if opened.bucket is Bucket.UNKNOWN_TOPIC and opened.earlier is None:
            message = opened.message
            self._unassigned.append(Unassigned(message.topic, opened.received_at, message.payload, message.size))

    def _set_aside(self, opened: Opened, line: Line) -> None:
        message, route = opened.message, line.route
        self._letters.append(
            NewDeadLetter(
                route.organization_id,
                route.reader_id,
                message.topic,
                message.payload,
                message.size or len(message.payload),
                opened.reason,
                opened.received_at,
                is_requeued=message.dead_letter_id > 0,
            )
        )

    @property
    def has_scans(self) -> bool:
        return bool(self._scans)

    def write(self, gap: int, recent: RecentReads | None) -> None:
        """And tell each message and its reads the bucket where they ended."""
        messages: list[tuple[int, int, Bucket]] = []
        reads: list[tuple[int, int, Bucket]] = []
        news = [_RECORDED if is_news else _REPEAT for is_news in self._record(gap, recent)]
        seen = (scan for scan, bucket in zip(self._scans, news, strict=True) if bucket is _RECORDED)
        carried = carriers.follow(seen, gap)
        if recent and carried:
            recent.forget_positions(carried)
        self._timekeeper.recorded(max([scan.observed_at for scan in self._scans], default=0))
        for opened in self._opened:
            reader_id = opened.line.route.reader_id if opened.line else ledger.NO_READER
            hour = ledger.hour_of(opened.received_at)
            buckets = [news[outcome] if isinstance(outcome, int) else outcome for outcome in opened.outcomes]
            if opened.line and live_reads.is_watched(reader_id):
                self._live += self._told_live(opened, buckets)
            if opened.earlier:
                buckets = _as_recorded_then(buckets, opened.earlier)
                self._take_back(opened.earlier, ledger.hour_of(opened.message.received_at))
            reads += [(reader_id, hour, bucket) for bucket in buckets]
            opened.buckets = buckets
            opened.bucket = _bucket_of(opened)
            messages.append((reader_id, hour, opened.bucket))
            if opened.earlier and opened.earlier.bucket is not Bucket.HELD:
                self._again_messages[Tally(reader_id, hour, opened.bucket)] += 1
                self._again_reads.update(Tally(reader_id, hour, bucket) for bucket in buckets)
        self._messages = Counter({Tally(*key): number for key, number in Counter(messages).items()})
        self._reads = Counter({Tally(*key): number for key, number in Counter(reads).items()})
        ledger.add(self._messages, self._reads, self._keep_for_people())
        if self._struck_messages:
            ledger.strike(self._struck_messages, self._struck_reads)
        status.record_readers(self._states())
        status.record_offsets(self._offsets)
        status.record_antennas(self._antennas)
        mapped_fields.record(self._fields)
        ignored_messages.record([message for kept in self._ignored.values() for message in kept])

    def _record(self, gap: int, recent: RecentReads | None) -> list[bool]:
        received_at = max([opened.received_at for opened in self._opened], default=0)
        signs = [(*key, only) for key, only in self._signs.items()]
        return record(self._scans, gap, recent, signs + self._goodbyes, received_at)

    def _told_live(self, opened: Opened, buckets: Sequence[Bucket]) -> Iterator[live_reads.LiveRead]:
        if opened.line is None or opened.parsed is None or opened.earlier:
            return
        outcomes = opened.outcomes
        if opened.bucket is Bucket.HELD:  # for now; it is not told again when it is read
            outcomes = buckets = [Bucket.HELD] * len(opened.parsed.reads)
        for read, outcome, bucket in zip(opened.parsed.reads, outcomes, buckets, strict=True):
            asset_id = None if isinstance(outcome, Bucket) else self._scans[outcome].asset_id
            antenna = read.antenna or NO_PORT
            told = (read.tag_type, read.value, read.rssi, opened.received_at, str(bucket), asset_id)
            yield live_reads.LiveRead(opened.line.route.reader_id, antenna, *told)

    def _take_back(self, earlier: Earlier, hour: int) -> None:
        """It counts anew, so that what it came to before is struck from the ledger."""
        self._struck_messages[Tally(earlier.reader_id, hour, earlier.bucket)] -= 1
        for bucket in earlier.reads:
            self._struck_reads[Tally(earlier.reader_id, hour, bucket)] -= 1

    def _keep_for_people(self) -> Counter[Tally]:
        """What waits for somebody to set it up or to look at it, as far as there is room; returns the rest, counted."""
        rest: Counter[Tally] = Counter()
        for letter in dead_letters.add(self._letters, self._bounds):
            bucket = Bucket.TOO_LARGE if letter.size > len(letter.payload) else Bucket.MALFORMED
            rest[Tally(letter.reader_id, ledger.hour_of(letter.received_at), bucket)] += 1
        for sighting in unknown_tags.record(self._unknown, self._bounds.unknown_tags):
            bucket = Bucket.AMBIGUOUS_TAG if sighting.reason == NoAsset.AMBIGUOUS else Bucket.UNMATCHED_TAG
            rest[Tally(sighting.reader_id, ledger.hour_of(sighting.seen_at), bucket)] += 1
        for message in unassigned_topics.record(self._unassigned, self._bounds.unassigned_topics):
            rest[Tally(ledger.NO_READER, ledger.hour_of(message.received_at), Bucket.UNKNOWN_TOPIC)] += 1
        return rest

    def count(self) -> None:
        """For the metrics and whoever is watching, once the ledger is on disk."""
        live_reads.note(self._live)
        for counter, tallies, again in (
            (metrics.messages, self._messages, self._again_messages),
            (metrics.reads, self._reads, self._again_reads),
        ):
            metrics.count(counter, _by_bucket(tallies - again))

    def _hear(self, opened: Opened, line: Line, parsed: Parsed) -> None:
        """Every recognised message is a sign of life; a dock at night reads nothing for hours."""
        reader_id = line.route.reader_id
        if parsed.kind is _IGNORED:
            message = opened.message
            payload = message.payload[: ignored_messages.KEPT_BYTES]
            kept = self._ignored.setdefault(reader_id, deque(maxlen=ignored_messages.KEPT))
            kept.append(
                IgnoredMessage(reader_id, message.topic, payload, len(message.payload), parsed.note, opened.received_at)
            )
            return
        if parsed.fields:
            added(self._fields.setdefault(reader_id, {}), parsed.fields)
        self._heard[reader_id] = opened
        if parsed.note:
            printable = filter(str.isprintable, parsed.note)  # some unprintable characters control a terminal
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
                self._offset_of(newest),
                newest.message.qos,
                self._notes.get(reader_id),
                newest.parsed is not None and newest.parsed.kind is Kind.OFFLINE,
                self._standing_of(newest),
            )

    def _offset_of(self, opened: Opened) -> int | None:
        return self._timekeeper.offset(opened.line.clock_of(opened.message.topic)) if opened.line else None

    def _standing_of(self, opened: Opened) -> int | None:
        return self._timekeeper.stands_at(opened.line.clock_of(opened.message.topic)) if opened.line else None

    def _classify(self, opened: Opened, line: Line, read: Read, stamp: Stamp) -> Bucket | int:
        """The bucket of a read, or its index among the scans that count."""
        route = line.route
        placement, asset, bucket = judge(route, read, self._matcher)
        if bucket is None and isinstance(asset, int) and placement.location_id is not None:
            self._scans.append(
                Scan(
                    route.organization_id,
                    asset,
                    placement.location_id,
                    route.reader_id,
                    read.antenna,
                    stamp.observed_at,
                    opened.received_at,
                    stamp.quality,
                    read.rssi,
                    weight_of(placement.kind, read.tag_type),
                    placement.rssi_offset,
                )
            )
            return len(self._scans) - 1
        if isinstance(asset, NoAsset):
            return self._unmatched(opened, line, read, asset, placement)
        return bucket or Bucket.NO_LOCATION

    def _unmatched(self, opened: Opened, line: Line, read: Read, why: NoAsset, placement: Placement) -> Bucket:
        was_counted = opened.earlier is not None and bool(opened.earlier.reads)
        if why is not NoAsset.LOCATION and not was_counted:
            route = line.route
            # A beacon keeps its identity, while the address that sends it may change every 15 minutes.
            value = read.aliases[0] if read.tag_type == "ble" and read.aliases else read.value
            self._unknown.append(
                Sighting(
                    route.organization_id,
                    read.tag_type,
                    match_key(read.tag_type, value) or value,
                    route.reader_id,
                    value,
                    why,
                    opened.received_at,
                    placement.location_id,
                )
            )
        return Bucket.AMBIGUOUS_TAG if why is NoAsset.AMBIGUOUS else Bucket.UNMATCHED_TAG


def judge(route: Route, read: Read, matcher: TagMatcher) -> tuple[Placement, int | NoAsset | None, Bucket | None]:
    """Where a read was made, what it is of (None: it is not asked), and the bucket where it ends unless it counts."""
    placement = route.antennas.get(read.antenna or NO_PORT, route.placement)
    if not placement.is_enabled or _is_weak(read, placement):
        return placement, None, Bucket.FILTERED
    asset = matcher.match(route.organization_id, read.tag_type, read.value, read.aliases)
    if isinstance(asset, int):
        return placement, asset, Bucket.NO_LOCATION if placement.location_id is None else None
    return placement, asset, Bucket.AMBIGUOUS_TAG if asset is NoAsset.AMBIGUOUS else Bucket.UNMATCHED_TAG


WORTH = (
    Bucket.RECORDED,
    Bucket.REPEAT,
    Bucket.NO_LOCATION,
    Bucket.AMBIGUOUS_TAG,
    Bucket.UNMATCHED_TAG,
    Bucket.FILTERED,
)


def _by_bucket(tallies: Counter[Tally]) -> Counter[tuple[int, str]]:
    """(reader, bucket) -> number. What is held back is counted where it ends."""
    found: Counter[tuple[int, str]] = Counter()
    for tally, number in tallies.items():
        if tally.bucket is not Bucket.HELD:
            found[tally.reader_id, tally.bucket] += number
    return found


def _as_recorded_then(buckets: list[Bucket], earlier: Earlier) -> list[Bucket]:
    """What was recorded the first time is a repeat now, and still counts as what it was."""
    if len(buckets) != len(earlier.reads):
        return buckets
    return [
        before if (now, before) == (Bucket.REPEAT, Bucket.RECORDED) else now
        for now, before in zip(buckets, earlier.reads, strict=True)
    ]


def _bucket_of(opened: Opened) -> Bucket:
    """A message with reads ends where its most telling read ends."""
    if opened.bucket:
        return opened.bucket
    reads = opened.buckets
    if reads:
        return reads[0] if reads.count(reads[0]) == len(reads) else min(reads, key=WORTH.index)
    return Bucket.STATUS if opened.parsed and opened.parsed.kind is not _IGNORED else Bucket.IGNORED


def _is_weak(read: Read, placement: Placement) -> bool:
    return placement.min_rssi is not None and read.rssi is not None and read.rssi < placement.min_rssi
