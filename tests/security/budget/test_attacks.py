"""Short runs of the attacks that once killed or blocked the service.

`python -m tests.security.budget` runs all attacks for longer and measures them; `.ci/run` calls it with --together.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.security.budget.attacks import ATTACKS
from tests.security.budget.box import Watch, box

SECONDS = 1.5
PATIENCE = 10.0  # for /healthz, because other tests run at the same time
FATAL = ("join", "hello", "images", "tables", "unread_answers", "slow_readers", "sync_numbers", "forms")


@pytest.mark.mosquitto
def test_no_attack_ends_the_service_or_ingest(tmp_path: Path) -> None:
    with box(tmp_path, history=20_000) as attacked:
        for name in FATAL:
            with Watch(attacked) as watch:
                ATTACKS[name](attacked, SECONDS)
            watch.check(PATIENCE)
