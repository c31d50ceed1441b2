"""Run other programs as root or as the service, print messages, and end with a reason."""

from __future__ import annotations

import atexit
import fcntl
import io
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import NoReturn

# In a session of its own: a program of the service's user could type commands into root's terminal.
AS_EDGE = ("setsid", "--wait", "setpriv", "--reuid=edge", "--regid=edge", "--clear-groups", "--no-new-privs")
_MISSING = 127  # exit code of a shell for a program that does not exist
_ENDING = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)
_LOCK = "/run/edge-upgrade.lock"
_name = "edge"


def begin(name: str) -> None:
    """Name the script, for its messages. A signal ends it after its temporary files are removed."""
    global _name
    _name = name
    for number in _ENDING:
        signal.signal(number, _end)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # names of readers may have letters that a terminal lacks


def _end(number: int, _: FrameType | None) -> NoReturn:
    """End by a signal, as systemd expects of a service that it stops, but clean up before."""
    signal.signal(number, signal.SIG_DFL)
    atexit.register(os.kill, os.getpid(), number)
    sys.exit(128 + number)


def ignore_signals() -> None:
    """From here on, a broken connection interrupts neither this process nor the programs that it starts."""
    for number in _ENDING:
        signal.signal(number, signal.SIG_IGN)


def alone() -> None:
    """Hold the lock of upgrades until this process ends."""
    lock = os.open(_LOCK, os.O_WRONLY | os.O_CREAT, 0o600)
    os.fchmod(lock, 0o600)  # a user who may open it could hold it; earlier releases let everyone read it
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        fail("another upgrade is running, and nothing was changed")


def say(text: object) -> None:
    with suppress(OSError):  # a broken connection
        print(text, flush=True)


def fail(text: str) -> NoReturn:
    sys.exit(f"{_name}: {text}")


def works(*words: object, given: str | None = None) -> bool:
    """Run a program and show its output. Returns whether it succeeded. `given`: its input."""
    return not _run(words, given=given).returncode


def must(*words: object, is_quiet: bool = False) -> None:
    """Run a program, and end this one if it fails. `is_quiet` hides its output, not its errors."""
    if _run(words, stdout=subprocess.DEVNULL if is_quiet else None).returncode:
        fail(f"{words[0]} {' '.join(str(word) for word in words[1:3])} failed")


def as_edge(*words: object) -> bool:
    """Run a program as the service. Root itself never follows a path in a folder of the service."""
    return works(*AS_EDGE, *words)


def read(*words: object) -> str | None:
    """Return the output of a program, None if it failed. Its errors are those of this one."""
    done = _run(words, stdout=subprocess.PIPE)
    return None if done.returncode else done.stdout


def result(*words: object) -> subprocess.CompletedProcess[str]:
    """Run a program without input, and capture output and errors."""
    return _run(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def _run(
    words: tuple[object, ...],
    *,
    given: str | None = None,
    stdin: int | None = None,
    stdout: int | None = None,
    stderr: int | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run a program. One that is missing fails. Programs inherit ignored signals, SIGPIPE too."""
    command = [str(word) for word in words]
    try:
        return subprocess.run(  # noqa: S603  constant commands, in the path of root
            command,
            input=given,
            stdin=None if given is not None else stdin,
            stdout=stdout,
            stderr=stderr,
            encoding="utf-8",
            errors="replace",
            restore_signals=False,
            check=False,
        )
    except OSError as error:
        return subprocess.CompletedProcess(command, _MISSING, "", f"{command[0]}: {error.strerror}")


def last_line(text: str) -> str:
    """Return the last line with text, printable and without the name of the program."""
    lines = [line for line in text.splitlines() if line.strip()] or [""]
    return "".join(letter for letter in lines[-1].removeprefix("edge: ") if letter.isprintable())


def sync(path: Path) -> None:
    """Write a file or the names in a folder to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
