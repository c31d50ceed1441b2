"""A group of processes with a limit of memory, as systemd makes one for the unit.

Version 2 or version 1, whichever this machine allows. Without either, the peak of resident memory is measured and
compared with the limit, which kills nothing.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")
REMOVE_SECONDS = 5.0
UNIT = Path(__file__).parents[3] / "systemd" / "edge.service"


def memory_max() -> int:
    """`MemoryMax` of the unit, in bytes."""
    found = re.search(r"^MemoryMax=(\d+)M$", UNIT.read_text(), re.MULTILINE)
    assert found
    return int(found[1]) << 20


class Group:
    """`folder` is None where this machine allows no cgroup."""

    def __init__(self, folder: Path | None, version: str) -> None:
        self._folder = folder
        self.version = version

    def enter(self) -> None:
        """Called in the new process, before its program begins."""
        if self._folder:
            (self._folder / "cgroup.procs").write_text(str(os.getpid()))

    def kills(self) -> int:
        """How many processes of the group the kernel has killed for want of memory."""
        if self._folder is None:
            return 0
        name = "memory.events" if self.version == "cgroup v2" else "memory.oom_control"
        found = re.search(r"^oom_kill (\d+)$", (self._folder / name).read_text(), re.MULTILINE)
        return int(found[1]) if found else 0


@contextmanager
def limited(size: int) -> Iterator[Group]:
    """The processes that enter have `size` bytes in all, and no swap."""
    name = f"edge-test-{os.getpid()}"
    versions = (
        (ROOT, "cgroup.controllers", "memory.max", "cgroup v2"),
        (ROOT / "memory", "memory.limit_in_bytes", "memory.limit_in_bytes", "cgroup v1"),
    )
    for parent, sign, setting, version in versions:
        folder = parent / name
        if not (parent / sign).exists():
            continue
        try:
            folder.mkdir()
            (folder / setting).write_text(str(size))
        except OSError:
            with suppress(OSError):
                folder.rmdir()
            continue
        try:
            yield Group(folder, version)
        finally:
            _remove(folder)
        return
    yield Group(None, "no cgroup")


def _remove(folder: Path) -> None:
    """The kernel takes a moment to let go of the last process."""
    deadline = time.monotonic() + REMOVE_SECONDS
    while folder.exists():
        try:
            folder.rmdir()
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)
