"""Correct history where an antenna had a wrong location: its reads become reads at the right one.

Only what fixed readers read is corrected. Stays that turn out to be at one location are joined, and current location,
dwell and what is on carriers follow. It is done in slices of a few hundred rows, so that no other write waits long.
After an interruption, the same correction does what is left. Nothing is corrected by itself, because an antenna that
was moved and one whose setting was wrong look the same; see `edge.readers.correction_offers`.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Collection, Iterator, Mapping
from contextlib import closing
from struct import Struct
from typing import NamedTuple

from edge.audit.actors import Actor
from edge.audit.audit import Subject, acting
from edge.clock import rfc3339
from edge.database.connection import execute, execute_many, writing
from edge.errors import Invalid, NotFound
from edge.readers.readers import get_reader
from edge.records import locations
from edge.tracking import late_reads
from edge.tracking.late_reads import RowCount, relocate
from edge.tracking.stays import ScanSource, load_positions, number_of, write_positions

ROWS = 100  # of history; a transaction ends once it has gone through as many, so it goes through less than twice that
READ_BYTES = 1024 * 1024  # of recent reads, after which a transaction ends: some 20 ms
PAUSE_SECONDS = 0.01  # between transactions: other writers go first
_TRACKS_AT_ONCE = 1_000
_ROWS_AT_ONCE = 50_000  # looked at by one statement, unless one asset has more
MOST_ROWS_OF_REQUEST = 2_000  # changed in one request; above it, the command does it
_MOST_GONE_THROUGH = 20_000  # rows in that time of the assets that change, in one request
_MOST_LOOKED_AT = 500_000  # rows in that time of all assets, in one request
_READ = Struct("<qqidBBIq")  # as in edge.tracking.recent_reads: asset, moment, source, ...


class Correction(NamedTuple):
    """`port` is None for all antennas of the reader. Both ends of the time are included."""

    reader_id: int
    port: int | None
    from_location_id: int
    to_location_id: int
    since: int
    until: int


class Preview(NamedTuple):
    """How many rows of history would change, of how many assets, and how many of these are there now.

    If it is too large for a request, a bounded preview ends there, and the numbers are what was counted so far.
    """

    rows: int
    assets: int
    current: int
    is_too_large: bool = False


def preview(organization_id: int, correction: Correction, *, is_bounded: bool = False) -> Preview:
    """Count what would change. `is_bounded` for a request. Raises NotFound, Invalid."""
    _check(organization_id, correction)
    rows = assets = current = gone_through = looked_at = 0
    for looked, wrong in _wrong_rows(organization_id, correction, _old_sources(organization_id, correction)):
        looked_at += looked
        rows += sum(one.rows for one in wrong)
        assets += len(wrong)
        current += sum(one.current for one in wrong)
        gone_through += sum(one.all_rows for one in wrong)
        is_large = rows > MOST_ROWS_OF_REQUEST or gone_through > _MOST_GONE_THROUGH or looked_at > _MOST_LOOKED_AT
        if is_bounded and is_large:
            return Preview(rows, assets, current, is_too_large=True)
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
    for _, wrong in _wrong_rows(organization_id, correction, renamed):
        _correct_assets([one.asset_id for one in wrong], correction, renamed, gap)
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


def _wrong_rows(
    organization_id: int, correction: Correction, old_sources: Collection[int]
) -> Iterator[tuple[int, list[RowCount]]]:
    """How many rows were looked at, and the assets with wrong ones, a bounded number at a time."""
    if not old_sources:
        return
    after = 0
    while found := late_reads.tracks_since(organization_id, after, correction.since, _TRACKS_AT_ONCE):
        numbers = _first_tracks(found)
        counted = late_reads.count_rows(numbers, old_sources, correction.since, correction.until)
        yield sum(one.all_rows for one in counted), [one for one in counted if one.rows]
        after = numbers[-1]


def _first_tracks(tracks: list[tuple[int, int]]) -> list[int]:
    """As many as have `_ROWS_AT_ONCE` rows together, at least one."""
    numbers: list[int] = []
    rows = 0
    for no, history_rows in tracks:
        rows += history_rows
        if numbers and rows > _ROWS_AT_ONCE:
            break
        numbers.append(no)
    return numbers


def _correct_assets(asset_ids: Collection[int], correction: Correction, renamed: Mapping[int, int], gap: int) -> None:
    waiting = deque((asset_id, correction.since) for asset_id in asset_ids)
    while waiting:
        with writing():
            rows = 0
            while waiting and rows < ROWS:
                asset_id, since = waiting.popleft()
                next_since, count = _correct_asset(asset_id, since, correction, renamed, gap)
                rows += count
                if next_since is not None:
                    waiting.appendleft((asset_id, next_since))
        time.sleep(PAUSE_SECONDS)


def _correct_asset(
    asset_id: int, since: int, correction: Correction, renamed: Mapping[int, int], gap: int
) -> tuple[int | None, int]:
    """Correct up to ROWS rows. Returns the time from which to go on, and how many rows it went through."""
    position = load_positions({asset_id}).get(asset_id)
    if position is None:
        return None, 0
    found = relocate(position, since, correction.until, renamed, gap, ROWS)
    write_positions([position])
    execute(
        "UPDATE carrier_load SET location_id = ?1 WHERE carrier_id = ?2 AND unloaded_at IS NULL AND location_id = ?3",
        (position.location_id, asset_id, correction.from_location_id),
    )
    return found


def _correct_recent_reads(correction: Correction, renamed: Mapping[int, int]) -> None:
    """Reads that positions are still decided from."""
    after = 0
    while True:
        with writing():
            found = _next_batches(after, correction.since)
            execute_many(
                "UPDATE recent_read SET reads = ? WHERE no = ?",
                [(_renamed(reads, correction, renamed), no) for no, reads in found],
            )
            if not found:
                execute("UPDATE version SET recent_reads = recent_reads + 1")
        if not found:
            return
        after = found[-1][0]
        time.sleep(PAUSE_SECONDS)


def _next_batches(after: int, since: int) -> list[tuple[int, bytes]]:
    """Number and reads of as many batches after one as make `READ_BYTES`, at least one if there is one."""
    found: list[tuple[int, bytes]] = []
    size = 0
    with closing(execute(_BATCHES, (after, since))) as batches:
        for no, reads in batches:
            found.append((no, reads))
            size += len(reads)
            if size >= READ_BYTES:
                break
    return found


def _renamed(reads: bytes, correction: Correction, renamed: Mapping[int, int]) -> bytes:
    packed = []
    for asset_id, at, source_no, *rest in _READ.iter_unpack(reads):
        if correction.since <= at <= correction.until:
            source_no = renamed.get(source_no, source_no)
        packed.append(_READ.pack(asset_id, at, source_no, *rest))
    return b"".join(packed)


_BATCHES = "SELECT no, reads FROM recent_read WHERE no > ? AND until >= ? ORDER BY no"
