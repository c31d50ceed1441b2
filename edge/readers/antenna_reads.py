"""What the antennas of a reader read in the last minutes: how much, how strongly, and what others read as well.

It uses the reads that positions are decided from (`recent_reads`), so it costs ingest nothing. Those are reads of tags
that belong to assets, by antennas that have a location; with smoothing, within one second at one location only those
that added something.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from itertools import islice
from statistics import median
from typing import NamedTuple

from edge import clock
from edge.clock import SECOND
from edge.database.connection import execute, reading
from edge.readers.readers import get_reader
from edge.tracking import recent_reads

LOOKED_BACK = 300 * SECOND
MOST_READS = 100_000  # that are looked at; at a busy site, the last minute or two
MOST_SHARED = 50
STEP = 5  # dBm in one bar
WEAKEST, STRONGEST = -95, -25  # what lies beyond counts in the last bar


class Antenna(NamedTuple):
    """`strengths` counts reads from `WEAKEST` up in steps of `STEP` dBm; `usual` is the median, if any is reported."""

    label: str
    location_name: str
    reads: int
    per_second: float
    assets: int
    usual: float | None
    strengths: Sequence[int]


class Shared(NamedTuple):
    """Two antennas that read the same assets. The first belongs to the reader; `stronger` counts where it was stronger.

    `stronger` is None where one of the two does not report strengths.
    """

    label: str
    other: str
    assets: int
    stronger: int | None


class Work(NamedTuple):
    seconds: int  # that are covered
    antennas: Sequence[Antenna]
    shared: Sequence[Shared]


class _Source(NamedTuple):
    reader_id: int
    reader_name: str
    antenna: str
    location_name: str


class _Tally:
    """What one antenna read: how often, which assets, and how strongly each at best."""

    def __init__(self) -> None:
        self.reads = 0
        self.strengths: list[float] = []
        self.best: dict[int, float | None] = {}

    def add(self, asset_id: int, rssi: float | None) -> None:
        self.reads += 1
        before = self.best.get(asset_id)
        if rssi is not None:
            self.strengths.append(rssi)
        self.best[asset_id] = before if rssi is None or (before is not None and before > rssi) else rssi


def antenna_work(organization_id: int, reader_id: int) -> Work:
    """Raises NotFound."""
    now = clock.now()
    with reading():
        get_reader(organization_id, reader_id)
        sources = {no: _Source(*rest) for no, *rest in execute(_SOURCES, (organization_id,))}
        tallies: dict[int, _Tally] = {}
        earliest = now
        for asset_id, at, source_no, rssi in islice(recent_reads.newest_first(now - LOOKED_BACK), MOST_READS):
            if source_no in sources:
                earliest = min(earliest, at)
                tallies.setdefault(source_no, _Tally()).add(asset_id, rssi)
    seconds = max(1, (now - max(earliest, now - LOOKED_BACK)) // SECOND)
    own = {no for no in tallies if sources[no].reader_id == reader_id}
    antennas = [_antenna(sources[no], tallies[no], seconds) for no in own]
    return Work(seconds, sorted(antennas, key=lambda one: _in_order(one.label)), _shared(own, sources, tallies))


def _antenna(source: _Source, tally: _Tally, seconds: int) -> Antenna:
    strengths = tally.strengths
    return Antenna(
        source.antenna,
        source.location_name,
        tally.reads,
        tally.reads / seconds,
        len(tally.best),
        median(strengths) if strengths else None,
        _histogram(strengths),
    )


def _histogram(strengths: Sequence[float]) -> list[int]:
    counts = Counter(int((min(max(one, WEAKEST), STRONGEST - 1) - WEAKEST) // STEP) for one in strengths)
    return [counts[number] for number in range((STRONGEST - WEAKEST) // STEP)]


def _shared(own: set[int], sources: dict[int, _Source], tallies: dict[int, _Tally]) -> list[Shared]:
    """The pairs that share most come first. A pair of the reader's own antennas is listed once."""
    found = []
    for no in own:
        for other in tallies:
            if other == no or (other in own and other < no):
                continue
            best, others = tallies[no].best, tallies[other].best
            both = best.keys() & others.keys()
            if both:
                pairs = [(best[asset_id], others[asset_id]) for asset_id in both]
                told = [(here, there) for here, there in pairs if here is not None and there is not None]
                stronger = sum(here > there for here, there in told) if len(told) == len(pairs) else None
                found.append(Shared(sources[no].antenna, _name(sources[other], other in own), len(both), stronger))
    found.sort(key=lambda one: (-one.assets, _in_order(one.label), _in_order(one.other)))
    return found[:MOST_SHARED]


def _in_order(label: str) -> list[tuple[str, int]]:
    """To sort by: antenna 2 comes before antenna 10."""
    return [(text, int(digits or 0)) for text, digits in re.findall("([^0-9]+|^)([0-9]*)", label)]


def _name(source: _Source, is_own: bool) -> str:
    return source.antenna if is_own else f"{source.reader_name}, {source.antenna}"


_SOURCES = """
SELECT s.no, r.id, r.name, coalesce(n.name, 'antenna ' || nullif(s.port, 0), 'its only antenna'), l.name FROM source s
JOIN reader r ON r.id = s.reader_id AND r.organization_id = s.organization_id
JOIN location l ON l.id = s.location_id
LEFT JOIN antenna_name n ON n.reader_id = s.reader_id AND n.port = s.port
WHERE s.organization_id = ? AND s.site_no IS NULL
"""
