"""Readers of two makes that differ by 10 dB, with and without an RSSI offset."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice

import pytest

from edge.clock import SECOND
from edge.tracking.packed_reads import ALWAYS, Recent
from edge.tracking.retrace import State, retrace
from edge.tracking.signal_strength import AntennaKind, weight_of
from tests.simulation.measure import Decided, Score, score, total
from tests.simulation.radio import BLE, Antenna
from tests.simulation.warehouse import WALK, Reading, Scenario, Trace, traces

pytestmark = pytest.mark.slow

GAP = 300 * SECOND
WEAKER_BY = 10.0  # dB; applies to every second reader

GRID = [(12.0 * column, 10.0 * line) for line in range(2) for column in range(3)]
MAKES = Scenario(
    "BLE beacons, 1 s, gateways of two makes", BLE, "ble", GRID,
    {number: Antenna(zone, number) for number, zone in enumerate(GRID)}, {number: number for number in range(6)},
    Reading(1.0, 0.7), 10, 1.0, (180, 900), WALK, 2.0, 15.0,
)  # fmt: skip


def reported(trace: Trace) -> Trace:
    """Return the reported reads: readers of the second make report less at the same range."""
    reads = [read._replace(strength=read.strength - WEAKER_BY * (read.antenna % 2)) for read in trace.reads]
    return trace._replace(reads=reads)


def decided(trace: Trace, offsets: Mapping[int, float]) -> list[Decided]:
    weight = weight_of(AntennaKind.ZONE, MAKES.tag_type)
    recent = Recent(ALWAYS)
    for read in trace.reads:
        offset = offsets.get(read.antenna, 0.0)
        recent.add(round(read.at * SECOND), read.location, read.strength, weight, rssi_offset=offset)
    steps, *_ = retrace(recent.detections, 0, State(None, 0, None), (), GAP)
    return [(step.observed_at / SECOND, step.location_id) for step in steps]


def share_right(offsets: Mapping[int, float], *, is_one_make: bool = False) -> Score:
    end = MAKES.hours * 3600
    scores = []
    for trace in islice(traces(MAKES), MAKES.assets):
        read = trace if is_one_make else reported(trace)
        scores.append(score(trace, decided(read, offsets), end, MAKES.passing))
    return total(scores)


def test_an_offset_makes_two_makes_as_accurate_as_one() -> None:
    before = share_right({})
    after = share_right(dict.fromkeys((1, 3, 5), WEAKER_BY))
    one_make = share_right({}, is_one_make=True)
    print(f"right: {before.share_right:.1%} without, {after.share_right:.1%} with, {one_make.share_right:.1%} one make")
    assert before.share_right < 0.92
    assert after.share_right > 0.97
    assert after.share_right == one_make.share_right
    assert after.false_moves <= before.false_moves
