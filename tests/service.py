"""The service as a process of its own, as it runs at a site: started, watched from outside, stopped or killed."""

from __future__ import annotations

import os
import re
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from edge.database.connection import FILE_NAME
from tests.mosquitto import free_port

ROOT = Path(__file__).parents[1]
PATIENCE = 60.0  # least limit of each wait, so that no test fails because a machine is slow
START_SECONDS = PATIENCE


class Service:
    """`edge serve` on a data directory; its log goes to `serve.log` next to the database, or elsewhere.

    After a `with` block no process is left, even after an exception.
    """

    def __init__(self, data_dir: Path, broker_url: str, log: Path | None = None, **settings: object) -> None:
        self.data_dir = data_dir
        self.log = log or data_dir / "serve.log"
        self.http = f"http://127.0.0.1:{free_port()}"
        everything = {
            "data_dir": data_dir,
            "http.listen": self.http.removeprefix("http://"),
            "mqtt.broker": broker_url,
            **{name.replace("__", "."): value for name, value in settings.items()},
        }
        flags = [f"--set={name}={value}" for name, value in everything.items()]
        self._edge = [sys.executable, "-m", "edge", *flags]
        self.process: subprocess.Popen[bytes] | None = None
        self.environment: dict[str, str] = {}  # of the service, added to that of this process
        self.enter_group: Callable[[], None] | None = None  # called in the process of the service, before it begins
        self.patience = START_SECONDS  # until it ends
        self._logged_before = 0

    def __enter__(self) -> Service:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process and self.process.poll() is None:
            self.kill()

    def start(self) -> None:
        self._logged_before = self.log.stat().st_size if self.log.exists() else 0
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [*self._edge, "serve"],
                cwd=ROOT,
                stdout=log,
                stderr=log,
                env={**os.environ, "PYTHONPATH": str(ROOT), **self.environment},
                preexec_fn=self.enter_group,
            )

    def run(self, *arguments: str) -> str:
        """Run a command with the settings of the service and return its output. Raises RuntimeError if it fails."""
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        done = subprocess.run([*self._edge, *arguments], cwd=ROOT, env=environment, capture_output=True, check=False)
        if done.returncode:
            raise RuntimeError(f"edge {' '.join(arguments)}: {done.stderr.decode()}")
        return done.stdout.decode()

    def wait_until_connected(self, seconds: float = START_SECONDS) -> None:
        wait_for(lambda: self.has_logged("MQTT: connected"), seconds, self.read_log)

    def has_logged(self, text: str) -> bool:
        return text in self.read_log()

    def read_log(self) -> str:
        """Of the run that goes on."""
        with self.log.open("rb") as log:
            log.seek(self._logged_before)
            return log.read().decode(errors="replace")

    def stop(self) -> float:
        """SIGTERM; returns how many seconds it took."""
        assert self.process
        began = time.monotonic()
        self.process.terminate()
        self.process.wait(self.patience)
        return time.monotonic() - began

    def kill(self) -> None:
        assert self.process
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(self.patience)

    def cpu_seconds(self) -> float:
        """Processor time so far, of all threads."""
        assert self.process
        fields = Path(f"/proc/{self.process.pid}/stat").read_text("ascii").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def resident_megabytes(self) -> float:
        assert self.process
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        found = re.search(r"VmRSS:\s+(\d+) kB", status)
        assert found
        return int(found[1]) / 1024


class LedgerReader:
    """Reads the database of a running service like another process."""

    def __init__(self, data_dir: Path) -> None:
        self._connection = sqlite3.connect(f"file:{data_dir / FILE_NAME}?mode=ro", uri=True, isolation_level=None)

    def one(self, sql: str) -> tuple[Any, ...]:
        row: tuple[Any, ...] = self._connection.execute(sql).fetchone()
        return row

    def all(self, sql: str) -> list[tuple[Any, ...]]:
        try:
            return self._connection.execute(sql).fetchall()
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode == sqlite3.SQLITE_READONLY_ROLLBACK:
                return []  # something was cut off, and the service that undoes it is only starting
            raise

    def ledger(self) -> dict[str, tuple[int, int]]:
        """bucket -> (messages, reads), over all readers and hours."""
        rows = self.all("SELECT bucket, sum(messages), sum(reads) FROM ledger GROUP BY bucket")
        return {bucket: (messages, reads) for bucket, messages, reads in rows}

    def messages(self) -> int:
        return sum(messages for messages, _ in self.ledger().values())

    def close(self) -> None:
        self._connection.close()


def wait_for(
    happened: Callable[[], object], seconds: float = PATIENCE, explain: Callable[[], str] = lambda: ""
) -> None:
    """Return as soon as it has happened; raises TimeoutError after `seconds`, or PATIENCE if that is longer."""
    seconds = max(seconds, PATIENCE)
    deadline = time.monotonic() + seconds
    while not happened():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {seconds} seconds. {explain()}")
        time.sleep(0.01)
