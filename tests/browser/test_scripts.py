"""The modules of the pages in JavaScript, tested by node where no browser is needed."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).parent / "scripts"


@pytest.mark.node
@pytest.mark.parametrize("file", sorted(HERE.glob("*.test.mjs")), ids=lambda path: path.name)
def test_script(file: Path) -> None:
    command = ["node", "--no-warnings", "--test", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
