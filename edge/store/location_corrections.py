"""Correct history where an antenna had a wrong location: its reads become reads at the right one.

Only what fixed readers read is corrected. Stays that turn out to be at one location are joined, and current location,
dwell and what is on carriers follow. It is done in slices, one asset and `ROWS` rows at a time, so that no other write
waits long. After an interruption, the same correction does what is left.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from struct import Struct
from typing import NamedTuple

from edge.clock import rfc3339
from edge.errors import Invalid, NotFound
from edge.store import locations
from edge.store.actors import Actor
from edge.store.audit import Subject, acting
from edge.store.database import execute, execute_many, writing
from edge.store.readers import get_reader
from edge.store.sources import ScanSource, number_of
from edge.store.stay_changes import relocate
from edge.store.stays import load_positions, write_positions

ROWS = 200  # of one asset, in one transaction
BATCHES = 20  # of recent reads, in one transaction
_READ = Struct("<qqidBBIq")  # as in edge.store.recent_reads: asset, moment, source, ...


class Correction(NamedTuple):
    """`port` is None for all antennas of the reader. Both ends of the time are included."""

    reader_id: int
    port: int | None
    from_location_id: int
    to_location_id: int
    since: int
    until: int


class Preview(NamedTuple):
    """How many rows of history would change, of how many assets, and how many of these are there now."""

    rows: int
    assets: int
    current: int


def preview(organization_id: int, correction: Correction) -> Preview:
    """Raises NotFound, Invalid."""
    _check(organization_id, correction)
    sources = json.dumps(list(_old_sources(organization_id, correction)))
    rows, assets = execute(_COUNT, (sources, correction.since, correction.until)).fetchone()
    current = execute(_COUNT_CURRENT, (sources, correction.since, correction.until)).fetchone()[0]
    return Preview(rows, assets, current)


def correct(actor: Actor, correction: Correction, gap: int) -> Preview:
    """Do it, and return what `preview` said. `gap` as in `scans.record`. Raises NotFound, Invalid."""
    organization_id = actor.organization_id
    found = preview(organization_id, correction)
    with acting(actor) as act:
        reader = get_reader(organization_id, correction.reader_id)
        old = _name_of(organization_id, correction.from_location_id)
        new = locations.get(organization_id, correction.to_location_id).name
        act.note(
            "reader.history_corrected",
            Subject("reader", reader.id, reader.name),
            {
                "port": correction.port,
                "location": {"old": old, "new": new},
                "since": rfc3339(correction.since),
                "until": rfc3339(correction.until),
                "rows": found.rows,
                "assets": found.assets,
            },
        )
        renamed = {
            no: number_of(organization_id, ScanSource(correction.to_location_id, correction.reader_id, port))
            for no, port in _old_sources(organization_id, correction).items()
        }
    _correct_recent_reads(correction, renamed)
    sources = json.dumps(list(renamed))
    for (asset_id,) in execute(_ASSETS, (sources, correction.since, correction.until)).fetchall():
        _correct_asset(asset_id, correction, renamed, gap)
    return found


def _check(organization_id: int, correction: Correction) -> None:
    get_reader(organization_id, correction.reader_id)
    locations.get(organization_id, correction.to_location_id)
    _name_of(organization_id, correction.from_location_id)
    if correction.from_location_id == correction.to_location_id:
        raise Invalid.one("right", "invalid_value", "Both locations are the same: name the right one")
    if correction.since > correction.until:
        raise Invalid.one("until", "invalid_value", "The end is before the beginning")


def _name_of(organization_id: int, location_id: int) -> str:
    """Of a live or deleted location. Raises NotFound."""
    sql = "SELECT name FROM location WHERE id = ? AND organization_id = ?"
    found = execute(sql, (location_id, organization_id)).fetchone()
    if found is None:
        raise NotFound("location not found")
    name: str = found[0]
    return name


def _old_sources(organization_id: int, correction: Correction) -> dict[int, int | None]:
    """Number -> port of the sources that had the wrong location."""
    found = execute(
        "SELECT no, port FROM source WHERE organization_id = ? AND reader_id = ? AND location_id = ? "
        "AND (?4 IS NULL OR ifnull(port, 0) = ?4) AND site_no IS NULL",
        (organization_id, correction.reader_id, correction.from_location_id, correction.port),
    )
    return dict(found.fetchall())


def _correct_asset(asset_id: int, correction: Correction, renamed: Mapping[int, int], gap: int) -> None:
    since: int | None = correction.since
    while since is not None:
        with writing():
            position = load_positions({asset_id}).get(asset_id)
            if position is None:
                return
            since = relocate(position, since, correction.until, renamed, gap, ROWS)
            write_positions([position])
            execute(
                "UPDATE carrier_load SET location_id = ?1 WHERE carrier_id = ?2 AND unloaded_at IS NULL "
                "AND location_id = ?3",
                (position.location_id, asset_id, correction.from_location_id),
            )


def _correct_recent_reads(correction: Correction, renamed: Mapping[int, int]) -> None:
    """Reads that positions are still decided from."""
    after = 0
    while True:
        with writing():
            found = execute(
                "SELECT no, reads FROM recent_read WHERE no > ? AND until >= ? ORDER BY no LIMIT ?",
                (after, correction.since, BATCHES),
            ).fetchall()
            execute_many(
                "UPDATE recent_read SET reads = ? WHERE no = ?",
                [(_renamed(reads, correction, renamed), no) for no, reads in found],
            )
            if not found:
                execute("UPDATE version SET recent_reads = recent_reads + 1")
        if not found:
            return
        after = found[-1][0]


def _renamed(reads: bytes, correction: Correction, renamed: Mapping[int, int]) -> bytes:
    packed = []
    for asset_id, at, source_no, *rest in _READ.iter_unpack(reads):
        if correction.since <= at <= correction.until:
            source_no = renamed.get(source_no, source_no)
        packed.append(_READ.pack(asset_id, at, source_no, *rest))
    return b"".join(packed)


_CHANGED = (
    "FROM history h JOIN track t ON t.no = h.position_no AND t.site_no IS NULL "
    "WHERE h.source_no IN (SELECT value FROM json_each(?)) AND h.observed_at BETWEEN ? AND ?"
)
_COUNT = f"SELECT count(*), count(DISTINCT t.asset_id) {_CHANGED}"
_COUNT_CURRENT = f"SELECT count(*) {_CHANGED} AND h.observed_at = t.row_at AND h.seq = t.row_seq"
_ASSETS = f"SELECT DISTINCT t.asset_id {_CHANGED}"
