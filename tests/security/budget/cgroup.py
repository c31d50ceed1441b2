"""A group of processes with a memory limit like that of the unit in systemd.

Uses cgroup v2 or v1. Without either, the peak of resident memory is measured and compared with the limit, and no
process is killed.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.service import wait_for

ROOT = Path("/sys/fs/cgroup")
UNIT = Path(__file__).parents[3] / "systemd" / "edge.service"


def memory_max() -> int:
    """Return `MemoryMax` of the unit in bytes."""
    match = re.search(r"^MemoryMax=(\d+)M$", UNIT.read_text(), re.MULTILINE)
    assert match
    return int(match[1]) << 20


class Group:
    """A cgroup. `folder` is None if this machine allows no cgroup."""

    def __init__(self, folder: Path | None, version: str) -> None:
        self._folder = folder
        self.version = version

    def enter(self) -> None:
        """Enter the group. Called in the new process before its program starts."""
        if self._folder:
            (self._folder / "cgroup.procs").write_text(str(os.getpid()))

    def move(self, pid: int) -> None:
        """Move a running process. Memory that it already has is not counted."""
        assert self._folder, "this machine allows no cgroup"
        (self._folder / "cgroup.procs").write_text(str(pid))

    def kills(self) -> int:
        """Return the number of processes that the OOM killer ended."""
        if self._folder is None:
            return 0
        name = "memory.events" if self.version == "cgroup v2" else "memory.oom_control"
        match = re.search(r"^oom_kill (\d+)$", (self._folder / name).read_text(), re.MULTILINE)
        return int(match[1]) if match else 0


@contextmanager
def limited(size: int) -> Iterator[Group]:
    """Create a group of processes that share `size` bytes without swap."""
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
    """Remove the group. The kernel needs a moment after the last process has ended."""

    def is_removed() -> bool:
        with suppress(OSError):
            folder.rmdir()
        return not folder.exists()

    def running() -> str:
        numbers = (folder / "cgroup.procs").read_text().split()
        return f"still running: {[Path(f'/proc/{one}/cmdline').read_bytes() for one in numbers]}"

    wait_for(is_removed, explain=running)
