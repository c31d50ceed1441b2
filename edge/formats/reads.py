"""What a parser makes of one message: plain, frozen values without clock, database or network."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import NamedTuple

from msgspec import Struct

from edge.validation.field_counts import FieldCount


class Kind(StrEnum):
    """What sort of message it was. Every kind but `IGNORED` is a sign of life of its reader."""

    READS = "reads"
    STATUS = "status"
    OFFLINE = "offline"
    IGNORED = "ignored"


class WallTime(NamedTuple):
    """What a clock shows that does not tell its time zone: microseconds since the epoch, as if it were UTC."""

    micros: int


class Read(Struct, frozen=True, gc=False):
    """One sighting of one tag by one reader.

    `value` is as the reader sent it. `aliases` are other identities of the same advertisement (the iBeacon
    triple beside the MAC): whichever is registered counts, and together they are one sighting.
    `antenna` is None where the reader has none, and where its antennas have names: `antenna_name` then. `rssi` is in
    dBm or None, never 0 for unknown.
    `observed_at` is the reader's own time in microseconds since the epoch, a `WallTime` where it tells no zone, or
    None where it gave none.
    """

    tag_type: str
    value: str
    aliases: tuple[str, ...] = ()
    antenna: int | None = None
    rssi: float | None = None
    observed_at: int | WallTime | None = None
    antenna_name: str | None = None


class Parsed(Struct, frozen=True, gc=False, eq=False):
    """One message: its reads in the order of the message, and what else it told.

    `skipped` counts entries of a scan list that could not be read; their neighbours are kept.
    `note` is a line for the technician: what a status message told ("antenna 2 disconnected"), or why an
    entry was skipped, or what to change on a reader whose message had to be ignored.
    `fields` counts what the optional paths of a mapping led to; equality leaves it out.
    """

    kind: Kind
    reads: tuple[Read, ...] = ()
    skipped: int = 0
    note: str | None = None
    fields: Mapping[str, FieldCount] = MappingProxyType({})

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Parsed):
            return NotImplemented
        return (self.kind, self.reads, self.skipped, self.note) == (other.kind, other.reads, other.skipped, other.note)

    def __hash__(self) -> int:
        return hash((self.kind, self.reads, self.skipped, self.note))


class Guess(NamedTuple):
    """The format of a message where only one make sends such messages; else those that could be meant, best first.

    `mapping` is the title of a shipped mapping that reads a message which no format knows.
    """

    name: str | None = None
    candidates: tuple[str, ...] = ()
    mapping: str | None = None


class Attempt(NamedTuple):
    """A message, and how the reader that sends it would be set up. `reader_id` is that of one that is there already."""

    topic: str
    payload: bytes
    format: str
    mapping: str | None = None
    location_id: int | None = None
    min_rssi: float | None = None
    clock_setting: str = "auto"
    reader_id: int | None = None


class TrialRead(NamedTuple):
    """A read, when it was made, which asset and location that is, and the bucket it would end in.

    `observed_at` is None where the time of receipt would count.
    """

    read: Read
    observed_at: int | None
    asset_id: int | None
    location_id: int | None
    bucket: str


class Trial(NamedTuple):
    """The outcome a message would have: its bucket, and its reads as far as it has any.

    `remarks` say which optional fields matched nothing or were unreadable.
    """

    bucket: str
    note: str | None = None
    reads: tuple[TrialRead, ...] = ()
    skipped: int = 0
    remarks: tuple[str, ...] = ()


class Malformed(Exception):
    """The payload cannot be what the reader's format says. `str()` is the reason, for the technician."""


Parser = Callable[[str, bytes], Parsed]
