"""Which tests a change runs, and with how many workers."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.of_change import FEW, changed_since, check_paths, choose, workers

FILES = {
    "edge/records/assets.py": "from edge.database import connection\n",
    "edge/database/connection.py": "",
    "edge/pages/assets.py": "from edge.records import (  # all of them\n    assets,\n)\nPAGE = 'records/asset.html'\n",
    "web/templates/records/asset.html": "",
    "web/templates/base.html": "",
    "tests/conftest.py": "from edge.database import connection as c\n",
    "tests/records/test_assets.py": "def test_it():\n    pass\n",
    "tests/pages/test_pages.py": "import edge.app\n\ndef test_one():\n    pass\n\ndef test_two():\n    pass\n",
    "tests/labels/test_labels.py": "from edge.records.assets import AssetRow\n\ndef test_it():\n    pass\n",
    "tests/doors/test_doors.py": "from edge.doors import doors\n\ndef test_it():\n    pass\n",
}
RECORDS, PAGES, LABELS, DOORS = (
    "tests/records/test_assets.py",
    "tests/pages/test_pages.py",
    "tests/labels/test_labels.py",
    "tests/doors/test_doors.py",
)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, "utf-8")
    return tmp_path


@pytest.mark.parametrize(
    ("changed", "tests"),
    [
        (["edge/records/assets.py"], [LABELS, RECORDS, PAGES]),
        (["web/templates/records/asset.html"], [RECORDS, PAGES]),
        (["edge/labels/fonts.bin"], [LABELS]),
        (["tests/doors/test_doors.py"], [DOORS]),
        (["tests/conftest.py"], [DOORS, LABELS, PAGES, RECORDS]),
        (["edge/deleted.py"], []),
        (["edge/records/assets.py", "tests/doors/test_doors.py"], [DOORS, LABELS, RECORDS, PAGES]),
    ],
)
def test_the_nearest_tests_of_a_change_come_first(tree: Path, changed: list[str], tests: list[str]) -> None:
    assert choose(tree, changed).files == tests


def test_tests_beyond_a_minute_are_left_out_and_counted(tree: Path) -> None:
    chosen = choose(tree, ["edge/records/assets.py"], most=2)
    assert (chosen.files, chosen.left_out) == ([LABELS, RECORDS], 1)
    assert (
        str(chosen) == "1 changed files: the 2 nearest test files; 1 further test files reach it, too, and are not run"
    )


def test_changes_are_committed_ones_and_those_in_the_folder(tree: Path) -> None:
    def git(*words: str) -> None:
        user = {f"GIT_{who}_{what}": "a@b" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
        subprocess.run(["git", *words], cwd=tree, check=True, capture_output=True, env=os.environ | user)

    git("init", "-b", "main")
    git("add", ".")
    git("commit", "-m", "first")
    git("checkout", "-b", "mine")
    assert changed_since(tree, "main") == []
    (tree / RECORDS).write_text("", "utf-8")
    git("commit", "-am", "second")
    (tree / DOORS).unlink()
    (tree / "new.py").write_text("", "utf-8")
    assert changed_since(tree, "main") == ["new.py", DOORS, RECORDS]
    with pytest.raises(pytest.UsageError, match="there is no commit nowhere"):
        changed_since(tree, "nowhere")


def test_a_wrong_path_is_named(tree: Path) -> None:
    check_paths([f"{tree}/{RECORDS}::test_it", str(tree)])
    with pytest.raises(pytest.UsageError, match=r"there is no tests/nope\.py::test_it"):
        check_paths(["tests/nope.py::test_it"])


def test_few_tests_run_without_workers(tree: Path) -> None:
    assert workers([f"{tree}/tests"]) == workers([f"{tree}/{RECORDS}", f"{tree}/{PAGES}::test_one"]) == 0
    (tree / RECORDS).write_text("def test_it():\n    pass\n" * FEW, "utf-8")
    assert workers([f"{tree}/tests"]) >= 2
