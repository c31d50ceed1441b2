"""The service during an upgrade: its address and answers, its last words, and the broker that keeps its reads."""

from __future__ import annotations

import os
import re
import signal
import threading
import time
import urllib.request
from contextlib import suppress
from http.client import HTTPException
from pathlib import Path

from edge.operations.root.places import EDGE
from edge.operations.root.programs import last_line, result

PAGES = ("/healthz", "/sign-in", "/api/openapi.json")
_HOST_OF_ALL = {"0.0.0.0": "127.0.0.1", "[::]": "[::1]"}  # noqa: S104  a listening address of the settings
_AGENT = {"User-Agent": "edge-upgrade/1"}
_PAUSE = 0.2  # seconds
_SAVE_PAUSE = 0.1  # seconds
_BYTES_PER_SECOND = 20_000_000  # of the queue, for saves by a slow disk
_QUEUE = Path("/var/lib/mosquitto/mosquitto.db")
_SAVING = "save reads"


def address() -> str:
    """Return the address of the service on this box."""
    return local_address(result(EDGE, "config").stdout)


def local_address(settings: str) -> str:
    """Return the address in the output of `edge config`; loopback if the service listens on all addresses."""
    listen = re.search(r"^http\.listen = (.*)$", settings, re.MULTILINE)
    host, colon, port = (listen[1] if listen else "").rpartition(":")
    return f"http://{_HOST_OF_ALL.get(host, host)}{colon}{port}"


def unanswered(base: str, seconds: float, *paths: str) -> str:
    """Wait until each path is answered, at most so many seconds. Returns the first that is not, or an empty string."""
    deadline = time.monotonic() + seconds
    for path in paths:
        while not _is_answered(base + path):
            if time.monotonic() >= deadline:
                return path
            time.sleep(_PAUSE)
    return ""


def _is_answered(url: str) -> bool:
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=_AGENT), timeout=10):  # noqa: S310  http
            return True
    except (OSError, HTTPException, ValueError):
        return False


def reason() -> str:
    """Return the last line that the service logged, without the lines of a traceback."""
    log = result("journalctl", "-u", "edge", "-n", "20", "-o", "cat", "--no-pager", "_SYSTEMD_UNIT=edge.service").stdout
    return last_line("\n".join(line for line in log.splitlines() if not line[:1].isspace()))


def save_reads() -> None:
    """Let mosquitto save the waiting reads several times a second until this process ends.

    While the service is away, they are only in the memory of mosquitto.
    """
    if not any(thread.name == _SAVING for thread in threading.enumerate()):
        threading.Thread(target=_save_reads, name=_SAVING, daemon=True).start()


def _save_reads() -> None:
    pid = 0
    while True:
        pid = let_broker_save(pid)
        time.sleep(_pause() if pid else 1)


def let_broker_save(pid: int) -> int:
    """Signal mosquitto, which had this process id. Returns its present one, 0 if it does not run."""
    if _name_of(pid) != "mosquitto":
        pid = int(result("systemctl", "show", "--property", "MainPID", "--value", "mosquitto").stdout or 0)
    if pid:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGUSR1)
    return pid


def _pause() -> float:
    """Return the seconds between two saves. Each writes the whole queue, and mosquitto does nothing else meanwhile."""
    try:
        return _SAVE_PAUSE + _QUEUE.stat().st_size / _BYTES_PER_SECOND
    except OSError:
        return _SAVE_PAUSE


def _name_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text("utf-8").strip()
    except OSError:
        return ""
