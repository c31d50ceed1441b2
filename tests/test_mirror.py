"""The tests of a module are found by its name.

Those of `edge/store/tree.py` are in `tests/store/test_tree.py`, or beside it in `test_tree_` and what of it they are
about. Where several modules are tested together, the docstring of the file ends with a sentence that names those it is
not called after, as in `tests/api/test_locations.py`.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

TESTS = Path(__file__).parent
EDGE = TESTS.parent / "edge"
MODULES = {
    f"edge/{path.relative_to(EDGE).as_posix()}"
    for path in EDGE.rglob("*.py")
    if path.name != "__init__.py" and path.parent.name != "migrations"
}
FILES = sorted(TESTS.rglob("test_*.py"))
SENTENCE = re.compile(r"^Tests of (edge/[^:;]*?\.py)\.$", re.MULTILINE)


def called_after(file: Path) -> str | None:
    """The module of the mirrored folder whose name this one begins with; of several, the longest name."""
    folder = Path("edge", file.relative_to(TESTS).parent)
    words = file.stem.removeprefix("test_").split("_")
    names = ("_".join(words[:count]) for count in range(len(words), 0, -1))
    return next((path for name in names if (path := (folder / f"{name}.py").as_posix()) in MODULES), None)


def named_in(file: Path) -> set[str]:
    sentence = SENTENCE.search(ast.get_docstring(ast.parse(file.read_text("utf-8"))) or "")
    return set(re.findall(r"edge/[\w/]+\.py", sentence[1])) if sentence else set()


NAMED = {file: named_in(file) for file in FILES}


def test_every_module_has_tests_that_are_found_by_its_name() -> None:
    tested = {called_after(file) for file in FILES}.union(*NAMED.values())
    assert sorted(MODULES - tested) == []


def test_a_docstring_names_modules_that_exist_and_whose_tests_are_not_found_anyway() -> None:
    assert {file.name: gone for file, named in NAMED.items() if (gone := named - MODULES)} == {}
    assert [file.name for file, named in NAMED.items() if called_after(file) in named] == []


# What these test is more than a module: the specification, what people see, the whole application, what is installed.
SUBJECTS = {"api", "browser", "security", "simulation", "systemd"}


def test_a_file_among_the_tests_of_modules_is_called_after_one() -> None:
    mirrored = [file for file in FILES if file.relative_to(TESTS).parts[0] not in SUBJECTS and file.parent != TESTS]
    assert [file.relative_to(TESTS).as_posix() for file in mirrored if not called_after(file)] == []
