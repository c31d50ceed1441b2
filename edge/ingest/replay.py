"""Replay kept messages when their missing tag or reader is set up.

Reads that had counted stay as they are. The others count with the setup of their antenna when they were read. A replay
moves the message to another bucket of the ledger, in the hour of its receipt.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from msgspec import msgpack

from edge.database.connection import column
from edge.doors.passages import DoorReads
from edge.ingest.messages import Earlier, Message, Opened, Place
from edge.ingest.timing import Stamp
from edge.people.topic_owners import owner_finder
from edge.readers import kept_messages
from edge.readers.kept_messages import Pack, ReplayRequest, Source
from edge.readers.ledger import NO_READER, Bucket
from edge.records.tags import match_key
from edge.tracking.stays import Quality

_FAST = 1  # zlib level
WAITING_READS = frozenset((Bucket.NO_LOCATION, Bucket.UNMATCHED_TAG, Bucket.AMBIGUOUS_TAG))
_WAITING_MESSAGES = frozenset((Bucket.UNKNOWN_TOPIC, Bucket.IGNORED))
COUNTED_READS = frozenset((Bucket.RECORDED, Bucket.REPEAT))
_NO_TAG = frozenset((Bucket.UNMATCHED_TAG, Bucket.AMBIGUOUS_TAG))


class Entry(NamedTuple):
    """A kept message and its earlier outcome."""

    message: Message
    earlier: Earlier


class _Packed(NamedTuple):
    """A kept message in its stored form."""

    topic: str
    payload: bytes
    received_at: int
    bucket: Bucket
    reads: list[Bucket]
    stamps: list[tuple[int, Quality]]
    places: list[Place | None] = []  # noqa: RUF012  never changed; missing in packs of earlier releases


def packs_of(opened: Sequence[Opened], doors: DoorReads) -> Iterator[Pack]:
    """Yield a pack for each reader with the messages of a batch that may count later."""
    waiting: dict[Source, list[Opened]] = {}
    owner_of: Callable[[str], int | None] | None = None
    for item in opened:
        is_waiting = item.bucket in _WAITING_MESSAGES or not WAITING_READS.isdisjoint(item.buckets)
        if is_waiting and not item.message.size:
            if item.line:
                source: Source = (item.line.route.organization_id, item.line.route.reader_id)
            else:
                owner_of = owner_of or owner_finder()
                source = (owner_of(item.message.topic), NO_READER)
            waiting.setdefault(source, []).append(item)
    for (organization_id, reader_id), items in waiting.items():
        tags = {tag for item in items for tag in _unknown_tags(item)}
        hashes = b"".join(kept_messages.hash_of(organization_id or 0, *tag) for tag in sorted(tags))
        yield Pack(organization_id, reader_id, items[-1].received_at, hashes, _packed(items, doors))


def divide(pack: Pack, is_due: Callable[[str], bool]) -> tuple[list[Entry], Pack | None]:
    """Return the messages of a pack whose topics are due, and a pack of the others, which stay as they are."""
    packed = msgpack.decode(zlib.decompress(pack.data), type=list[_Packed])
    others = [one for one in packed if not is_due(one.topic)]
    due = [one for one in packed if is_due(one.topic)]
    return _entries(pack, due), pack._replace(data=_compressed(others)) if others else None


def _entries(pack: Pack, packed: Sequence[_Packed]) -> list[Entry]:
    locations = {place.placement.location_id for one in packed for place in one.places if place}
    live = set(column(_LIVE, (pack.organization_id, json.dumps(sorted(filter(None, locations))))))
    return [
        Entry(
            Message(one.topic, one.payload, one.received_at),
            Earlier(
                pack.reader_id,
                one.bucket,
                one.reads,
                [Stamp(*stamp) for stamp in one.stamps],
                [place if place and place.placement.location_id in live else None for place in one.places],
            ),
        )
        for one in packed
    ]


_LIVE = """
SELECT id FROM location WHERE organization_id = ? AND deleted_at IS NULL AND id IN (SELECT value FROM json_each(?))
"""


class Replays:
    """One pass over the kept messages, for the replay requests that were open at its start."""

    def __init__(self) -> None:
        self._requests: list[ReplayRequest] = []
        self._before = self._after = self._up_to = 0

    def begin(self) -> list[int]:
        """Start a pass for new requests. Returns IDs of the readers with dead letters to process again."""
        self._requests = kept_messages.requests()
        self._before, self._after, self._up_to = 0, 0, kept_messages.newest()
        return [request.reader_id for request in self._requests if request.reader_id is not None]

    @property
    def is_under_way(self) -> bool:
        return bool(self._requests)

    def step_back(self) -> None:
        """Return to the last pack, after its replay failed."""
        self._after = self._before

    def next_pack(self) -> tuple[int, Pack] | None:
        """Return the number and content of the next matching pack.

        Returns None at the end of the pass, and after a slice without a match: continue while `is_under_way`.
        """
        readers = {request.reader_id for request in self._requests if request.reader_id is not None}
        tags = {request.tag_hash for request in self._requests if request.tag_hash is not None}
        outlines = kept_messages.outlines(self._after, self._up_to)
        for no, reader_id, waits_for in outlines:
            self._before, self._after = self._after, no
            is_of_reader = reader_id in readers or (reader_id == NO_READER and bool(readers))
            if is_of_reader or not tags.isdisjoint(kept_messages.hashes(waits_for)):
                return no, kept_messages.load(no)
        if not outlines:
            kept_messages.close_requests(self._requests[-1].no)
            self._requests = []
        return None


def _unknown_tags(item: Opened) -> Iterator[tuple[str, str]]:
    if item.parsed is None:
        return
    for read, bucket in zip(item.parsed.reads, item.buckets, strict=True):
        if bucket in _NO_TAG:
            for value in (read.value, *read.aliases):
                yield read.tag_type, match_key(read.tag_type, value)


def _places(item: Opened, doors: DoorReads) -> Iterator[Place | None]:
    """Yield the setup with which each read that lacks only its tag counts later."""
    earlier = item.earlier.places if item.earlier and len(item.earlier.places) == len(item.buckets) else None
    for index, bucket in enumerate(item.buckets):
        if item.line is None or item.parsed is None or bucket not in _NO_TAG:
            yield None
        elif earlier and earlier[index]:
            yield earlier[index]
        else:
            route, antenna = item.line.route, item.parsed.reads[index].antenna
            placement = route.placement_of(antenna)
            yield Place(placement, doors.of(route.reader_id, antenna)) if placement.location_id else None


def _packed(items: Sequence[Opened], doors: DoorReads) -> bytes:
    entries = [
        _Packed(
            item.message.topic,
            item.message.payload,
            item.received_at,
            item.bucket,
            list(item.buckets),
            [(stamp.observed_at, stamp.quality) for stamp in item.stamps],
            list(_places(item, doors)),
        )
        for item in items
        if item.bucket
    ]
    return _compressed(entries)


def _compressed(entries: Sequence[_Packed]) -> bytes:
    return zlib.compress(msgpack.encode(entries), _FAST)
