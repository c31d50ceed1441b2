"""A folder whose writes can fail, by the number of the call. `layer.c` does it, in the process of the worker."""

from __future__ import annotations

import json
import mmap
import os
import shutil
import struct
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

WAYS = ("broken", "full", "short", "killed", "torn")  # of layer.c, from 1

_NUMBERS = struct.Struct("=qqq")


def can_be_had() -> bool:
    return shutil.which("cc") is not None


class Result(NamedTuple):
    calls: int
    runs: int
    wrong: list[str]


def result_of(folder: Path, *arguments: str) -> Result:
    """Run the worker in this Python with the layer, so that writes below `folder`/disk can fail."""
    library, control, source = folder / "layer.so", folder / "control", Path(__file__).with_name("layer.c")
    subprocess.run(["cc", "-shared", "-fPIC", "-O2", "-o", str(library), str(source), "-ldl"], check=True)
    control.write_bytes(bytes(_NUMBERS.size))
    (folder / "disk").mkdir()
    variables = {"LD_PRELOAD": str(library), "FAULT_CONTROL": str(control), "FAULT_FOLDER": f"{folder}/disk/"}
    done = subprocess.run(
        [sys.executable, "-m", "tests.soak.every_fault.worker", str(folder), *arguments],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return Result(**json.loads(done.stdout.splitlines()[-1]))


class Disk:
    """The control of the layer in this process and its forks."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "disk"
        with (folder / "control").open("r+b") as file:
            self._control = mmap.mmap(file.fileno(), _NUMBERS.size)

    def let_fail(self, call: int, way: str) -> None:
        """Let the call with this number from now on fail, or none if it is 0."""
        self._control[:] = _NUMBERS.pack(0, call, WAYS.index(way) + 1 if call else 0)

    def calls(self) -> int:
        """Return how many calls that change files there were."""
        number: int = _NUMBERS.unpack(self._control)[0]
        return number
