"""CI fails for a library with a known vulnerability, and says so where it could not look."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow

AUDIT = Path(__file__).parents[1] / ".ci" / "audit"
CLEAN = {"name": "flask", "version": "3.1.3", "vulns": []}
HOLE = {
    "name": "jinja2",
    "version": "2.4.1",
    "vulns": [{"id": "PYSEC-2019-217", "fix_versions": ["2.10.1"]}, {"id": "PYSEC-9", "fix_versions": []}],
}
UNKNOWN = {"name": "edge-own", "skip_reason": "Dependency not found on PyPI"}
OFFLINE = "requests.exceptions.ConnectionError: Failed to resolve 'pypi.org'"


class Audit:
    """`.ci/audit` with a pip-audit that answers as a test wants."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(self, libraries: list[Any] | None, code: int = 0, error: str = "") -> tuple[int, str]:
        (self.folder / "answer.json").write_text(json.dumps({"dependencies": libraries, "fixes": []}))
        (self.folder / "error").write_text(error)
        report = f'while [ "$1" != --output ]; do shift; done; cp {self.folder}/answer.json "$2"'
        tool = self.folder / "pip-audit"
        tool.write_text(
            f'#!/bin/sh\necho "$*" >>{self.folder}/asked\n{report if libraries is not None else ""}\n'
            f"cat {self.folder}/error >&2\nexit {code}\n"
        )
        tool.chmod(0o755)
        environment = {**os.environ, "PATH": f"{self.folder}:{os.environ['PATH']}"}
        done = subprocess.run([AUDIT], capture_output=True, text=True, env=environment)
        return done.returncode, done.stdout + done.stderr

    def asked(self) -> str:
        return (self.folder / "asked").read_text()


@pytest.fixture
def audit(tmp_path: Path) -> Audit:
    return Audit(tmp_path)


def test_what_sites_get_and_what_tests_use_is_looked_up(audit: Audit) -> None:
    code, said = audit([CLEAN])
    assert code == 0
    assert "NOT CHECKED" not in said
    for name in ("systemd", "tests"):
        assert f"{name}/requirements.txt: 1 libraries looked up" in said
        assert f"{name}/requirements.txt" in audit.asked()


@pytest.mark.parametrize("others", [[], [CLEAN], [CLEAN, UNKNOWN]])
def test_a_vulnerability_fails_and_names_library_and_fix(audit: Audit, others: list[Any]) -> None:
    code, said = audit([*others, HOLE], code=1, error="Found 1 known vulnerability in 1 package")
    assert code == 1
    assert "jinja2 2.4.1: PYSEC-2019-217, fixed in 2.10.1" in said
    assert "PYSEC-9, fixed in no release" in said


def test_without_internet_it_says_so_and_goes_on(audit: Audit) -> None:
    code, said = audit(None, code=1, error=f"Traceback\n{OFFLINE}")
    assert code == 0
    assert said.count("NOT CHECKED") == 2
    assert OFFLINE in said
    assert "Run .ci/audit where there is internet" in said


def test_a_mirror_without_the_database_is_no_clean_bill(audit: Audit) -> None:
    """pip-audit says "No known vulnerabilities found" there, since it skips every library."""
    code, said = audit([UNKNOWN, UNKNOWN])
    assert code == 0
    assert said.count("NOT CHECKED") == 2
    assert "looked up" not in said


def test_a_library_that_the_database_lacks_is_named(audit: Audit) -> None:
    code, said = audit([CLEAN, UNKNOWN])
    assert code == 0
    assert "not in the database: edge-own" in said


def test_another_failure_is_not_taken_for_a_missing_network(audit: Audit) -> None:
    code, said = audit(None, code=1, error="ERROR: the lock file has no hashes")
    assert code == 1
    assert "the lock file has no hashes" in said


def test_ci_runs_it() -> None:
    assert ".ci/audit" in AUDIT.with_name("run").read_text("utf-8").split()
