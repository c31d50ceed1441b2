"""Crash test: acknowledged messages are on disk, and nothing is recorded twice."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.mosquitto import mosquitto
from tests.soak import crash

pytestmark = pytest.mark.slow

READS, KILLS = 2_000, 3


@pytest.mark.mosquitto
def test_every_read_is_recorded_exactly_once_through_random_kills(tmp_path: Path) -> None:
    """Run a short version of tests/soak/crash.py."""
    seed = random.randrange(1_000_000)
    with mosquitto(tmp_path) as broker:
        outcome = crash.run(tmp_path, broker, READS, KILLS, seed)
    assert outcome.is_exact(READS), f"seed {seed}: {outcome}"
