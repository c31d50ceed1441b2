"""The attacks that killed the service, or kept everybody else waiting, for a moment each: it survives and goes on.

`python -m tests.security.budget` runs all of them for longer, and measures; with --together, `.ci/run` does so.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.security.budget.attacks import ATTACKS
from tests.security.budget.box import Watch, box

SECONDS = 1.5
PATIENCE = 10.0  # for /healthz: other tests run at the same time
FATAL = ("join", "hello", "images", "tables", "unread_answers", "slow_readers", "sync_numbers", "forms")


@pytest.mark.mosquitto
def test_no_attack_ends_the_service_or_ingest(tmp_path: Path) -> None:
    with box(tmp_path, history=20_000) as attacked:
        for name in FATAL:
            with Watch(attacked) as watch:
                ATTACKS[name](attacked, SECONDS)
            watch.check(PATIENCE)
