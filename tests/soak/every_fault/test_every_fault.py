"""A job whose disk fails at one call ends as without the fault, after a repetition or a restart.

Here a few calls of each job fail in each way; `python -m tests.soak.every_fault` takes all of them.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import lacks
from tests.soak.every_fault import disk
from tests.soak.every_fault.jobs import JOBS

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("job", JOBS)
def test_a_fault_of_the_disk_loses_nothing_and_repeats_nothing(tmp_path: Path, job: str) -> None:
    if not disk.can_be_had():
        lacks("a C compiler")
    result = disk.result_of(tmp_path, job, "--most", "2")
    assert result.wrong == []
    assert result.runs >= 10
