"""Proposed RSSI offsets, from tags that two readers read while standing still.

A tag next to one antenna is stronger there whatever the makes, so tags at either location count alike: the proposal is
halfway between the usual difference of the tags at the one location and that of the tags at the other.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from statistics import median
from typing import NamedTuple

from edge import clock
from edge.database.connection import execute, reading
from edge.readers.readers import get_reader
from edge.tracking import recent_reads
from edge.tracking.recent_reads import KEPT_FOR
from edge.tracking.rssi_offsets import LARGEST, offsets_of

MOST_READS = 100_000  # that are looked at
LEAST_READS = 8  # of a tag by each antenna
LEAST_TAGS = 5
AT_EACH = 2  # tags at either location
STILL = 4.0  # dB from the first half of its reads to the second
WORTH = 3.0  # dB


class Proposal(NamedTuple):
    """An offset (dB) for an antenna of a reader; `port` is None where the reader has no antennas.

    `difference` is how much stronger it is than `other` at present, over `tags` that both read.
    """

    port: int | None
    label: str
    other: str
    difference: float
    decibels: float
    tags: int


class _Source(NamedTuple):
    reader_id: int
    port: int | None
    location_id: int
    reader_name: str
    label: str


def proposals(organization_id: int, reader_id: int) -> list[Proposal]:
    """The best supported proposal for each antenna of a reader, if there is one. Raises NotFound."""
    since = clock.now() - KEPT_FOR
    with reading():
        get_reader(organization_id, reader_id)
        offsets = offsets_of(organization_id)
        sources = {no: _Source(*rest) for no, *rest in execute(_SOURCES, (organization_id,))}
        strengths: dict[int, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
        for asset_id, _, source_no, rssi in islice(recent_reads.newest_first(since), MOST_READS):
            if rssi is not None and source_no in sources:
                strengths[source_no][asset_id].append(rssi)
        here = dict(execute("SELECT asset_id, location_id FROM position WHERE organization_id = ?", (organization_id,)))
    usual = {
        no: _usual(of_assets, offsets.of(sources[no].reader_id, sources[no].port))
        for no, of_assets in strengths.items()
    }
    best: dict[int | None, Proposal] = {}
    for no in [no for no in usual if sources[no].reader_id == reader_id]:
        own = sources[no]
        before = offsets.of(reader_id, own.port)
        for proposal in _proposals_of(no, sources, usual, here, before):
            if own.port not in best or best[own.port].tags < proposal.tags:
                best[own.port] = proposal
    return [one for one in best.values() if abs(one.difference) >= WORTH]


def _proposals_of(
    no: int,
    sources: Mapping[int, _Source],
    usual: Mapping[int, Mapping[int, float]],
    here: Mapping[int, int],
    before: float,
) -> Iterator[Proposal]:
    own = sources[no]
    for other_no, others in usual.items():
        other = sources[other_no]
        if other.reader_id == own.reader_id or other.location_id == own.location_id:
            continue
        both = usual[no].keys() & others.keys()
        differences = {asset_id: usual[no][asset_id] - others[asset_id] for asset_id in both}
        sides = [
            [difference for asset_id, difference in differences.items() if here.get(asset_id) == location_id]
            for location_id in (own.location_id, other.location_id)
        ]
        if len(both) >= LEAST_TAGS and all(len(side) >= AT_EACH for side in sides):
            difference = sum(median(side) for side in sides) / 2
            decibels = max(-LARGEST, min(LARGEST, round((before - difference) * 2) / 2))
            name = f"{other.reader_name}, {other.label}"
            yield Proposal(own.port, own.label, name, round(difference, 1), decibels, len(both))


def _usual(of_assets: Mapping[int, Sequence[float]], offset: float) -> dict[int, float]:
    """The usual strength of each tag that stands still."""
    return {asset_id: median(read) + offset for asset_id, read in of_assets.items() if _is_still(read)}


def _is_still(read: Sequence[float]) -> bool:
    half = len(read) // 2
    return len(read) >= LEAST_READS and abs(median(read[:half]) - median(read[half:])) <= STILL


_SOURCES = """
SELECT s.no, r.id, s.port, s.location_id, r.name,
       coalesce(n.name, 'antenna ' || nullif(s.port, 0), 'its only antenna') FROM source s
JOIN reader r ON r.id = s.reader_id AND r.organization_id = s.organization_id AND r.deleted_at IS NULL
LEFT JOIN antenna_name n ON n.reader_id = s.reader_id AND n.port = s.port
WHERE s.organization_id = ? AND s.site_no IS NULL
"""
