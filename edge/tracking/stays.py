"""The stays that make up history, as they are stored.

A scan that is the newest of its asset only opens or extends the last stay (`scans`). Earlier stays are changed by
`stay_changes`.

Where scans can come from. Each source has a number, which history keeps instead of antenna, person and location.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple

from msgspec import Struct

from edge.database.connection import execute, execute_many
from edge.tracking.evidence import Rule
from edge.tracking.retrace import Step
from edge.tracking.signal_strength import Heard, Weight


class Quality(IntEnum):
    """Whose clock gave the time of a scan."""

    READER = 0
    RECEIVED = 1  # the reader gave no credible time
    CORRECTED = 2  # the reader's, less its constant offset
    UNTRUSTED = 3  # the box's own clock was behind what it had recorded before
    HANDHELD = 4
    CARRIED = 5  # not seen itself: its carrier was


class Scan(Struct, frozen=True, gc=False):
    """One sighting of one asset. `port` is None where the reader has no antennas, `reader_id` for a person's scan."""

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


class Position:
    """A position being changed: read once, written once for a whole batch."""

    __slots__ = (
        "dwell_started_at",
        "history_rows",
        "last_seen_at",
        "location_id",
        "no",
        "row_at",
        "row_rule",
        "row_seq",
        "stored_location_id",
    )

    def __init__(
        self,
        no: int,
        location_id: int,
        last_seen_at: int,
        dwell_started_at: int,
        row_at: int,
        row_seq: int,
        row_rule: int,
        history_rows: int,
    ) -> None:
        self.no = no
        self.location_id = self.stored_location_id = location_id
        self.last_seen_at = last_seen_at
        self.dwell_started_at = dwell_started_at
        self.row_at = row_at
        self.row_seq = row_seq
        self.row_rule = row_rule
        self.history_rows = history_rows


class StayRow(NamedTuple):
    """A stored history row with the end of its stay."""

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


def row_of_step(position_no: int, step: Step, heard: Heard, seq: int = 0) -> NewRow:
    delay, quality, rssi = heard.delay, heard.quality, _tenths(heard.rssi)
    return (position_no, step.observed_at, seq, 0, heard.source_no, delay, quality, rssi, step.rule)


def _tenths(rssi: float | None) -> int | None:
    return None if rssi is None else round(rssi * 10)


def scan_of(asset_id: int, heard: Heard) -> Scan:
    """The scan that a read became."""
    organization_id, location_id, reader_id, port = execute(
        "SELECT organization_id, location_id, reader_id, port FROM source WHERE no = ?", (heard.source_no,)
    ).fetchone()
    at, weight = heard.last_at, Weight(heard.weight)
    return Scan(
        organization_id, asset_id, location_id, reader_id, port, at, at + heard.delay, Quality(heard.quality),
        heard.rssi, weight,
    )  # fmt: skip


def load_positions(asset_ids: set[int]) -> dict[int, Position]:
    found = execute(
        "SELECT asset_id, no, location_id, last_seen_at, dwell_started_at, row_at, row_seq, row_rule, history_rows "
        "FROM track WHERE site_no IS NULL AND asset_id IN (SELECT value FROM json_each(?))",
        (json.dumps(list(asset_ids)),),
    )
    return {asset_id: Position(*columns) for asset_id, *columns in found}


def write_positions(positions: Sequence[Position]) -> None:
    execute_many(
        "UPDATE track SET last_seen_at = ?, dwell_started_at = ?, row_at = ?, row_seq = ?, row_rule = ?, "
        "history_rows = ? WHERE no = ?",
        [
            (p.last_seen_at, p.dwell_started_at, p.row_at, p.row_seq, p.row_rule, p.history_rows, p.no)
            for p in positions
        ],
    )
    moved = [p for p in positions if p.location_id != p.stored_location_id]
    execute_many("UPDATE track SET location_id = ? WHERE no = ?", [(p.location_id, p.no) for p in moved])
    for position in moved:
        position.stored_location_id = position.location_id


class ScanSource(NamedTuple):
    """An antenna as it was placed, or people at a location. On a hub the last three are of one of its sites.

    `remote_person` without a site is somebody who used this box before it was recovered from its hub.
    """

    location_id: int
    reader_id: int | None = None
    port: int | None = None
    site_no: int | None = None
    remote_reader: int | None = None
    remote_person: int | None = None


def number_of(organization_id: int, source: ScanSource) -> int:
    """The number of a source, assigned when it is first asked for. Within the caller's transaction."""
    found = execute(_FIND, source).fetchone() or execute(_ADD, (organization_id, *source)).fetchone()
    number: int = found[0]
    return number


# As the unique index `source_origin` has it.
_FIND = """
SELECT no FROM source WHERE location_id = ? AND ifnull(reader_id, 0) = ifnull(?, 0)
AND ifnull(port, -1) = ifnull(?, -1) AND ifnull(site_no, 0) = ifnull(?, 0)
AND ifnull(remote_reader, 0) = ifnull(?, 0) AND ifnull(remote_person, 0) = ifnull(?, 0)
"""
_ADD = """
INSERT INTO source (organization_id, location_id, reader_id, port, site_no, remote_reader, remote_person)
VALUES (?, ?, ?, ?, ?, ?, ?) RETURNING no
"""
