"""A plugin of pytest: which tests call which functions of edge, and how long each test takes.

    CALLERS=FILE python -m pytest -p tests.soak.callers -n0 tests/...

What a test does in a process of its own is not seen.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest

_ROOT = f"{Path(__file__).parents[2]}{os.sep}"
_called: set[CodeType] = set()
_tests: dict[str, dict[str, Any]] = {}


def _trace(frame: FrameType, _event: str, _argument: object) -> None:
    _called.add(frame.f_code)


def pytest_sessionstart() -> None:
    threading.settrace(_trace)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[Any]:
    _called.clear()
    sys.settrace(_trace)
    try:
        return (yield)
    finally:
        sys.settrace(None)
        functions = {name for code in list(_called) if (name := _name_of(code))}
        _tests.setdefault(item.nodeid, {})["functions"] = sorted(functions)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    test = _tests.setdefault(report.nodeid, {})
    test["seconds"] = test.get("seconds", 0) + report.duration
    test["is_green"] = test.get("is_green", True) and report.outcome == "passed"


def pytest_sessionfinish() -> None:
    Path(os.environ["CALLERS"]).write_text(json.dumps(_tests), "utf-8")


def _name_of(code: CodeType) -> str | None:
    """`edge/store/scans.py::record`; of what is defined within a function, the function."""
    if not code.co_filename.startswith(f"{_ROOT}edge{os.sep}"):
        return None
    return f"{code.co_filename.removeprefix(_ROOT)}::{code.co_qualname.split('.<locals>')[0]}"
