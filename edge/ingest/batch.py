"""Collect the results of one batch of messages and write them together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import NamedTuple

from edge import metrics
from edge.clock import SECOND
from edge.database.bounds import Bounds
from edge.doors.passages import DoorReads
from edge.formats.reads import Kind, Parsed, Read
from edge.formats.sensor_values import SensorValues
from edge.ingest.messages import Earlier, Opened, Place
from edge.ingest.reader_news import NO_PORT, ReaderNews
from edge.ingest.replay import WAITING_READS
from edge.ingest.routing import Line
from edge.ingest.timing import Stamp, Timekeeper
from edge.readers import dead_letters, ledger, live_reads, sled_scans, unassigned_topics, unknown_tags
from edge.readers.dead_letters import NewDeadLetter
from edge.readers.ledger import Bucket, Tally
from edge.readers.matching import NoAsset, TagMatcher
from edge.readers.readers import Placement, Route
from edge.readers.sled_owners import owner_at
from edge.readers.sled_scans import SledRead
from edge.readers.unassigned_topics import Unassigned
from edge.readers.unknown_tags import Sighting
from edge.records.tags import match_key
from edge.tracking import asset_values, carriers
from edge.tracking.asset_values import NewValues
from edge.tracking.positions import record
from edge.tracking.recent_reads import RecentReads, Sign
from edge.tracking.signal_strength import weight_of
from edge.tracking.signs import GOODBYE, OTHERS, known_now, unknown_tag
from edge.tracking.stays import Scan

_WITHOUT_ASSET = frozenset((Bucket.UNMATCHED_TAG, Bucket.AMBIGUOUS_TAG))
SET_ASIDE = frozenset((Bucket.MALFORMED, Bucket.TOO_LARGE))
# Enum members as globals: in Python 3.11 an Enum lookup costs as much as a function call.
_RECORDED, _REPEAT, _IGNORED = Bucket.RECORDED, Bucket.REPEAT, Kind.IGNORED


class Tallies(NamedTuple):
    """Numbers of messages and of reads, for the ledger."""

    messages: Counter[Tally]
    reads: Counter[Tally]


class Batch:
    """Results of one batch: scans, tallies, dead letters, reader states. Written together by `write`."""

    def __init__(self, matcher: TagMatcher, timekeeper: Timekeeper, bounds: Bounds, doors: DoorReads, gap: int) -> None:
        self._matcher = matcher
        self._gap = gap
        self._doors = None if doors.is_idle else doors
        self._timekeeper = timekeeper
        self._bounds = bounds
        self.scans: list[Scan] = []
        self._signs: dict[tuple[int, int], int] = {}  # (reader, second) -> the only asset read, or OTHERS
        self._other_signs: list[Sign] = []
        self._opened: list[Opened] = []
        # Problems that people must look at.
        self._letters: list[NewDeadLetter] = []
        self._unknown: list[Sighting] = []
        self._unassigned: list[Unassigned] = []
        self._news = ReaderNews(timekeeper)
        self._counts, self._reversed, self._recounted = (Tallies(Counter(), Counter()) for _ in range(3))
        self._values: list[NewValues] = []
        self._live: list[live_reads.LiveRead] = []  # reads of watched readers
        self._has_sled_scans = False

    def add(self, opened: Opened) -> None:
        """Add a message: classify its reads and collect its effects."""
        line, parsed = opened.line, opened.parsed
        self._opened.append(opened)
        if line is None:
            self._keep_unassigned(opened)
        elif parsed:
            if opened.earlier is None:
                self._news.note(opened, line, parsed)
            elif opened.message.held_as:
                self._news.note_offset(opened, line)
            if opened.bucket is None:
                if opened.earlier and len(opened.earlier.reads) == len(parsed.reads) > 0:
                    opened.outcomes = list(self._classify_again(opened, line, parsed, opened.earlier))
                    self._name_signs(opened, opened.earlier, line.route.reader_id)
                else:
                    opened.outcomes = [
                        self._classify(opened, line, read, stamp)
                        for read, stamp in zip(parsed.reads, opened.stamps, strict=True)
                    ]
                    self._note_signs(opened, line, parsed)
            elif opened.bucket is not Bucket.HELD:  # reads of a held message are counted when it is released
                opened.outcomes = [opened.bucket] * len(parsed.reads)
        elif opened.bucket in SET_ASIDE:
            self._set_aside(opened, line)

    def _note_signs(self, opened: Opened, line: Line, parsed: Parsed) -> None:
        """Record the seconds in which the reader was active, and the asset it read."""
        reader_id, scans, signs = line.route.reader_id, self.scans, self._signs
        for read, outcome, stamp in zip(parsed.reads, opened.outcomes, opened.stamps, strict=True):
            asset_id = scans[outcome].asset_id if type(outcome) is int else self._only_read(line, read, outcome)
            key = (reader_id, stamp.observed_at // SECOND)
            if signs.setdefault(key, asset_id) != asset_id:
                signs[key] = OTHERS
        if not opened.outcomes and parsed.kind is not _IGNORED:
            key = (reader_id, opened.received_at // SECOND)
            if parsed.kind is Kind.OFFLINE:
                self._other_signs.append((*key, GOODBYE))
            else:
                signs[key] = OTHERS

    def _only_read(self, line: Line, read: Read, outcome: Bucket | int) -> int:
        """Return the sign for a read that does not count yet. Once it counts, it proves nothing about its asset."""
        if outcome in _WITHOUT_ASSET:
            return unknown_tag(read.tag_type, read.value)
        if outcome is Bucket.NO_LOCATION:
            asset = self._matcher.match(line.route.organization_id, read.tag_type, read.value, read.aliases)
            return OTHERS if isinstance(asset, NoAsset) else asset
        return OTHERS

    def _name_signs(self, opened: Opened, earlier: Earlier, reader_id: int) -> None:
        """Note whose the reads of a tag were that has an asset now."""
        for before, outcome, stamp in zip(earlier.reads, opened.outcomes, opened.stamps, strict=True):
            if before in _WITHOUT_ASSET and type(outcome) is int:
                only = known_now(self.scans[outcome].asset_id)
                self._other_signs.append((reader_id, stamp.observed_at // SECOND, only))

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

    def write(self, recent: RecentReads | None) -> None:
        """Write everything and set the buckets of each message and its reads."""
        if recent and self._has_sled_scans:
            recent.note_scans()
        messages: list[tuple[int, int, Bucket]] = []
        reads: list[tuple[int, int, Bucket]] = []
        received_at = max([opened.received_at for opened in self._opened], default=0)
        signs = [(*key, only) for key, only in self._signs.items()] + self._other_signs
        are_new = record(self.scans, self._gap, recent, signs, received_at)
        news = [_RECORDED if is_news else _REPEAT for is_news in are_new]
        seen = (scan for scan, bucket in zip(self.scans, news, strict=True) if bucket is _RECORDED)
        if self._doors is not None:
            self._doors.record()
        if self._values:
            asset_values.record(self._values)
        carried = carriers.follow(seen, self._gap)
        if recent and carried:
            recent.forget_positions(carried)
        self._timekeeper.recorded(max([scan.observed_at for scan in self.scans], default=0))
        for opened in self._opened:
            reader_id = opened.line.route.reader_id if opened.line else ledger.NO_READER
            hour = ledger.hour_of(opened.received_at)
            buckets = [news[outcome] if isinstance(outcome, int) else outcome for outcome in opened.outcomes]
            if opened.line and reader_id in live_reads.watched:
                self._live += self._live_reads(opened, buckets)
            if opened.earlier:
                self._reverse(opened.earlier, ledger.hour_of(opened.message.received_at))
            reads += [(reader_id, hour, bucket) for bucket in buckets]
            opened.buckets = buckets
            opened.bucket = _bucket_of(opened)
            messages.append((reader_id, hour, opened.bucket))
            if opened.earlier and opened.earlier.bucket is not Bucket.HELD:
                self._recounted.messages[Tally(reader_id, hour, opened.bucket)] += 1
                self._recounted.reads.update(Tally(reader_id, hour, bucket) for bucket in buckets)
        self._counts.messages.update({Tally(*key): number for key, number in Counter(messages).items()})
        self._counts.reads.update({Tally(*key): number for key, number in Counter(reads).items()})
        ledger.add(*self._counts, self._store_problems() if self._letters or self._unknown or self._unassigned else {})
        if self._reversed.messages:
            ledger.subtract(*self._reversed)
        self._news.write()

    def _store_problems(self) -> Counter[Tally]:
        """Store what people must look at. Returns the number discarded for lack of room."""
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

    def _live_reads(self, opened: Opened, buckets: Sequence[Bucket]) -> Iterator[live_reads.LiveRead]:
        if opened.line is None or opened.parsed is None or opened.earlier:
            return
        outcomes = opened.outcomes
        if opened.bucket is Bucket.HELD:  # shown once, as held
            outcomes = buckets = [Bucket.HELD] * len(opened.parsed.reads)
        for read, outcome, bucket in zip(opened.parsed.reads, outcomes, buckets, strict=True):
            asset_id = None if isinstance(outcome, Bucket) else self.scans[outcome].asset_id
            antenna = read.antenna or NO_PORT
            read_fields = (read.tag_type, read.value, read.rssi, opened.received_at, str(bucket), asset_id)
            yield live_reads.LiveRead(opened.line.route.reader_id, antenna, *read_fields)

    def _reverse(self, earlier: Earlier, hour: int) -> None:
        """Subtract the earlier outcome of a replayed message from the ledger."""
        self._reversed.messages[Tally(earlier.reader_id, hour, earlier.bucket)] -= 1
        for bucket in earlier.reads:
            self._reversed.reads[Tally(earlier.reader_id, hour, bucket)] -= 1

    def count(self) -> None:
        """Update the metrics and the live view. Call after the commit."""
        if self._live:
            live_reads.note(self._live)
        for counter, tallies, recounted in zip(
            (metrics.messages, metrics.reads), self._counts, self._recounted, strict=True
        ):
            metrics.count(counter, _by_bucket(tallies - recounted))

    def _classify_again(self, opened: Opened, line: Line, parsed: Parsed, earlier: Earlier) -> Iterator[Bucket | int]:
        """Yield the outcomes of a replayed message. Only reads that were waiting are judged again."""
        before = zip_longest(earlier.reads, earlier.places)
        for read, stamp, (bucket, place) in zip(parsed.reads, opened.stamps, before, strict=True):
            yield self._classify(opened, line, read, stamp, bucket, place) if bucket in WAITING_READS else bucket

    def _classify(
        self,
        opened: Opened,
        line: Line,
        read: Read,
        stamp: Stamp,
        before: Bucket | None = None,
        place: Place | None = None,
    ) -> Bucket | int:
        """Return the bucket of a read, or the index of its new scan. `before`, `place`: its earlier outcome."""
        route = line.route
        placement, asset, bucket = judge(route, read, self._matcher, place.placement if place else None)
        if read.sensors and isinstance(asset, int):
            self._note_values(route, read.sensors, asset, stamp)
        owner = owner_at(route.owners, stamp.observed_at) if route.owners else None
        if owner and isinstance(asset, int):
            self._has_sled_scans = True
            times = (stamp.observed_at, opened.received_at, read.rssi)
            sled_read = SledRead(route.organization_id, route.reader_id, asset, read.value, *times)
            return sled_scans.record(sled_read, owner, self._gap, is_again=opened.earlier is not None)
        if self._doors is not None and isinstance(asset, int) and before is not Bucket.NO_LOCATION:
            strength = None if read.rssi is None else read.rssi + placement.rssi_offset
            doors = place.doors if place else self._doors.of(route.reader_id, read.antenna)
            self._doors.note(doors, asset, stamp.observed_at, strength)
        if bucket is None and isinstance(asset, int) and placement.location_id is not None:
            self.scans.append(
                Scan(
                    route.organization_id,
                    asset,
                    placement.location_id,
                    route.reader_id,
                    read.antenna or None,
                    stamp.observed_at,
                    opened.received_at,
                    stamp.quality,
                    read.rssi,
                    weight_of(placement.kind, read.tag_type),
                    placement.rssi_offset,
                )
            )
            return len(self.scans) - 1
        if isinstance(asset, NoAsset):
            return self._unmatched(opened, line, read, asset, placement)
        return bucket or Bucket.NO_LOCATION

    def _note_values(self, route: Route, sent: SensorValues, asset_id: int, stamp: Stamp) -> None:
        degrees = None if sent.temperature is None else round(sent.temperature * 100)
        self._values.append(
            NewValues(
                *(route.organization_id, asset_id, stamp.observed_at, sent.battery, sent.millivolts, degrees),
                is_pressed=sent.is_pressed,
            )
        )

    def _unmatched(self, opened: Opened, line: Line, read: Read, reason: NoAsset, placement: Placement) -> Bucket:
        is_counted = opened.earlier is not None and bool(opened.earlier.reads)
        if reason is not NoAsset.LOCATION and not is_counted:
            route = line.route
            # The identity of a beacon is stable; its MAC address may change every 15 minutes.
            value = read.aliases[0] if read.tag_type == "ble" and read.aliases else read.value
            self._unknown.append(
                Sighting(
                    route.organization_id,
                    read.tag_type,
                    match_key(read.tag_type, value) or value,
                    route.reader_id,
                    value,
                    reason,
                    opened.received_at,
                    placement.location_id,
                )
            )
        return Bucket.AMBIGUOUS_TAG if reason is NoAsset.AMBIGUOUS else Bucket.UNMATCHED_TAG


def judge(
    route: Route, read: Read, matcher: TagMatcher, earlier: Placement | None = None
) -> tuple[Placement, int | NoAsset | None, Bucket | None]:
    """Return the placement, the asset (None: not looked up) and the bucket of a read (None: it counts as a scan).

    `earlier`: the placement when it was read, if it is processed again.
    """
    placement = earlier or route.placement_of(read.antenna)
    if not placement.is_enabled or _is_weak(read, placement):
        return placement, None, Bucket.FILTERED
    asset = matcher.match(route.organization_id, read.tag_type, read.value, read.aliases)
    if isinstance(asset, int):
        return placement, asset, Bucket.NO_LOCATION if placement.location_id is None else None
    return placement, asset, Bucket.AMBIGUOUS_TAG if asset is NoAsset.AMBIGUOUS else Bucket.UNMATCHED_TAG


BUCKET_PRIORITY = (
    Bucket.RECORDED,
    Bucket.REPEAT,
    Bucket.NO_LOCATION,
    Bucket.AMBIGUOUS_TAG,
    Bucket.UNMATCHED_TAG,
    Bucket.FILTERED,
)


def _by_bucket(tallies: Counter[Tally]) -> Counter[tuple[int, str]]:
    """Return {(reader, bucket): number}. Held messages are left out: they are counted in their final bucket."""
    numbers: Counter[tuple[int, str]] = Counter()
    for tally, number in tallies.items():
        if tally.bucket is not Bucket.HELD:
            numbers[tally.reader_id, tally.bucket] += number
    return numbers


def _bucket_of(opened: Opened) -> Bucket:
    """Return the bucket of a message. With reads, it is the first of `BUCKET_PRIORITY` among their buckets."""
    if opened.bucket:
        return opened.bucket
    reads = opened.buckets
    if reads:
        return reads[0] if reads.count(reads[0]) == len(reads) else min(reads, key=BUCKET_PRIORITY.index)
    return Bucket.STATUS if opened.parsed and opened.parsed.kind is not _IGNORED else Bucket.IGNORED


def _is_weak(read: Read, placement: Placement) -> bool:
    return placement.min_rssi is not None and read.rssi is not None and read.rssi < placement.min_rssi
