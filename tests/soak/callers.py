"""Pytest plugin that records which functions of edge each test calls, and how long each test takes.

    CALLERS=FILE PYTHONPATH=.:tests/soak python -m pytest -p callers -n0 tests/...

It is loaded as `callers`, since `tests` imports most of edge, and a module that is loaded earlier is not recorded.

Each function of edge records its name as its first step, because a trace would slow down all code.
Calls in subprocesses of a test are not recorded.
"""

from __future__ import annotations

import ast
import builtins
import json
import os
from collections.abc import Iterator
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import Any

import pytest

_ROOT = f"{Path(__file__).parents[2]}{os.sep}"
_called: set[str] = set()
_tests: dict[str, dict[str, Any]] = {}
_Function = ast.FunctionDef | ast.AsyncFunctionDef


_load = SourceFileLoader.get_code


def _load_with_notes(self: SourceFileLoader, fullname: str) -> Any:
    path = self.get_filename(fullname)
    if not path.startswith(f"{_ROOT}edge{os.sep}"):
        return _load(self, fullname)
    tree = ast.parse(self.get_data(path))
    _add_notes(tree, path.removeprefix(_ROOT) + "::", is_within=False)
    return compile(ast.fix_missing_locations(tree), path, "exec", dont_inherit=True)


def _add_notes(node: ast.AST, name: str, *, is_within: bool) -> None:
    """Insert the recording call. Nested definitions count as the outer one: `edge/tracking/positions.py::record`."""
    for one in ast.iter_child_nodes(node):
        inner, is_function = name, isinstance(one, _Function)
        if not is_within and isinstance(one, ast.ClassDef):
            inner = f"{name}{one.name}."
        elif not is_within and isinstance(one, _Function):
            inner = f"{name}{one.name}"
        _add_notes(one, inner, is_within=is_within or is_function)
        if isinstance(one, _Function):
            has_docstring = ast.get_docstring(one, clean=False) is not None
            one.body.insert(int(has_docstring), ast.parse(f"__called__({inner!r})").body[0])


builtins.__called__ = _called.add  # type: ignore[attr-defined]
SourceFileLoader.get_code = _load_with_notes  # type: ignore[assignment, method-assign]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[Any]:
    _called.clear()
    try:
        return (yield)
    finally:
        _tests.setdefault(item.nodeid, {})["functions"] = sorted(_called)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    test = _tests.setdefault(report.nodeid, {})
    test["seconds"] = test.get("seconds", 0) + report.duration
    test["is_green"] = test.get("is_green", True) and report.outcome == "passed"


def pytest_sessionfinish() -> None:
    Path(os.environ["CALLERS"]).write_text(json.dumps(_tests), "utf-8")
