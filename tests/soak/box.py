"""Interface to a whole test computer, controlled by a program: build, boot, run, put, power-cut, stop."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path


class Box:
    """Runs `tool VERB folder ...`. The computer lives in the folder and shares the network of this one."""

    def __init__(self, tool: str, folder: Path) -> None:
        self._tool = tool
        self._folder = self.folder = folder
        self.is_enabled = False
        self.cuts: list[int] = []  # milliseconds, when all processes had ended

    def build(self) -> None:
        self._do("build")

    def boot(self) -> None:
        self._do("boot")
        self.is_enabled = True

    def put(self, source: Path, target: str) -> None:
        self._do("put", str(source), target)

    def power_cut(self) -> None:
        self._do("power-cut")
        self.cuts.append(time.time_ns() // 1_000_000)
        self.is_enabled = False

    def stop(self) -> None:
        self._do("stop")

    def run(self, script: str, *, check: bool = True) -> str:
        """Run a shell script as root and return its standard output. On failure, raise with all its output."""
        done = subprocess.run(
            [self._tool, "run", str(self._folder), "bash", "-euc", script], capture_output=True, text=True, check=False
        )
        if check and done.returncode:
            raise RuntimeError(f"{script}\n{done.stdout}\n{done.stderr}")
        return done.stdout

    def _do(self, verb: str, *arguments: str) -> None:
        # Not captured: the booted computer inherits the pipes and would keep them open.
        subprocess.run(
            [self._tool, verb, str(self._folder), *arguments], check=True, stdout=subprocess.DEVNULL, stderr=None
        )
