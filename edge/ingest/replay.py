"""Replay kept messages when their missing tag or reader is set up.

A replay moves the message to another bucket of the ledger, in the hour of its receipt.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from msgspec import msgpack

from edge.ingest.messages import Earlier, Message, Opened
from edge.ingest.timing import Stamp
from edge.people.topic_owners import owner_finder
from edge.readers import kept_messages
from edge.readers.kept_messages import Pack, ReplayRequest, Source
from edge.readers.ledger import NO_READER, Bucket
from edge.records.tags import match_key
from edge.tracking.stays import Quality

_FAST = 1  # zlib level
_WAITING_READS = frozenset((Bucket.NO_LOCATION, Bucket.UNMATCHED_TAG, Bucket.AMBIGUOUS_TAG))
_WAITING_MESSAGES = frozenset((Bucket.UNKNOWN_TOPIC, Bucket.IGNORED))
_NO_TAG = frozenset((Bucket.UNMATCHED_TAG, Bucket.AMBIGUOUS_TAG))


class Entry(NamedTuple):
    """A kept message and its earlier outcome."""

    message: Message
    earlier: Earlier


def packs_of(opened: Sequence[Opened]) -> Iterator[Pack]:
    """Yield a pack for each reader with the messages of a batch that may count later."""
    waiting: dict[Source, list[Opened]] = {}
    owner_of: Callable[[str], int | None] | None = None
    for item in opened:
        is_waiting = item.bucket in _WAITING_MESSAGES or not _WAITING_READS.isdisjoint(item.buckets)
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
        yield Pack(organization_id, reader_id, items[-1].received_at, hashes, _packed(items))


def entries_of(pack: Pack) -> list[Entry]:
    """Unpack the messages of a pack."""
    return [
        Entry(
            Message(topic, payload, received_at),
            Earlier(
                pack.reader_id,
                Bucket(bucket),
                [Bucket(read) for read in reads],
                [Stamp(observed_at, Quality(quality)) for observed_at, quality in stamps],
            ),
        )
        for topic, payload, received_at, bucket, reads, stamps in msgpack.decode(zlib.decompress(pack.data))
    ]


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


def _packed(items: Sequence[Opened]) -> bytes:
    entries = [
        (
            item.message.topic,
            item.message.payload,
            item.received_at,
            item.bucket,
            item.buckets,
            [(stamp.observed_at, int(stamp.quality)) for stamp in item.stamps],
        )
        for item in items
    ]
    return zlib.compress(msgpack.encode(entries), _FAST)
