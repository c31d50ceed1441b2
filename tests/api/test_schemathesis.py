"""Schemathesis over the whole document, signed in, against the real server, with all its checks.

This run is short; the long one is `FUZZ_EXAMPLES=1000 python -m pytest tests/api/test_schemathesis.py`.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.api.conftest import AGENT
from tests.bench import api as bench
from tests.service import ROOT

pytestmark = pytest.mark.slow

EXAMPLES = os.environ.get("FUZZ_EXAMPLES", "8")


@pytest.mark.long
def test_schemathesis_finds_nothing(tmp_path: Path) -> None:
    organization_id = bench.make_site(tmp_path, 20)
    token, _ = bench.sign_in(organization_id)
    with bench.running("edge", tmp_path) as address:
        run = subprocess.run(
            [
                *(sys.executable, "-m", "schemathesis.cli", "run", f"{address}/api/openapi.json", "--no-color"),
                *("-H", f"Authorization: Bearer {token}", "-H", f"User-Agent: {AGENT}"),
                *("--max-examples", EXAMPLES, "--continue-on-failure"),
                "--exclude-checks=positive_data_acceptance",  # replaced by the check in `rejections`, which is stricter
            ],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(ROOT), "SCHEMATHESIS_HOOKS": "tests.api.rejections"},
            capture_output=True,
            text=True,
            check=False,
        )
    assert run.returncode == 0, run.stdout + run.stderr
    assert re.search(r"\b(\d+) generated, \1 passed", run.stdout), run.stdout
