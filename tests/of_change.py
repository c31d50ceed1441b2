"""`pytest --of-change` runs the tests nearest to a change; few tests run without workers, and a wrong path is named."""

from __future__ import annotations

import os
import re
import subprocess
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parent.parent
MOST = 1_200  # test functions, about a minute on two cores
FEW = 150  # test functions that end sooner than workers begin
_IMPORT = re.compile(r"^ *from +([\w.]+) +import +(?:\(([^)]*)\)|(.+))|^ *import +([\w.]+)", re.MULTILINE)
_TEST = re.compile(r"^ *(?:async +)?def test_", re.MULTILINE)
_MENTIONING = {".py", ".html", ".js", ".mjs"}


class Chosen(NamedTuple):
    files: list[str]
    changed: int
    left_out: int  # test files that reach the change, too, and are too many

    def __str__(self) -> str:
        rest = f"; {self.left_out} further test files reach it, too, and are not run" if self.left_out else ""
        return f"{self.changed} changed files: the {len(self.files)} nearest test files{rest}"


def changed_since(root: Path, commit: str) -> list[str]:
    """Return what differs from the last commit in common with `commit`, uncommitted and new files included.

    Raises UsageError if there is no such commit.
    """
    base = _git(root, "merge-base", "HEAD", commit)
    if not base:
        raise pytest.UsageError(f"--of-change: there is no commit {commit}")
    differing = _git(root, "diff", "--name-only", base[0])
    return sorted({*differing, *_git(root, "ls-files", "--others", "--exclude-standard")})


def choose(root: Path, changed: Iterable[str], most: int = MOST) -> Chosen:
    """Return the test files nearest to the changed files, and their conftest, by imports and by folder."""
    texts = {
        str(path.relative_to(root)): path.read_text("utf-8")
        for folder in ("edge", "tests", "web")
        for path in sorted((root / folder).rglob("*"))
        if path.suffix in _MENTIONING and path.is_file()
    }
    changed = list(changed)
    tests = list(_by_distance(texts, changed))
    files: list[str] = []
    number = 0
    for name in tests:
        number += len(_TEST.findall(texts[name]))
        if files and number > most:
            break
        files.append(name)
    return Chosen(files, len(changed), len(tests) - len(files))


def _by_distance(texts: dict[str, str], changed: list[str]) -> Iterator[str]:
    importers = _importers(texts)
    seen, ring = set(changed), sorted(changed)
    while ring:
        yield from sorted(name for name in ring if _is_test(name) and name in texts)
        following = {user for name in ring for user in (*importers[name], *_mentioning(name, texts))}
        ring = sorted(following - seen)
        seen |= following


def _importers(texts: dict[str, str]) -> dict[str, set[str]]:
    """Return for each file the files that import it. A test uses the folder it tests, and each conftest above it."""
    importers: dict[str, set[str]] = defaultdict(set)
    for name, text in texts.items():
        if not name.endswith(".py"):
            continue
        for module, several, one, whole in _IMPORT.findall(text):
            parts = re.findall(r"\w+", re.sub(r"#.*| as \w+", "", several or one))
            for imported in (module or whole, *(f"{module}.{part}" for part in parts)):
                path = imported.replace(".", "/")
                importers[f"{path}.py"].add(name)
                importers[f"{path}/__init__.py"].add(name)
        if _is_test(name):
            for folder in list(Path(name).parents)[:-1]:
                importers[f"{folder}/conftest.py"].add(name)
    for name in texts:
        if name.startswith("edge/"):
            importers[name] |= {test for test in texts if _is_test(test) and _tests_folder_of(test, name)}
    return importers


def _tests_folder_of(test: str, module: str) -> bool:
    folder = Path(module).parent.relative_to("edge")
    return folder != Path() and Path(test).parent == "tests" / folder


def _mentioning(name: str, texts: dict[str, str]) -> list[str]:
    """Return the files that name a template, a script, a chapter or a sample, and the tests of its folders."""
    if name.endswith(".py"):
        return []
    path = Path(name)
    folders = set(path.parts[1:-1])
    mention = re.compile(rf"[/\"'`]{re.escape(path.name)}\b")
    return [
        user
        for user, text in texts.items()
        if user != name and (mention.search(text) or (_is_test(user) and not folders.isdisjoint(Path(user).parts)))
    ]


def _is_test(name: str) -> bool:
    return name.startswith("tests/") and Path(name).name.startswith("test_")


def _git(root: Path, *words: str) -> list[str]:
    ran = subprocess.run(["git", *words], cwd=root, capture_output=True, text=True, check=False)
    return ran.stdout.split("\n")[:-1] if ran.returncode == 0 else []


def check_paths(paths: Iterable[str]) -> None:
    """Raise UsageError for a path that does not exist; workers would find no tests and say nothing."""
    for path in paths:
        if not Path(path.partition("::")[0]).exists():
            raise pytest.UsageError(f"there is no {path}")


def workers(paths: Iterable[str]) -> int:
    """Return 0 for few tests.

    Otherwise one more than processors, since a quarter of the time the tests wait for threads, timers and disks.
    """
    number = sum(1 if "::" in path else _count(Path(path)) for path in paths)
    return (os.cpu_count() or 1) + 1 if number > FEW else 0


def _count(path: Path) -> int:
    files = path.rglob("test_*.py") if path.is_dir() else [path]
    return sum(len(_TEST.findall(file.read_text("utf-8"))) for file in files)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--of-change",
        nargs="?",
        const="main",
        metavar="COMMIT",
        help="run the tests nearest to what differs from COMMIT (default: main), about a minute",
    )


@pytest.hookimpl(tryfirst=True)  # before workers are counted
def pytest_cmdline_main(config: pytest.Config) -> None:
    if hasattr(config, "workerinput"):
        return
    commit = config.getoption("--of-change")
    if commit:
        chosen = choose(ROOT, changed_since(ROOT, commit))
        if not chosen.files:
            raise pytest.UsageError(f"--of-change: no test reaches what differs from {commit}")
        config.args[:] = [str(ROOT / file) for file in chosen.files]
        print(chosen)
    check_paths(config.option.file_or_dir)


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    return workers(config.args)
