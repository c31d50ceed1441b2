"""Rows of history: how stays, tracks and sources are read and written.

A scan that is the newest of its asset only opens or extends the last stay (`positions`). `late_reads` changes earlier
stays. A source is an antenna at a location, or people at a location; rows of history hold its number.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from enum import IntEnum
from typing import NamedTuple

from msgspec import Struct

from edge.database.connection import column, execute, execute_many, find_scalar, scalar
from edge.tracking import history_engine
from edge.tracking.decision_rule import Rule
from edge.tracking.retrace import Step
from edge.tracking.signal_strength import Detection, Weight


class Quality(IntEnum):
    """Origin of the time of a scan."""

    READER = 0
    RECEIVED = 1  # no credible time from the reader
    CORRECTED = 2  # the reader's time minus its constant offset
    UNTRUSTED = 3  # this machine's clock was behind its own records
    HANDHELD = 4
    CARRIED = 5  # not read itself, only its carrier


class Scan(Struct, frozen=True, gc=False):
    """One sighting of one asset. `port` is None for readers without antennas, `reader_id` for a person's scan."""

    organization_id: int
    asset_id: int
    location_id: int
    reader_id: int | None
    port: int | None
    observed_at: int
    received_at: int
    quality: Quality
    rssi: float | None = None
    weight: Weight = Weight.RFID_ZONE
    rssi_offset: float = 0.0  # dB, see edge.tracking.rssi_offsets


class Position(Struct, gc=False):
    """Position of an asset while a batch changes it: read once, written once."""

    no: int
    location_id: int
    last_seen_at: int
    dwell_started_at: int
    row_at: int
    row_seq: int
    row_rule: int
    history_rows: int
    stored: tuple[int, int, int, int, int, int] = (0, 0, 0, 0, 0, 0)

    def __post_init__(self) -> None:
        self.stored = self.row

    @property
    def row(self) -> tuple[int, int, int, int, int, int]:
        """Return the columns that a read at the same location leaves as they are."""
        return (
            *(self.location_id, self.dwell_started_at, self.row_at, self.row_seq),
            *(self.row_rule, self.history_rows),
        )


class StayRow(NamedTuple):
    """A stored history row, with the end of its stay."""

    observed_at: int
    seq: int
    ended_at: int
    source_no: int
    location_id: int
    by_person: bool
    delay: int
    quality: int
    rssi: int | None
    rule: int


# position_no, observed_at, seq, seen_for, source_no, delay, quality, rssi, rule
NewRow = tuple[int, int, int, int, int, int, int, int | None, int]

INSERT_ROW = (
    "INSERT INTO history (position_no, observed_at, seq, seen_for, source_no, delay, quality, rssi, rule) "
    "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
CLOSE_STAY = (
    "UPDATE history SET seen_for = ?1 WHERE position_no = ?2 AND observed_at = ?3 AND seq = ?4 AND seen_for <> ?1"
)


def row_values(
    position_no: int, seq: int, source_no: int, scan: Scan, seen_for: int = 0, rule: Rule = Rule.EVERY_READ
) -> NewRow:
    rule = rule if scan.reader_id is not None else Rule.PERSON
    delay = scan.received_at - scan.observed_at
    return (position_no, scan.observed_at, seq, seen_for, source_no, delay, scan.quality, _tenths(scan.rssi), rule)


def row_of_step(position_no: int, step: Step, detection: Detection, seq: int = 0) -> NewRow:
    delay, quality, rssi = detection.delay, detection.quality, _tenths(detection.rssi)
    return (position_no, step.observed_at, seq, 0, detection.source_no, delay, quality, rssi, step.rule)


def _tenths(rssi: float | None) -> int | None:
    return None if rssi is None else round(rssi * 10)


def scan_of(asset_id: int, detection: Detection) -> Scan:
    """Return the scan for a detection."""
    organization_id, location_id, reader_id, port = execute(
        "SELECT organization_id, location_id, reader_id, port FROM source WHERE no = ?", (detection.source_no,)
    ).fetchone()
    at, weight = detection.last_at, Weight(detection.weight)
    return Scan(
        organization_id, asset_id, location_id, reader_id, port, at, at + detection.delay, Quality(detection.quality),
        detection.rssi, weight,
    )  # fmt: skip


def load_positions(asset_ids: set[int]) -> dict[int, Position]:
    rows = execute(
        "SELECT asset_id, no, location_id, last_seen_at, dwell_started_at, row_at, row_seq, row_rule, history_rows "
        "FROM track WHERE site_no IS NULL AND asset_id IN (SELECT value FROM json_each(?))",
        (json.dumps(list(asset_ids)),),
    )
    return {asset_id: Position(*columns) for asset_id, *columns in rows}


def write_positions(positions: Sequence[Position]) -> None:
    """Store positions in the caller's transaction.

    SQLite writes each index with a column that a statement names, also with the same value, so a read at the same
    location writes the time only.
    """
    execute_many("UPDATE track SET last_seen_at = ? WHERE no = ?", [(p.last_seen_at, p.no) for p in positions])
    changed = [position for position in positions if position.row != position.stored]
    execute_many(
        "UPDATE track SET dwell_started_at = ?, row_at = ?, row_seq = ?, row_rule = ?, history_rows = ? WHERE no = ?",
        [(*position.row[1:], position.no) for position in changed],
    )
    moved = [position for position in changed if position.location_id != position.stored[0]]
    execute_many("UPDATE track SET location_id = ? WHERE no = ?", [(p.location_id, p.no) for p in moved])
    for position in changed:
        position.stored = position.row


class ScanSource(NamedTuple):
    """An antenna at a location, or people at a location. At a hub the last three fields belong to a site.

    `remote_person` without a site is a person from before the recovery of this machine from its hub.
    """

    location_id: int
    reader_id: int | None = None
    port: int | None = None
    site_no: int | None = None
    remote_reader: int | None = None
    remote_person: int | None = None


def number_of(organization_id: int, source: ScanSource) -> int:
    """Return the number of a source, and assign one if it is new. Call within a transaction."""
    row = execute(_FIND, source).fetchone() or execute(_ADD, (organization_id, *source)).fetchone()
    number: int = row[0]
    return number


# Matches the unique index `source_origin`.
_FIND = """
SELECT no FROM source WHERE location_id = ? AND ifnull(reader_id, 0) = ifnull(?, 0)
AND ifnull(port, -1) = ifnull(?, -1) AND ifnull(site_no, 0) = ifnull(?, 0)
AND ifnull(remote_reader, 0) = ifnull(?, 0) AND ifnull(remote_person, 0) = ifnull(?, 0)
"""
_ADD = """
INSERT INTO source (organization_id, location_id, reader_id, port, site_no, remote_reader, remote_person)
VALUES (?, ?, ?, ?, ?, ?, ?) RETURNING no
"""


def add_track(scan: Scan, rule: Rule) -> int:
    """Insert the track of an asset that was never seen by this box, for its first scan; return its number."""
    at = scan.observed_at
    return scalar(
        "INSERT INTO track (asset_id, organization_id, location_id, last_seen_at, dwell_started_at, row_at, "
        "row_seq, row_rule, history_rows) VALUES (?, ?, ?, ?, ?, ?, 0, ?, 1) RETURNING no",
        (scan.asset_id, scan.organization_id, scan.location_id, at, at, at, rule),
    )


def move_to_asset(organization_id: int, from_asset_id: int, to_asset_id: int, *, skip_taken: bool = False) -> None:
    """Move history to another asset. With `skip_taken`, tracks that the other asset already has stay."""
    execute(
        f"UPDATE {'OR IGNORE ' if skip_taken else ''}track SET asset_id = ? WHERE asset_id = ? AND organization_id = ?",
        (to_asset_id, from_asset_id, organization_id),
    )


def assets_of(track_numbers: Collection[int]) -> set[int]:
    return set(
        column(
            "SELECT asset_id FROM track WHERE no IN (SELECT value FROM json_each(?))",
            (json.dumps(list(track_numbers)),),
        )
    )


def tracks_of(asset_id: int) -> list[int]:
    """Return the numbers of an asset's tracks: several on a hub, where each site has its own."""
    return column("SELECT no FROM track WHERE asset_id = ?", (asset_id,))


def stays_after(asset_id: int, at: int, limit: int) -> list[tuple[int, int]]:
    """Return begin and location of the stays of an asset that began after `at`, oldest first."""
    with history_engine.lending(lambda: history_engine.lent_rows.oldest(tracks_of(asset_id), limit, at)):
        return execute(
            "SELECT h.observed_at, s.location_id FROM track t JOIN history h ON h.position_no = t.no "
            "JOIN source s ON s.no = h.source_no WHERE t.asset_id = ? AND h.observed_at > ? "
            "ORDER BY h.observed_at, h.position_no, h.seq LIMIT ?",
            (asset_id, at, limit),
        ).fetchall()


def last_seen(asset_ids: Collection[int]) -> list[tuple[int, int, int]]:
    """Return asset, location and time of the last sighting by this box."""
    return execute(
        "SELECT asset_id, location_id, last_seen_at FROM track "
        "WHERE site_no IS NULL AND asset_id IN (SELECT value FROM json_each(?))",
        (json.dumps(list(asset_ids)),),
    ).fetchall()


# Stays that this box recorded itself.
_OWN = (
    "history JOIN track ON track.no = history.position_no AND track.site_no IS NULL "
    "JOIN source ON source.no = history.source_no"
)


def newest_seq(asset_id: int, observed_at: int) -> int:
    """Return the highest `seq` of the stays that began at one moment."""
    return scalar(
        f"SELECT history.seq FROM {_OWN} WHERE track.asset_id = ? AND history.observed_at = ? "
        "ORDER BY history.seq DESC LIMIT 1",
        (asset_id, observed_at),
    )


def visits(asset_id: int, after: int, until: int | None = None) -> list[tuple[int, int]]:
    """Return location and begin of the stays that began after `after` and at or before `until`, oldest first."""
    return execute(
        f"SELECT source.location_id, history.observed_at FROM {_OWN} "
        "WHERE track.asset_id = ?1 AND history.observed_at > ?2 "
        "AND history.observed_at <= ifnull(?3, history.observed_at) ORDER BY history.observed_at, history.seq",
        (asset_id, after, until),
    ).fetchall()


def location_at(asset_id: int, at: int) -> int | None:
    """Return the location of the last stay that began at `at` or before."""
    return find_scalar(
        f"SELECT source.location_id FROM {_OWN} WHERE track.asset_id = ? AND history.observed_at <= ? "
        "ORDER BY history.observed_at DESC, history.seq DESC LIMIT 1",
        (asset_id, at),
    )


def is_recorded(asset_id: int, observed_at: int, location_id: int) -> bool:
    sql = f"SELECT 1 FROM {_OWN} WHERE track.asset_id = ? AND history.observed_at = ? AND source.location_id = ?"
    return execute(sql, (asset_id, observed_at, location_id)).fetchone() is not None


def carried_during(asset_id: int, after: int, until: int | None) -> list[tuple[int, int]]:
    """Return begin and `seq` of carried stays in that period, newest first."""
    return execute(
        f"SELECT history.observed_at, history.seq FROM {_OWN} WHERE track.asset_id = ?1 AND history.quality = ?4 "
        "AND history.observed_at > ?2 AND history.observed_at <= ifnull(?3, history.observed_at) "
        "ORDER BY history.observed_at DESC, history.seq DESC",
        (asset_id, after, until, Quality.CARRIED),
    ).fetchall()


def carried_with(carrier_id: int, observed_at: int) -> list[tuple[int, int]]:
    """Return asset and `seq` of carried stays that began with a sighting of this carrier."""
    return execute(
        "SELECT DISTINCT track.asset_id, history.seq FROM carrier_load "
        "JOIN track ON track.asset_id = carrier_load.asset_id AND track.site_no IS NULL "
        "JOIN history ON history.position_no = track.no AND history.observed_at = ?2 AND history.quality = ?3 "
        "WHERE carrier_load.carrier_id = ?1 AND carrier_load.loaded_at <= ?2",
        (carrier_id, observed_at, Quality.CARRIED),
    ).fetchall()


# Seen on its own, at a location where its carrier never was.
_ALONE = (
    f"history.quality <> {int(Quality.CARRIED)} "
    f"AND source.location_id NOT IN (SELECT source.location_id FROM {_OWN} WHERE track.asset_id = :carrier)"
)


def seen_alone_after(asset_id: int, carrier_id: int, at: int) -> int | None:
    """Return the first sighting of an asset on its own, after `at`, where its carrier never was."""
    return find_scalar(
        f"SELECT min(history.observed_at) FROM {_OWN} "
        f"WHERE track.asset_id = :asset AND history.observed_at > :at AND {_ALONE}",
        {"asset": asset_id, "carrier": carrier_id, "at": at},
    )


_LOADED_THEN = f"""
SELECT carried.asset_id FROM carrier_load carried JOIN asset ON asset.id = carried.asset_id AND asset.deleted_at IS NULL
WHERE carried.carrier_id = :carrier AND carried.loaded_at <= :at AND ifnull(carried.unloaded_at, :at + 1) > :at
AND carried.carrier_id NOT IN (SELECT asset_id FROM tracked_person)
AND NOT EXISTS (
    SELECT 1 FROM {_OWN} WHERE track.asset_id = carried.asset_id AND source.location_id <> :here
    AND history.observed_at > carried.loaded_at AND history.observed_at <= :at AND {_ALONE}
)
"""


def carried_at(carrier_id: int, at: int, location_id: int, asset_id: int | None = None) -> list[int]:
    """Return the assets on a carrier at that time, except those seen on their own elsewhere since loading.

    With `asset_id`, only this one is considered.
    """
    values = {"carrier": carrier_id, "at": at, "here": location_id, "asset": asset_id}
    chosen = "" if asset_id is None else "AND carried.asset_id = :asset"
    return column(f"{_LOADED_THEN} {chosen}", values)


class HeldRead(NamedTuple):
    """A read that is held back, as stored on disk."""

    asset_id: int
    location_id: int
    observed_at: int
    source_no: int
    rssi: float | None
    weight: int
    quality: int
    delay: int


_HELD = (
    "SELECT h.asset_id, h.location_id, h.observed_at, h.source_no, h.rssi, h.weight, h.quality, h.delay "
    "FROM held_back h JOIN track t ON t.asset_id = h.asset_id AND t.site_no IS NULL "
    "WHERE h.observed_at > t.last_seen_at AND h.location_id <> t.location_id"
)


def held_reads() -> list[HeldRead]:
    """Return the stored held reads that are still newer than their asset's last sighting."""
    return [HeldRead._make(row) for row in execute(_HELD).fetchall()]


_LIVE = "JOIN asset a ON a.id = t.asset_id AND a.deleted_at IS NULL"
_AT = (
    f"SELECT h.asset_id FROM held_back h JOIN track t ON t.asset_id = h.asset_id AND t.site_no IS NULL {_LIVE} "
    "WHERE h.location_id = ? AND h.observed_at > t.last_seen_at AND h.location_id <> t.location_id"
)
_RECENT_AT = (
    "SELECT t.asset_id FROM json_each(?1) r JOIN track t ON t.asset_id = r.value ->> 0 AND t.site_no IS NULL "
    f"{_LIVE} JOIN source s ON s.no = r.value ->> 2 "
    "WHERE s.location_id = ?2 AND t.location_id <> ?2 AND r.value ->> 1 > t.last_seen_at"
)


def held_at(location_id: int, recent: Sequence[tuple[int, int, int]]) -> set[int]:
    """Return the live assets with a held read at a location: stored, or one of `recent` (asset, time, source)."""
    held = set(column(_AT, (location_id,)))
    return held | set(column(_RECENT_AT, (json.dumps(recent), location_id)))
