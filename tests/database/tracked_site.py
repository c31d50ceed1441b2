"""Records reads of an asset at three places in batches, and returns the resulting history."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import pairwise
from typing import NamedTuple

from edge.audit.actors import shell
from edge.clock import SECOND
from edge.database.connection import execute, writing
from edge.readers import readers
from edge.records import assets, locations
from edge.tracking.decision_rule import Rule
from edge.tracking.positions import record, record_by_person, settle
from edge.tracking.recent_reads import RecentReads, Sign
from edge.tracking.signal_strength import Weight
from edge.tracking.stays import Quality, Scan

GAP = 300 * SECOND
START = 1_772_439_330 * SECOND
A, B, C = 0, 1, 2


class Read(NamedTuple):
    """A read at tenths of a second; `weight` is None for a person's scan."""

    tenths: int
    place: int
    rssi: float | None = -55.0
    weight: Weight | None = Weight.RFID_ZONE


class Row(NamedTuple):
    tenths: int
    place: int
    stayed: int
    rule: Rule


class Site(NamedTuple):
    """A site with three places. `reader_ids` has the reader of each place."""

    organization_id: int
    reader_ids: list[int]
    places: list[int]

    def new_asset(self) -> int:
        return assets.create(shell(self.organization_id), name="pallet").id

    def scan(self, asset_id: int, read: Read) -> Scan:
        at = START + read.tenths * SECOND // 10
        reader_id = None if read.weight is None else self.reader_ids[read.place]
        return Scan(
            self.organization_id, asset_id, self.places[read.place], reader_id, None, at, at, Quality.READER, read.rssi,
            read.weight or Weight.RFID_ZONE,
        )  # fmt: skip

    def history(self, asset_id: int) -> list[Row]:
        rows = execute(
            "SELECT h.observed_at, s.location_id, iif((h.observed_at, h.seq) = (t.row_at, t.row_seq), "
            "t.last_seen_at - h.observed_at, h.seen_for), h.rule FROM history h "
            "JOIN source s ON s.no = h.source_no JOIN track t ON t.no = h.position_no "
            "WHERE t.asset_id = ? ORDER BY h.observed_at, h.seq",
            (asset_id,),
        )
        return [
            Row((at - START) * 10 // SECOND, self.places.index(place), stayed * 10 // SECOND, Rule(rule))
            for at, place, stayed, rule in rows
        ]

    def moves(self, asset_id: int) -> list[tuple[int, int]]:
        """Return (second, place) of each move."""
        return [(row.tenths // 10, row.place) for row in self.history(asset_id)]

    def position(self, asset_id: int) -> tuple[int, ...]:
        position: tuple[int, ...] = execute(
            "SELECT location_id, last_seen_at, dwell_started_at, row_at, row_seq, row_rule, history_rows, "
            "(SELECT count(*) FROM history WHERE position_no = no) FROM track WHERE asset_id = ?",
            (asset_id,),
        ).fetchone()
        return position


def make_site(organization_id: int, count: int = 1) -> Site:
    """Create a site with one reader for all places, or one per place."""
    actor = shell(organization_id)
    places = [locations.create(actor, name=f"Place {number}").id for number in range(3)]
    ids = [
        readers.add_reader(
            actor,
            name=f"dock {count}{number}",
            topic=f"site/dock{count}{number}",
            format="csl",
            location_id=places[number],
        ).id
        for number in range(count)
    ]
    return Site(organization_id, [ids[number % count] for number in range(3)], places)


def tell(
    site: Site,
    reads: Sequence[Read],
    cuts: Sequence[int] = (),
    asset_id: int = 0,
    gap: int = GAP,
    recent: RecentReads | None = None,
    until: float = 1e9,
    signs: Collection[Sign] = (),
) -> int:
    """Record reads in batches split at `cuts`, then settle up to a second. Returns the asset."""
    asset_id = asset_id or site.new_asset()
    recent = recent or RecentReads()
    _record((), gap, recent, signs)
    edges = [0, *sorted(cut for cut in cuts if cut < len(reads)), len(reads)]
    for begin, end in pairwise(edges):
        batch: list[Scan] = []
        for read in reads[begin:end]:
            if read.weight is None:
                _record(batch, gap, recent)
                batch = []
                record_by_person(site.scan(asset_id, read))
            else:
                batch.append(site.scan(asset_id, read))
        _record(batch, gap, recent)
    settle_until(recent, until, gap)
    return asset_id


def _record(batch: Sequence[Scan], gap: int, recent: RecentReads, signs: Collection[Sign] = ()) -> None:
    """Record a batch as ingest does."""
    with writing():
        recent.refresh()
        record(batch, gap, recent, signs, START)
        recent.done()


def every(start: float, stop: float, step: float, place: int, rssi: float | None = -55.0,
          weight: Weight = Weight.RFID_ZONE) -> list[Read]:  # fmt: skip
    count = round((stop - start) / step)
    return [Read(round((start + number * step) * 10), place, rssi, weight) for number in range(count)]


def settle_until(recent: RecentReads, until: float, gap: int = GAP) -> None:
    """Settle up to a second after the start."""
    with writing():
        recent.refresh()
        settle(recent, gap, START // SECOND + int(until))
        recent.done()
