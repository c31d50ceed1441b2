"""The simulation publishes all reads, in order of time for each reader."""

from __future__ import annotations

from itertools import pairwise

import pytest

from edge import clock
from edge.clock import SECOND
from edge.demo import simulation
from edge.demo.movement import Sighting
from edge.demo.plan import Plan, Reader
from edge.formats.reads import Read
from edge.formats.registry import FORMATS
from tests.demo.conftest import BEGIN, chance
from tests.service import wait_for

PAST = 600 * SECOND


class Collector:
    """Stand-in for the connections that collects payloads by reader."""

    def __init__(self) -> None:
        self.reads: dict[str, list[Read]] = {}

    def publish(self, reader: Reader, payload: bytes) -> None:
        self.reads.setdefault(reader.name, []).extend(FORMATS[reader.format].parse(reader.topic, payload).reads)

    def settle(self) -> None:
        pass


def test_all_reads_are_published_in_order(plan: Plan, reads: list[Sighting], monkeypatch: pytest.MonkeyPatch) -> None:
    since = clock.now() - PAST
    past = [
        sighting._replace(at=sighting.at - BEGIN + since) for sighting in reads if sighting.at < BEGIN + PAST - SECOND
    ]
    monkeypatch.setattr(simulation, "sightings", lambda *_: iter([*past, past[-1]._replace(at=since + 2 * PAST)]))
    collector = Collector()
    with simulation.simulated_readers(plan, collector, since, {}, chance(1)):
        wait_for(lambda: sum(map(len, collector.reads.values())) >= len(past), 10)
    assert sum(map(len, collector.reads.values())) == len(past)
    for published in collector.reads.values():
        assert all((one.observed_at or 0) <= (other.observed_at or 0) for one, other in pairwise(published))


def test_old_reads_are_published_at_longer_intervals(plan: Plan) -> None:
    reader = plan.simulated[0]
    assert simulation._pause(clock.now() - 3600 * SECOND, reader) == simulation.PAST_PAUSE_SECONDS
    assert simulation._pause(clock.now() + SECOND, reader) == reader.repeat_seconds
