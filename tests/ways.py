"""How many files and functions of edge a request, a scan or a message visits. Fewer are easier to follow."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType

import edge

ROOT = str(Path(edge.__file__).parent)
WARM_UP = 3  # times that the way was gone before, so that what happens once per process does not count


def of(go: Callable[[], object]) -> tuple[int, int]:
    """Return the number of files and of functions of edge that `go` visits on this thread."""
    visited: set[CodeType] = set()

    def note(frame: FrameType, event: str, _argument: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(ROOT) and not frame.f_code.co_name.startswith("<"):
            visited.add(frame.f_code)

    for _ in range(WARM_UP):
        go()
    before = sys.getprofile()
    sys.setprofile(note)
    try:
        go()
    finally:
        sys.setprofile(before)
    return len({code.co_filename for code in visited}), len(visited)
