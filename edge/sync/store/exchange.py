"""Data that a site and its hub exchange, as plain values independent of the wire format.

Records are identified by their id at their home. A site refers to a mirrored record by the hub's id negated, so the
sign shows which id it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from edge.doors.passage_copies import SentDoor, SentPassage
from edge.sync.store.site_health import SiteHealth
from edge.tracking.copies import StayColumns

HUB = 0  # value of `peer` on a site; on a hub, `peer` is a site number


class Peer(NamedTuple):
    """The other side: a site of this hub by number, or HUB. The site's locations are below `location_id`."""

    no: int
    organization_id: int
    code: str
    location_id: int = 0


class AssetRecord(NamedTuple):
    """An asset with its live tags as (tag_type, value). Times are in µs.

    These columns, in this order, are its line in version 1 of the protocol. `more` has the columns that are declared
    later, by name; see `record_lines`.
    """

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
    home: str = ""  # name of its home, unless that is the sender
    more: Mapping[str, Any] = {}


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
    more: Mapping[str, Any] = {}


Record = AssetRecord | LocationRecord


class Origin(NamedTuple):
    """Origin of reads: a location with a reader and antenna, or with a person."""

    location: int
    reader: int | None
    port: int | None
    person: int | None


class AntennaName(NamedTuple):
    """A named antenna of the site; see edge.tracking.antenna_names."""

    reader: int
    port: int
    name: str


class TrackState(NamedTuple):
    """The current position of an asset at the site. `asset` is set if the hub may not know the track yet."""

    no: int
    asset: int | None
    location: int
    last_seen_at: int
    dwell_started_at: int
    row_at: int
    row_seq: int
    row_rule: int


class Stay(NamedTuple):
    """A row of history; `origin` is an index into the batch's origins."""

    observed_at: int
    seq: int
    seen_for: int
    origin: int
    delay: int
    quality: int
    rule: int  # reason; see edge.tracking.decision_rule.Rule
    rssi: int | None


def stay_of(row: StayColumns, origins: dict[Origin, int]) -> Stay:
    """Return a row of history as it is sent, with its origin's place in `origins`, which may grow."""
    _, at, seq, seen_for, delay, quality, rule, rssi, location, reader, port, person = row
    origin = Origin(location, reader, port, person)
    return Stay(at, seq, seen_for, origins.setdefault(origin, len(origins)), delay, quality, rule, rssi)


class Patch(NamedTuple):
    """The complete rows of one track from `since` to `until`, inclusive."""

    track: int
    since: int
    until: int
    stays: Sequence[Stay]


class HubState(NamedTuple):
    """A state of the hub's database: its epoch, its newest change number, and a random mark for that change."""

    epoch: str
    number: int
    mark: str


class Batch(NamedTuple):
    """The current state of all changes up to `until_seq`. Assets and locations precede their references."""

    until_seq: int
    horizon: int  # stays that ended earlier are not included
    assets: Sequence[AssetRecord]
    locations: Sequence[LocationRecord]
    readers: Mapping[int, str]  # names
    people: Mapping[int, str]
    tracks: Sequence[TrackState]
    gone_tracks: Sequence[int]
    origins: Sequence[Origin]
    patches: Sequence[Patch]
    report: Mapping[str, int] = {}  # status of the site, such as the number of waiting changes
    antennas: Sequence[AntennaName] = ()
    refused: Sequence[str] = ()  # positions with invalid values; set by `decode`, never sent
    seen: Sequence[tuple[int, int]] = ()  # (track, last-seen time) of tracks without other changes
    created_at_by_ref: Mapping[int, int] = {}  # creation time of the assets of the tracks, by ref
    hub_seen: HubState | None = None
    health: SiteHealth | None = None
    doors: Sequence[SentDoor] = ()
    passages: Sequence[SentPassage] = ()


class Needs(NamedTuple):
    """Records that a batch referred to and the hub does not know; the next attempt includes them."""

    assets: Sequence[int] = ()
    locations: Sequence[int] = ()
    tracks: Sequence[int] = ()


class Cursor(NamedTuple):
    """The hub's position in a site's data: database epoch, last change, and hash chain of all batches."""

    epoch: str | None
    acked_seq: int
    chain: bytes
