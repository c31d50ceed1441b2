"""What a site and its hub send each other, as plain values: the same types on both sides, whatever the wire format.

Records are identified by their id at their home. A site refers to a record that it only mirrors, because its home is
the hub, by the hub's id negated: so the sign says whose number it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

HUB = 0  # as `peer` in the tables of a site; on a hub a peer is the number of a site


class AssetRecord(NamedTuple):
    """An asset with its live tags, each (tag_type, value). Times in microseconds."""

    ref: int
    external_key: str
    name: str
    description: str | None
    is_active: int
    metadata: str
    valid_from: int
    valid_to: int | None
    created_at: int
    updated_at: int
    deleted_at: int | None
    tags: Sequence[tuple[str, str]]
    home: str = ""  # the name of the box it is kept at, where that is not the sender


class LocationRecord(NamedTuple):
    ref: int
    parent: int | None
    external_key: str
    name: str
    description: str | None
    is_active: int
    valid_from: int
    valid_to: int | None
    created_at: int
    updated_at: int
    deleted_at: int | None
    tags: Sequence[tuple[str, str]]
    home: str = ""


Record = AssetRecord | LocationRecord


class Origin(NamedTuple):
    """Where scans came from: at which location, by which reader and antenna or which person of the site."""

    location: int
    reader: int | None
    port: int | None
    person: int | None


class AntennaName(NamedTuple):
    """What the site calls an antenna that has a name; see edge.tracking.antenna_names."""

    reader: int
    port: int
    name: str


class TrackState(NamedTuple):
    """Where an asset is as far as the site knows. `asset` is given where the hub may not know the track yet."""

    no: int
    asset: int | None
    location: int
    last_seen_at: int
    dwell_started_at: int
    row_at: int
    row_seq: int
    row_rule: int


class Stay(NamedTuple):
    """A row of history; `origin` is its index in the origins of the batch."""

    observed_at: int
    seq: int
    seen_for: int
    origin: int
    delay: int
    quality: int
    rule: int  # why it is there; see edge.tracking.evidence.Rule
    rssi: int | None


class Patch(NamedTuple):
    """All rows of one track from one time to another, both included: these and no others."""

    track: int
    since: int
    until: int
    stays: Sequence[Stay]


class HubState(NamedTuple):
    """A state of the hub's database: its epoch, the number of its newest change, and the random mark of that."""

    epoch: str
    number: int
    mark: str


class Batch(NamedTuple):
    """The state behind the changes up to `until_seq`. Assets and locations come before what refers to them."""

    until_seq: int
    horizon: int  # nothing is said of stays that ended before
    assets: Sequence[AssetRecord]
    locations: Sequence[LocationRecord]
    readers: Mapping[int, str]  # names
    people: Mapping[int, str]
    tracks: Sequence[TrackState]
    gone_tracks: Sequence[int]
    origins: Sequence[Origin]
    patches: Sequence[Patch]
    report: Mapping[str, int] = {}  # the site's own status: how much waits, and so on
    antennas: Sequence[AntennaName] = ()
    refused: Sequence[str] = ()  # positions that arrived with values no box records; they do not travel
    seen: Sequence[tuple[int, int]] = ()  # tracks of which nothing else changed, and when their assets were last seen
    born: Mapping[int, int] = {}  # when the assets that tracks name were created, by ref
    hub_seen: HubState | None = None


class Needs(NamedTuple):
    """What a batch referred to and the hub does not know: the next attempt declares it."""

    assets: Sequence[int] = ()
    locations: Sequence[int] = ()
    tracks: Sequence[int] = ()


class Cursor(NamedTuple):
    """How far a hub has a site's data: the database's epoch, the last change, and the hash chain over all batches."""

    epoch: str | None
    acked_seq: int
    chain: bytes
