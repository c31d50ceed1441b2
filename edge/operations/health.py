"""Liveness and readiness: every component registers one check. Also the systemd watchdog and persisted warnings.

Persisted warnings are files left by programs outside the service. Each stays until its file is deleted.
"""

from __future__ import annotations

import contextlib
import logging
import socket
from collections.abc import Callable, Mapping
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from edge.events.standby_thread import StandbyThread
from edge.terminal import printable

log = logging.getLogger(__name__)


class Check(NamedTuple):
    """Result of one check. If not `ok`, `detail` names the fault and its remedy.

    `is_outside`: other devices cause the fault, so the service is ready all the same.
    """

    name: str
    ok: bool
    detail: str
    is_outside: bool = False


class Health:
    """Checks of a running service, evaluated on demand."""

    def __init__(self) -> None:
        self._checks: list[tuple[Callable[[], Check], bool]] = []
        self._names: dict[Callable[[], Check], str] = {}  # as last reported

    def register(self, check: Callable[[], Check], *, is_vital: bool = True) -> None:
        """Add a check. If a vital one fails the service is not alive, otherwise it is only not ready."""
        self._checks.append((check, is_vital))

    def checks(self, *, is_vital_only: bool = False) -> list[tuple[Check, bool]]:
        """Run the checks. Returns each result with whether the check is vital."""
        return [(self._run_check(check), is_vital) for check, is_vital in self._checks if is_vital or not is_vital_only]

    def is_alive(self) -> bool:
        return all(check.ok for check, _ in self.checks(is_vital_only=True))

    def _run_check(self, check: Callable[[], Check]) -> Check:
        """Run a check. One that raises has failed."""
        try:
            answer = check()
        except Exception as error:  # noqa: BLE001  any error is the result of this check
            return Check(self._names.get(check, "part"), False, f"{error}; see the log")
        self._names[check] = answer.name
        return answer


class Watchdog(StandbyThread):
    """Notifies systemd while all vital checks pass. Without the notification systemd restarts the service."""

    def __init__(self, health: Health, notifier: Notifier) -> None:
        super().__init__("watchdog", lambda: notifier.watchdog_seconds > 0, self._look)
        self._health = health
        self._notifier = notifier
        self._reported = ""

    def _look(self) -> float:
        checks = self._health.checks()
        dead = [check for check, is_vital in checks if is_vital and not check.ok]
        if not dead:
            self._notifier.alive()
        trouble = "; ".join(f"{check.name}: {check.detail}" for check, _ in checks if not check.ok)
        if trouble != self._reported:
            self._reported = trouble
            self._notifier.status(trouble or "all ok")
        if dead:
            log.error("Not alive, systemd will restart the service: %s", trouble)
        return self._notifier.watchdog_seconds / 4


HTTPS_WARNINGS = Path("/run/edge-https/warnings")  # written and removed by systemd/edge-https
_MOST, _LENGTH = 20, 500  # at most this many warnings, and characters of each


def persisted_warnings(data_dir: Path, https_warnings: Path = HTTPS_WARNINGS) -> Check:
    """Return the warnings in the data directory, which the operator deletes after reading, and those of edge-https."""
    folders = [folder for folder in (data_dir / "warnings", https_warnings) if folder.is_dir()]
    files = list(chain.from_iterable(sorted(folder.iterdir())[:_MOST] for folder in folders))
    texts = [f"{file.read_text('utf-8', 'replace').strip()[:_LENGTH]} ({file})" for file in files]
    return Check("warnings", not texts, " | ".join(texts) or "none")


class Notifier:
    """Sends notifications to systemd; does nothing without it."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        address = environment.get("NOTIFY_SOCKET", "")
        self._address = "\0" + address[1:] if address.startswith("@") else address
        self.watchdog_seconds = int(environment.get("WATCHDOG_USEC", "0")) / 1_000_000

    def ready(self) -> None:
        self._send("READY=1")

    def alive(self) -> None:
        self._send("WATCHDOG=1")

    def status(self, text: str) -> None:
        self._send(f"STATUS={printable(text)}")  # a newline would begin another assignment

    def stopping(self) -> None:
        self._send("STOPPING=1")

    def _send(self, message: str) -> None:
        if not self._address:
            return
        # systemd may be busy; the next notification follows soon, and the service must not fail because of it.
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel, contextlib.suppress(OSError):
            channel.sendto(message.encode(), self._address)
