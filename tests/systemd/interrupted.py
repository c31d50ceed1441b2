"""Run the Python of a script of root and interrupt it before a line of its source, for tests of power cuts.

A program `python3` first in PATH starts this with the arguments of Python. Only the standard library, because a box
runs it, too. Variables: AT is a part of the line. DO is what happens before it: a signal to this process (KILL), `hold`
(create /root/held and wait), or `fill FOLDER` (fill its file system, once). ANSWERS lets all addresses answer, and NOW
is the time.
"""

from __future__ import annotations

import linecache
import os
import signal
import subprocess
import sys
import time
import urllib.request
from contextlib import nullcontext
from pathlib import Path
from types import FrameType
from typing import Any

CODE = "/edge/operations/root/"
AT, DO = os.environ.get("AT", ""), os.environ.get("DO", "KILL")


def trace(frame: FrameType, event: str, _: object) -> Any:
    if CODE not in frame.f_code.co_filename:
        return None
    if event == "line" and AT in linecache.getline(frame.f_code.co_filename, frame.f_lineno):
        interrupt()
    return trace


def interrupt() -> None:
    what, _, folder = DO.partition(" ")
    if what == "hold":
        Path(os.environ.get("HELD", "/root/held")).touch()
        time.sleep(600)
    elif what == "fill":
        fill(Path(folder), Path(os.environ.get("FILLED", "/run/filled")))
    else:
        os.kill(os.getpid(), signal.Signals[f"SIG{what}"])


def fill(folder: Path, filled: Path) -> None:
    if filled.exists():
        return
    filled.touch()
    for name, size in (("filler", "64K"), ("rest", "512")):
        command = ["dd", "if=/dev/zero", f"of={folder / name}", f"bs={size}"]
        subprocess.run(command, stderr=subprocess.DEVNULL, check=False)


def main() -> None:
    start = sys.argv.index("-c")
    code, sys.argv = sys.argv[start + 1], ["-c", *sys.argv[start + 2 :]]
    if "ANSWERS" in os.environ:
        urllib.request.urlopen = lambda *_, **__: nullcontext()  # type: ignore[assignment]
    if "NOW" in os.environ:
        now = time.strptime(os.environ["NOW"], "%Y%m%dT%H%M%SZ")
        time.gmtime = lambda *_: now
    if AT:
        sys.settrace(trace)
    exec(compile(code, "<string>", "exec"), {"__name__": "__main__"})  # noqa: S102  the code of the script


if __name__ == "__main__":
    main()
