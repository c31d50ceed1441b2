"""A short run of random faults on a site in use. `python -m tests.soak.chaos` runs it for hours."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.mosquitto

ROOT = Path(__file__).parents[2]


@pytest.mark.long
def test_nothing_is_lost_or_doubled_by_12_random_faults() -> None:
    """The seed, which is random, is in the output."""
    command = [sys.executable, "-m", "tests.soak.chaos", "--faults", "12", "--minutes", "0.7"]
    done = subprocess.run(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, timeout=600
    )
    assert done.returncode == 0, done.stdout
