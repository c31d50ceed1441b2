"""Code that replaces internals of a library works with its newest release, before a pin is moved to it."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from tests.conftest import lacks

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parent.parent
TESTS_OF = {
    "waitress": ["tests/server/test_server.py", "tests/server/test_workers.py", "tests/api/test_hostile.py"],
    "biip": ["tests/records/test_gs1.py"],
    "werkzeug": ["tests/runtime/test_lean_start.py"],
    "paho-mqtt": ["tests/ingest/test_mqtt_framing.py", "tests/ingest/test_subscriber.py"],
}


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", *arguments],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.mark.parametrize("library", TESTS_OF)
def test_the_tests_of_what_is_replaced_pass_with_the_newest_release(library: str, tmp_path: Path) -> None:
    asked = run("pip", "index", "versions", library)
    if asked.returncode:
        lacks(f"the index of packages: {asked.stderr}")
    newest = asked.stdout.partition("(")[2].partition(")")[0]  # "waitress (3.0.2)"
    if newest == version(library):
        return  # the whole suite runs with it
    installed = run("pip", "install", "-q", "--no-deps", "--target", str(tmp_path), f"{library}=={newest}")
    assert installed.returncode == 0, installed.stderr
    tested = run("pytest", "-n", "0", "-p", "no:cacheprovider", *TESTS_OF[library], PYTHONPATH=str(tmp_path))
    assert tested.returncode == 0, f"with {library} {newest}:\n{tested.stdout[-5000:]}"
