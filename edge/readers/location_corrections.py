"""Correct the recorded location of an antenna's reads after it had a wrong setting.

Only reads of fixed readers are corrected. Adjacent stays at the same location are joined, and current location, dwell
and the contents of carriers are updated. Each transaction handles a few hundred rows, so other writers never wait long.
An interrupted correction can be repeated. Corrections are never automatic: see `edge.readers.correction_offers`.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

from edge.audit.actors import Actor
from edge.audit.audit import Subject, acting
from edge.clock import rfc3339
from edge.database.connection import execute, execute_many, writing
from edge.errors import Invalid, NotFound
from edge.readers.readers import get_reader
from edge.records import locations
from edge.texts import N_
from edge.tracking import late_reads
from edge.tracking.late_reads import RowCount, relocate
from edge.tracking.recent_reads import READ, stored_reads
from edge.tracking.stays import ScanSource, load_positions, number_of, write_positions

ROWS = 100  # a transaction ends after this many rows of history and has at most twice as many
READ_BYTES = 1024 * 1024  # a transaction ends after this many bytes of recent reads, about 20 ms
PAUSE_SECONDS = 0.01  # pause between transactions, for other writers
_TRACKS_AT_ONCE = 1_000
_ROWS_AT_ONCE = 50_000  # maximum rows read by one statement, unless a single asset has more
MOST_ROWS_OF_REQUEST = 2_000  # maximum rows changed by one request; larger corrections need the command
_MOST_AFFECTED = 20_000  # maximum rows of the affected assets in the period, for one request
_MOST_SCANNED = 500_000  # maximum rows of all assets in the period, for one request


class Correction(NamedTuple):
    """A correction of the reads from `since` to `until`, both inclusive. `port` None: all antennas of the reader."""

    reader_id: int
    port: int | None
    from_location_id: int
    to_location_id: int
    since: int
    until: int


class Preview(NamedTuple):
    """Effect of a correction: changed rows, affected assets, and affected current locations.

    `is_too_large`: counting stopped at the limit for a request; the numbers are lower bounds.
    """

    rows: int
    assets: int
    current: int
    is_too_large: bool = False


def preview(organization_id: int, correction: Correction, *, is_bounded: bool = False) -> Preview:
    """Count the effect of a correction. `is_bounded`: stop at the limit for a request. Raises NotFound, Invalid."""
    _check(organization_id, correction)
    rows = assets = current = affected_rows = scanned_rows = 0
    for scanned, wrong in _wrong_rows(organization_id, correction, _old_sources(organization_id, correction)):
        scanned_rows += scanned
        rows += sum(asset.rows for asset in wrong)
        assets += len(wrong)
        current += sum(asset.current for asset in wrong)
        affected_rows += sum(asset.all_rows for asset in wrong)
        is_large = rows > MOST_ROWS_OF_REQUEST or affected_rows > _MOST_AFFECTED or scanned_rows > _MOST_SCANNED
        if is_bounded and is_large:
            return Preview(rows, assets, current, is_too_large=True)
    return Preview(rows, assets, current)


def correct(actor: Actor, correction: Correction, gap: int) -> Preview:
    """Apply a correction and return its preview. `gap`: microseconds, see `record`. Raises NotFound, Invalid."""
    organization_id = actor.organization_id
    effect = preview(organization_id, correction)
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
                "rows": effect.rows,
                "assets": effect.assets,
            },
        )
        renamed = {
            no: number_of(organization_id, ScanSource(correction.to_location_id, correction.reader_id, port))
            for no, port in _old_sources(organization_id, correction).items()
        }
    _correct_recent_reads(correction, renamed)
    for _, wrong in _wrong_rows(organization_id, correction, renamed):
        _correct_assets([asset.asset_id for asset in wrong], correction, renamed, gap)
    return effect


def _check(organization_id: int, correction: Correction) -> None:
    get_reader(organization_id, correction.reader_id)
    locations.get(organization_id, correction.to_location_id)
    _name_of(organization_id, correction.from_location_id)
    if correction.from_location_id == correction.to_location_id:
        raise Invalid.one("right", "invalid_value", N_("Both locations are the same. Choose another one"))
    if correction.since > correction.until:
        raise Invalid.one("until", "invalid_value", N_("The end is before the beginning"))


def _name_of(organization_id: int, location_id: int) -> str:
    """Return the name of a live or deleted location. Raises NotFound."""
    sql = "SELECT name FROM location WHERE id = ? AND organization_id = ?"
    row = execute(sql, (location_id, organization_id)).fetchone()
    if row is None:
        raise NotFound("location not found")
    name: str = row[0]
    return name


def _old_sources(organization_id: int, correction: Correction) -> dict[int, int | None]:
    """Return {number: port} of the sources with the wrong location."""
    rows = execute(
        "SELECT no, port FROM source WHERE organization_id = ? AND reader_id = ? AND location_id = ? "
        "AND (?4 IS NULL OR ifnull(port, 0) = ?4) AND site_no IS NULL",
        (organization_id, correction.reader_id, correction.from_location_id, correction.port),
    )
    return dict(rows.fetchall())


def _wrong_rows(
    organization_id: int, correction: Correction, old_sources: Collection[int]
) -> Iterator[tuple[int, list[RowCount]]]:
    """Yield the number of scanned rows and the assets with wrong ones, for a limited number of tracks at a time."""
    if not old_sources:
        return
    after = 0
    while tracks := late_reads.tracks_since(organization_id, after, correction.since, _TRACKS_AT_ONCE):
        numbers = _first_tracks(tracks)
        counted = late_reads.count_rows(numbers, old_sources, correction.since, correction.until)
        yield sum(asset.all_rows for asset in counted), [asset for asset in counted if asset.rows]
        after = numbers[-1]


def _first_tracks(tracks: list[tuple[int, int]]) -> list[int]:
    """Return the first tracks with at most `_ROWS_AT_ONCE` rows in total, at least one."""
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
    """Correct up to `ROWS` rows. Returns the time at which to continue (None: done), and the number of rows."""
    position = load_positions({asset_id}).get(asset_id)
    if position is None:
        return None, 0
    progress = relocate(position, since, correction.until, renamed, gap, ROWS)
    write_positions([position])
    execute(
        "UPDATE carrier_load SET location_id = ?1 WHERE carrier_id = ?2 AND unloaded_at IS NULL AND location_id = ?3",
        (position.location_id, asset_id, correction.from_location_id),
    )
    return progress


def _correct_recent_reads(correction: Correction, renamed: Mapping[int, int]) -> None:
    """Correct the source of the recent reads, which later decisions use."""
    after = 0
    while True:
        with writing():
            batches = _next_batches(after, correction.since)
            execute_many(
                "UPDATE recent_read SET reads = ?, packed = x'' WHERE no = ?",
                [(_renamed(reads, correction, renamed), no) for no, reads in batches],
            )
            if not batches:
                execute("UPDATE version SET recent_reads = recent_reads + 1")
        if not batches:
            return
        after = batches[-1][0]
        time.sleep(PAUSE_SECONDS)


def _next_batches(after: int, since: int) -> list[tuple[int, bytes]]:
    """Return (number, reads) of the batches after a number, about `READ_BYTES`, at least one if there is one."""
    batches: list[tuple[int, bytes]] = []
    size = 0
    for no in execute(_BATCHES, (after, since)).fetchall():
        batches += [(*no, reads) for reads in stored_reads("no = ?", no)]
        size += len(batches[-1][1])
        if size >= READ_BYTES:
            break
    return batches


def _renamed(reads: bytes, correction: Correction, renamed: Mapping[int, int]) -> bytes:
    packed = []
    for asset_id, at, source_no, *rest in READ.iter_unpack(reads):
        if correction.since <= at <= correction.until:
            source_no = renamed.get(source_no, source_no)
        packed.append(READ.pack(asset_id, at, source_no, *rest))
    return b"".join(packed)


_BATCHES = "SELECT no FROM recent_read WHERE no > ? AND until >= ? ORDER BY no LIMIT 1000"
