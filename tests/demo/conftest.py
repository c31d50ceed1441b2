"""The demo plan, and half an hour of simulated reads."""

from __future__ import annotations

from itertools import takewhile
from random import Random

import pytest

from edge.clock import SECOND
from edge.demo.movement import Sighting, sightings
from edge.demo.plan import Plan, demo_folder, read_plan

BEGIN = 1_772_438_400 * SECOND
LASTING = 1800 * SECOND


def chance(seed: int) -> Random:
    """Return a seeded random generator."""
    return Random(seed)


@pytest.fixture(scope="session")
def plan() -> Plan:
    return read_plan(demo_folder())


@pytest.fixture(scope="session")
def reads(plan: Plan) -> list[Sighting]:
    stream = sightings(plan, BEGIN, {}, lambda _at, reader: reader.repeat_seconds, chance(1))
    return list(takewhile(lambda sighting: sighting.at < BEGIN + LASTING, stream))
