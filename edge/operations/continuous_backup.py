"""Continuous backup: Litestream replicates each change of the database to another drive within seconds.

Litestream reads the write-ahead log in its own process and never blocks the service. This module starts it, stops it
while the drive is unusable (Litestream would otherwise buffer without limit on the first disk), and reports faults.
A replaced database, as after a restore, starts a new folder: each folder holds one history only.
"""

from __future__ import annotations

import json
import logging
import os
import re
import shutil
import sys
import time
from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from prometheus_client import Metric
from prometheus_client.core import GaugeMetricFamily

from edge import clock
from edge.database.connection import FILE_NAME
from edge.errors import EdgeError, SetupError
from edge.events.standby_thread import StandbyThread
from edge.operations.files import replace_text
from edge.operations.health import Check
from edge.texts import N_, fill

if TYPE_CHECKING:
    import subprocess

log = logging.getLogger(__name__)

LOOK_SECONDS = 2.0
LATE_SECONDS = 30.0  # a longer lag is a fault
LEAST_FREE = 64 * 1024 * 1024  # bytes
KEPT_FOLDERS = 4  # histories of the database: the present one and those before the last restores
KEPT_HOURS = 7 * 24  # point-in-time restore window
STOP_SECONDS = 10.0

FULL = N_("%(folder)s is full, only %(megabytes)s MB are free; free disk space or use a larger drive")
SILENT = N_("%(folder)s has not responded for %(seconds)s s; see dmesg, then unplug and replug the drive")
LATE = N_("the copy in %(folder)s is %(seconds)s s behind; see journalctl -u edge")

SETTINGS = "continuous.yml"
_NAME = re.compile(r"(\d{6})-(\d{8}T\d{6}Z)")  # ordered by the number, because the clock may go back
_TIME = "%Y%m%dT%H%M%SZ"
_LTX = re.compile(r"([0-9a-f]{16})-([0-9a-f]{16})\.ltx")


class Position(NamedTuple):
    """Numbers of the newest transaction that Litestream has read, and that has reached the drive."""

    taken: int
    copied: int


def program() -> Path | None:
    """Return the path of Litestream: next to this Python, or on the PATH."""
    next_to_python = Path(sys.executable).parent / "litestream"
    path = str(next_to_python) if next_to_python.exists() else shutil.which("litestream")
    return Path(path) if path else None


def drive_fault(folder: Path, data_dir: Path) -> str | None:
    """Return why the drive is unusable, with advice, or None. Never creates the folder: it could be unmounted."""
    try:
        if not folder.is_dir():
            return fill(N_("%(folder)s does not exist; plug in the drive and mount it"), folder=folder)
        if folder.stat().st_dev == data_dir.stat().st_dev:
            return fill(
                N_("%(folder)s is on the same disk as the database; check that the drive is mounted"), folder=folder
            )
        if os.statvfs(folder).f_flag & os.ST_RDONLY:
            return fill(N_("%(folder)s is read-only; the drive may be failing, see dmesg"), folder=folder)
        free = shutil.disk_usage(folder).free
        if free < LEAST_FREE:
            return fill(FULL, folder=folder, megabytes=free >> 20)
        probe = folder / ".edge-probe"
        probe.write_bytes(b"x" * 4096)
        probe.unlink()
    except OSError as error:
        return fill(N_("%(folder)s cannot be written: %(error)s"), folder=folder, error=str(error))
    return None


def folders(folder: Path) -> list[Path]:
    """List the folders of histories on the drive, newest first."""
    if not folder.is_dir():
        return []
    return sorted((path for path in folder.iterdir() if _NAME.fullmatch(path.name)), reverse=True)


def position(data_dir: Path, target: Path) -> Position:
    return Position(_newest(_state_folder(data_dir)), _newest(target))


def forget_state(data_dir: Path) -> None:
    """Start a new history with the next replication, after the database was replaced."""
    shutil.rmtree(_state_folder(data_dir), ignore_errors=True)


def restore_point(folder: Path, target: Path, at: int | None = None) -> None:
    """Write the database as of `at` (µs), or the newest state, to `target`. Raises SetupError."""
    import subprocess  # a site without a continuous backup runs no other program

    tool = _tool()
    moment = clock.to_datetime(at) if at is not None else None
    candidates = [path for path in folders(folder) if moment is None or _began(path) <= moment]
    if not candidates:
        since = f"; it goes back to {_began(folders(folder)[-1]):%Y-%m-%d %H:%M} UTC" if folders(folder) else ""
        raise SetupError(f"There is no continuous backup of that time in {folder}{since}.")
    when = ["-timestamp", clock.rfc3339(at)] if at is not None else []
    done = subprocess.run(  # noqa: S603  our own program
        [tool, "restore", "-o", target, *when, candidates[0].absolute().as_uri()],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        output = [line for line in done.stderr.splitlines() if line.strip()]
        raise SetupError(f"{candidates[0]} cannot be restored: {output[-1] if output else done.returncode}")
    target.chmod(0o600)


class ContinuousBackup(StandbyThread):
    """Litestream as a child process of the service, with its status."""

    stop_seconds = STOP_SECONDS + 1

    def __init__(self, data_dir: Path, folder: Path) -> None:
        super().__init__("continuous backup", lambda: True, self._check, self._end)
        self._data_dir = data_dir
        self._folder = folder
        self._target = folder
        self._process: subprocess.Popen[bytes] | None = None
        self._drive_fault: str | None = N_("not started yet")
        self._current_at = time.monotonic()  # when the drive was last up to date
        self._looked_at = time.monotonic()

    def start(self) -> None:
        """Start replicating. Raises SetupError if Litestream is not installed."""
        _tool()
        self.start_if_needed()

    def check(self) -> Check:
        fault = self._trouble()
        return Check(
            "continuous_backup", fault is None, fault or N_("changes are copied to the other drive within seconds")
        )

    def sample(self) -> Iterable[Metric]:
        yield GaugeMetricFamily(
            "edge_continuous_backup_ok", "1 while changes are copied to the other drive", float(self._trouble() is None)
        )
        yield GaugeMetricFamily(
            "edge_continuous_backup_behind_seconds", "Time since when the copy is behind", self._behind()
        )
        with suppress(OSError):
            free = shutil.disk_usage(self._folder).free
            yield GaugeMetricFamily("edge_continuous_backup_free_bytes", "Free space on the other drive", free)

    def _trouble(self) -> str | None:
        silent = time.monotonic() - self._looked_at
        if silent > LATE_SECONDS:
            return fill(SILENT, folder=self._folder, seconds=round(silent))
        return self._drive_fault or self.trouble() or None

    def _behind(self) -> float:
        late = time.monotonic() - self._current_at
        return late if late > 2 * LOOK_SECONDS else 0.0

    def _check(self) -> float:
        try:
            self._note(self._look())
        except (EdgeError, OSError) as error:  # the drive was pulled out during the check
            self._note(fill(N_("%(folder)s cannot be used: %(error)s"), folder=self._folder, error=str(error)))
        return LOOK_SECONDS

    def _look(self) -> str | None:
        """Return the present fault. Restarts Litestream if the drive is back or the process has ended."""
        fault = drive_fault(self._folder, self._data_dir)
        self._looked_at = time.monotonic()
        if fault:
            self._end()
            return fault
        if self._process and self._process.poll() is not None:
            code, self._process = self._process.returncode, None
            return fill(N_("litestream exited with %(code)s and is being restarted; see journalctl -u edge"), code=code)
        if self._process is None:
            self._begin()
        if self._is_current():
            self._current_at = time.monotonic()
        if self._behind() > LATE_SECONDS:
            return fill(LATE, folder=self._folder, seconds=round(self._behind()))
        return None

    def _is_current(self) -> bool:
        """True if the drive is up to date. Litestream reads a changed log within two seconds, then copies it."""
        taken, copied = position(self._data_dir, self._target)
        log_file = self._data_dir / f"{FILE_NAME}-wal"
        written = log_file.stat().st_mtime if log_file.exists() else 0.0
        state = _state_folder(self._data_dir) / "ltx" / "0"
        newest = state.stat().st_mtime if state.exists() else 0.0
        return 0 < taken <= copied and written <= newest + 2 * LOOK_SECONDS

    def _note(self, fault: str | None) -> None:
        if fault != self._drive_fault:
            if fault:
                log.error("Continuous backup: %s", fault)
            else:
                log.info("Continuous backup: replicating to %s", self._target)
        self._drive_fault = fault

    def _begin(self) -> None:
        self._target = self._choose_target()
        settings = self._data_dir / SETTINGS
        replace_text(settings, json.dumps(_settings(self._data_dir, self._target)))
        import subprocess

        # Litestream must end with this process. systemd ensures that, and its sandbox forbids setpriv.
        with_us = [] if "INVOCATION_ID" in os.environ else ["setpriv", "--pdeathsig", "TERM"]
        command = [*with_us, str(_tool()), "replicate", "-config", str(settings)]
        self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL)  # noqa: S603  our own program

    def _choose_target(self) -> Path:
        """Return the folder of this history, creating one if needed."""
        before = _target_before(self._data_dir / SETTINGS)
        if _state_folder(self._data_dir).is_dir() and before and before.parent == self._folder and before.is_dir():
            return before
        forget_state(self._data_dir)
        present = folders(self._folder)
        if present and not _newest(present[0]):
            return present[0]  # still empty: a failing copy must not push out working ones
        for old in present[KEPT_FOLDERS - 1 :]:
            shutil.rmtree(old)
        number = int(present[0].name.partition("-")[0]) + 1 if present else 1
        fresh = self._folder / f"{number:06}-{clock.to_datetime(clock.now()):{_TIME}}"
        fresh.mkdir(mode=0o700)
        return fresh

    def _end(self) -> None:
        import subprocess

        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None


def _target_before(settings: Path) -> Path | None:
    """Return the folder used before, or None if the settings file is missing or damaged by a power cut."""
    try:
        return Path(json.loads(settings.read_text("utf-8"))["dbs"][0]["replica"]["path"])
    except (FileNotFoundError, ValueError, LookupError, TypeError):
        return None


def _settings(data_dir: Path, target: Path) -> dict[str, object]:
    """Return the settings of Litestream. They are written as JSON, a subset of YAML."""
    return {
        "logging": {"level": "warn", "type": "text", "stderr": True},
        "snapshot": {"interval": "24h", "retention": f"{KEPT_HOURS}h"},
        "dbs": [
            {
                "path": str((data_dir / FILE_NAME).absolute()),
                "replica": {"type": "file", "path": str(target.absolute()), "sync-interval": "1s"},
            }
        ],
    }


def _tool() -> Path:
    tool = program()
    if tool is None:
        raise SetupError("backup.continuous_dir needs Litestream: pip install 'edge[continuous]', or leave it empty.")
    return tool


def _state_folder(data_dir: Path) -> Path:
    return data_dir / f".{FILE_NAME}-litestream"


def _newest(folder: Path) -> int:
    """Return the newest transaction number in the folder, at any compaction level. Files are named FROM-TO.ltx."""
    matches = (_LTX.fullmatch(file.name) for file in folder.glob("ltx/*/*.ltx"))
    return max((int(match[2], 16) for match in matches if match), default=0)


def _began(folder: Path) -> datetime:
    return datetime.strptime(folder.name.partition("-")[2], _TIME).replace(tzinfo=UTC)
