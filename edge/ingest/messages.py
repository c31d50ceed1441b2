"""A message on its way through ingest: as it was delivered, as it was read, and what became of it.

What is made for each message or read is a `msgspec.Struct`: made in 0.1 microseconds where a NamedTuple takes 0.4.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from msgspec import Struct

from edge.formats.reads import Parsed
from edge.ingest.routing import Line
from edge.ingest.timing import Stamp
from edge.readers.ledger import Bucket


class Earlier(NamedTuple):
    """The earlier outcome of a message that is read again: in which reader's ledger, and the times it was given."""

    reader_id: int
    bucket: Bucket
    reads: list[Bucket]
    stamps: list[Stamp]


class HeldAs(NamedTuple):
    no: int
    reader_id: int


class Message(Struct, frozen=True, gc=False):
    """One MQTT message as it was delivered; `received_at` by the box's clock.

    `connection` counts the connections to the broker: a packet id means something only on its own. `dead_letter_id`:
    it was set aside under this number and is queued once more, so it is no repeat of itself. `held_as`: it was held
    back, under which number and as a message of which reader.
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
    size: int = 0  # of a payload that was too large to be taken whole; else 0
    held_as: HeldAs | None = None
    session: int = 0  # of ours at the broker: each has packet ids of its own

    @property
    def is_again(self) -> bool:
        """Whether it was taken before, and waited here."""
        return self.dead_letter_id > 0 or self.held_as is not None


class Opened(Struct, gc=False):
    """A message that was read: its reader, and its reads with their times.

    `bucket` is where the message ends, None until that is known; `outcomes` is where each of its reads does: a bucket,
    or its index among the scans that count. `buckets` is the same once these are recorded.
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
