"""All attacks for a second each, one after the other on one box.

`python -m tests.security.budget` runs them for longer and measures them.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.security.budget.attacks import ATTACKS
from tests.security.budget.box import Watch, box

SECONDS = 1.0
PATIENCE = 60.0  # for /healthz, because other tests run at the same time


@pytest.mark.long
@pytest.mark.mosquitto
def test_no_attack_ends_the_service_or_ingest(tmp_path: Path) -> None:
    with box(tmp_path, history=20_000) as attacked:
        for name, attack in ATTACKS.items():
            with Watch(attacked) as watch:
                statuses = attack(attacked, SECONDS)
            watch.check(PATIENCE)
            assert not statuses["500"], name
            print(f"{name:20} survived, at most {attacked.peak_megabytes()} MB so far")
