"""Results of parsers: frozen values, independent of clock, database and network."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import NamedTuple

from msgspec import Struct

from edge.formats.sensor_values import SensorValues
from edge.validation.field_counts import FieldCount


class Kind(StrEnum):
    """Kind of a message. All kinds except `IGNORED` show that the reader is online."""

    READS = "reads"
    STATUS = "status"
    OFFLINE = "offline"
    IGNORED = "ignored"


class WallTime(NamedTuple):
    """Local time of a clock without a time zone: microseconds since the epoch, as if it were UTC."""

    micros: int


UNREADABLE_ANTENNA = 0  # instead of a port: the field was sent, but is no number and no name


class Read(Struct, frozen=True, gc=False):
    """A read of one tag by one reader.

    `value`: as sent by the reader. `aliases`: other identities of the same advertisement, such as the iBeacon in
    addition to the MAC; any registered one matches. `antenna`: port from 1, None if it was not sent or if
    `antenna_name` is set, or UNREADABLE_ANTENNA. `rssi`: in dBm, None if unknown. `observed_at`: the reader's time in
    microseconds since the epoch, a `WallTime` without a zone, None without a time. `sensors`: None without sensor
    values.
    """

    tag_type: str
    value: str
    aliases: tuple[str, ...] = ()
    antenna: int | None = None
    rssi: float | None = None
    observed_at: int | WallTime | None = None
    antenna_name: str | None = None
    sensors: SensorValues | None = None


class PartialRead(NamedTuple):
    """A read without an optional field that was unreadable. `left_out`: the reason."""

    read: Read
    left_out: str


class Parsed(Struct, frozen=True, gc=False, eq=False):
    """A parsed message with its reads in the original order.

    `skipped`: number of unreadable entries; the other entries are kept. `note`: a line for the technician, with the
    status ("antenna 2 disconnected"), the reason for a skipped entry, or instructions for an ignored message.
    `fields`: counts of the optional fields of a mapping, not part of equality.
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
    """Guessed format of a message: `name` if it is certain, otherwise `candidates`, best first.

    `mapping`: title of an example mapping that parses the message, if no format does.
    """

    name: str | None = None
    candidates: tuple[str, ...] = ()
    mapping: str | None = None


class Attempt(NamedTuple):
    """A message and the reader settings to test it with. `reader_id`: of an existing reader, otherwise None."""

    topic: str
    payload: bytes
    format: str
    mapping: str | None = None
    location_id: int | None = None
    min_rssi: float | None = None
    clock_setting: str = "auto"
    reader_id: int | None = None


class TrialRead(NamedTuple):
    """A read in a test, with its asset, location and bucket. `observed_at`: None for the time of receipt."""

    read: Read
    observed_at: int | None
    asset_id: int | None
    location_id: int | None
    bucket: str

    @property
    def lacks_zone(self) -> bool:
        """True if the reader's time is not used because nothing says in which zone it is."""
        return self.observed_at is None and isinstance(self.read.observed_at, WallTime)


class Trial(NamedTuple):
    """Outcome of a test: the bucket of the message and its reads. `remarks`: problems with optional fields."""

    bucket: str
    note: str | None = None
    reads: tuple[TrialRead, ...] = ()
    skipped: int = 0
    remarks: tuple[str, ...] = ()


class Malformed(Exception):
    """The payload does not match the reader's format. `str()` is the reason, shown to the technician."""


Parser = Callable[[str, bytes], Parsed]
