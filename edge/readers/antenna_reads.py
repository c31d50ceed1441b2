"""Activity of a reader's antennas in the last minutes: number of reads, signal strength, overlap with other antennas.

Computed from `recent_reads`, so it costs ingest nothing. That table has reads of assets by antennas with a location.
With smoothing, it has only the strongest reads of each second and location.
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
from edge.database.connection import are_people_hidden, execute, reading
from edge.readers.readers import get_reader
from edge.texts import fill
from edge.tracking import recent_reads, tracked_people
from edge.tracking.antenna_names import label

LOOKED_BACK = 300 * SECOND
MOST_READS = 100_000  # maximum number evaluated; one or two minutes at a busy site
MOST_SHARED = 50
STEP = 5  # dBm per bar of the histogram
WEAKEST, STRONGEST = -95, -25  # dBm; reads outside this range count in the first or last bar


class Antenna(NamedTuple):
    """Activity of one antenna. `usual`: median RSSI in dBm. `strengths`: histogram, `STEP` dBm per bar."""

    label: str
    location_name: str
    reads: int
    per_second: float
    assets: int
    usual: float | None
    strengths: Sequence[int]


class Shared(NamedTuple):
    """Two antennas that read the same assets. The first one belongs to the reader.

    `stronger`: number of assets read more strongly by the first, None if an antenna does not report RSSI.
    """

    label: str
    other: str
    assets: int
    stronger: int | None


class AntennaActivity(NamedTuple):
    seconds: int  # evaluated time
    antennas: Sequence[Antenna]
    shared: Sequence[Shared]


class Source(NamedTuple):
    """An antenna of a live reader, and the location where it reads."""

    reader_id: int
    reader_name: str
    location_id: int
    location_name: str
    port: int | None
    antenna: str


def sources_of(organization_id: int) -> dict[int, Source]:
    """Return the sources of recent reads by number."""
    return {
        no: Source(reader_id, reader_name, location_id, location_name, port, label(antenna_name, port))
        for no, reader_id, reader_name, location_id, location_name, port, antenna_name in execute(
            _SOURCES, (organization_id,)
        )
    }


class _Tally:
    """Reads of one antenna: their number, RSSI values, and the best RSSI of each asset."""

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


def antenna_activity(organization_id: int, reader_id: int) -> AntennaActivity:
    """Return the activity of the antennas of a reader. Raises NotFound."""
    now = clock.now()
    with reading():
        get_reader(organization_id, reader_id)
        sources = sources_of(organization_id)
        reads = list(islice(recent_reads.newest_first(now - LOOKED_BACK), MOST_READS))
        hidden = tracked_people.among({asset_id for asset_id, *_ in reads}) if are_people_hidden() else set()
        tallies: dict[int, _Tally] = {}
        earliest = now
        for asset_id, at, source_no, rssi in reads:
            if source_no in sources and asset_id not in hidden:
                earliest = min(earliest, at)
                tallies.setdefault(source_no, _Tally()).add(asset_id, rssi)
    seconds = max(1, (now - max(earliest, now - LOOKED_BACK)) // SECOND)
    own = {no for no in tallies if sources[no].reader_id == reader_id}
    antennas = [_antenna(sources[no], tallies[no], seconds) for no in own]
    antennas.sort(key=lambda antenna: _natural_order(antenna.label))
    return AntennaActivity(seconds, antennas, _shared(own, sources, tallies))


def _antenna(source: Source, tally: _Tally, seconds: int) -> Antenna:
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
    counts = Counter(int((min(max(rssi, WEAKEST), STRONGEST - 1) - WEAKEST) // STEP) for rssi in strengths)
    return [counts[number] for number in range((STRONGEST - WEAKEST) // STEP)]


def _shared(own: set[int], sources: dict[int, Source], tallies: dict[int, _Tally]) -> list[Shared]:
    """Return pairs of antennas, most shared assets first. A pair of the reader's own antennas appears once."""
    pairs = []
    for no in own:
        for other in tallies:
            if other == no or (other in own and other < no):
                continue
            best, others = tallies[no].best, tallies[other].best
            both = best.keys() & others.keys()
            if both:
                strengths = [(best[asset_id], others[asset_id]) for asset_id in both]
                known = [(here, there) for here, there in strengths if here is not None and there is not None]
                stronger = sum(here > there for here, there in known) if len(known) == len(strengths) else None
                pairs.append(Shared(sources[no].antenna, _name(sources[other], other in own), len(both), stronger))
    pairs.sort(key=lambda pair: (-pair.assets, _natural_order(pair.label), _natural_order(pair.other)))
    return pairs[:MOST_SHARED]


def _natural_order(label: str) -> list[tuple[str, int]]:
    """Return a sort key that puts antenna 2 before antenna 10."""
    return [(text, int(digits or 0)) for text, digits in re.findall("([^0-9]+|^)([0-9]*)", label)]


def _name(source: Source, is_own: bool) -> str:
    return (
        source.antenna if is_own else fill("%(reader)s, %(antenna)s", reader=source.reader_name, antenna=source.antenna)
    )


_SOURCES = """
SELECT s.no, r.id, r.name, l.id, l.name, s.port, n.name FROM source s
JOIN reader r ON r.id = s.reader_id AND r.organization_id = s.organization_id AND r.deleted_at IS NULL
JOIN location l ON l.id = s.location_id
LEFT JOIN antenna_name n ON n.reader_id = s.reader_id AND n.port = s.port
WHERE s.organization_id = ? AND s.site_no IS NULL
"""
