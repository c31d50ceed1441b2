"""Propose RSSI offsets from stationary tags that two readers read.

A tag near an antenna is always stronger there, so tags at both locations get the same weight: the proposal is the mean
of the median difference at one location and the median difference at the other.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from statistics import median
from typing import NamedTuple

from edge import clock
from edge.database.connection import reading
from edge.readers.antenna_reads import Source, sources_of
from edge.readers.readers import get_reader
from edge.texts import fill
from edge.tracking import recent_reads, report
from edge.tracking.recent_reads import KEPT_FOR
from edge.tracking.rssi_offsets import LARGEST, offsets_of

MOST_READS = 100_000  # maximum number evaluated
LEAST_READS = 8  # of a tag by each antenna
LEAST_TAGS = 5
AT_EACH = 2  # minimum number of tags at each location
STILL = 4.0  # dB; maximum change between the two halves of the reads of a stationary tag
LEAST_DIFFERENCE = 3.0  # dB


class Proposal(NamedTuple):
    """Proposed offset `decibels` for an antenna; `port` is None if the reader has no antennas.

    `difference`: dB by which it reads more strongly than `other` at present, measured with `tags` common tags.
    """

    port: int | None
    label: str
    other: str
    difference: float
    decibels: float
    tags: int


def proposals(organization_id: int, reader_id: int) -> list[Proposal]:
    """Return for each antenna of a reader the proposal with the most tags, if any. Raises NotFound."""
    since = clock.now() - KEPT_FOR
    with reading():
        get_reader(organization_id, reader_id)
        offsets = offsets_of(organization_id)
        sources = sources_of(organization_id)
        strengths: dict[int, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
        for asset_id, _, source_no, rssi in islice(recent_reads.newest_first(since), MOST_READS):
            if rssi is not None and source_no in sources:
                strengths[source_no][asset_id].append(rssi)
        assets = {asset_id for of_assets in strengths.values() for asset_id in of_assets}
        here = {asset_id: one.location_id for asset_id, one in report.current_positions(assets).items()}
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
    return [proposal for proposal in best.values() if abs(proposal.difference) >= LEAST_DIFFERENCE]


def _proposals_of(
    no: int,
    sources: Mapping[int, Source],
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
            name = fill("%(reader)s, %(antenna)s", reader=other.reader_name, antenna=other.antenna)
            yield Proposal(own.port, own.antenna, name, round(difference, 1), decibels, len(both))


def _usual(of_assets: Mapping[int, Sequence[float]], offset: float) -> dict[int, float]:
    """Return the median strength (dBm) of each stationary tag."""
    return {asset_id: median(read) + offset for asset_id, read in of_assets.items() if _is_still(read)}


def _is_still(read: Sequence[float]) -> bool:
    half = len(read) // 2
    return len(read) >= LEAST_READS and abs(median(read[:half]) - median(read[half:])) <= STILL
