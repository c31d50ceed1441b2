"""A message in ingest: as delivered, as parsed, and its outcome.

Objects created for each message or read are `msgspec.Struct`: 0.1 microseconds instead of 0.4 for a NamedTuple.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from msgspec import Struct

from edge.doors.doors import Readable
from edge.formats.reads import Parsed
from edge.ingest.routing import Line
from edge.ingest.timing import Stamp
from edge.readers.ledger import Bucket
from edge.readers.readers import Placement


class Place(NamedTuple):
    """Setup of an antenna when it read an unmatched tag."""

    placement: Placement
    doors: Sequence[Readable]


class Earlier(NamedTuple):
    """Earlier outcome of a message that is processed again: its ledger entries and times.

    `places`: for each read, the setup of its antenna at that time; None if its asset was known, or without a location.
    """

    reader_id: int
    bucket: Bucket
    reads: list[Bucket]
    stamps: list[Stamp]
    places: Sequence[Place | None] = ()


class HeldAs(NamedTuple):
    """Number of a held message, and its reader at that time."""

    no: int
    reader_id: int


class Message(Struct, frozen=True, gc=False):
    """MQTT message as delivered; `received_at` by the box's clock, in microseconds since the epoch.

    `connection`: number of the connection, because packet IDs are valid only within one. `dead_letter_id`: number of
    the requeued dead letter, otherwise 0. `held_as`: set if the message was on hold.
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
    size: int = 0  # bytes of a payload that was too large and is truncated; otherwise 0
    held_as: HeldAs | None = None
    session: int = 0  # each session has its own packet IDs

    @property
    def is_reprocessed(self) -> bool:
        """True for a dead letter or a held message, which was acknowledged earlier."""
        return self.dead_letter_id > 0 or self.held_as is not None


class Opened(Struct, gc=False):
    """Parsed message: its reader, and its reads with their times.

    `bucket`: of the message, None until decided. `outcomes`: for each read its bucket, or the index of its scan.
    `buckets`: final bucket of each read, set after the scans are recorded.
    """

    message: Message
    digest: bytes
    received_at: int
    line: Line | None = None
    earlier: Earlier | None = None
    parsed: Parsed | None = None
    stamps: Sequence[Stamp] = ()
    bucket: Bucket | None = None
    reason: str = ""
    outcomes: Sequence[Bucket | int] = ()
    buckets: Sequence[Bucket] = ()
