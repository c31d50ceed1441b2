"""A stand-in for systemd that restarts a service that ends by itself."""

from __future__ import annotations

import re
import signal
import threading
import time
from collections import Counter
from pathlib import Path

from tests.service import ROOT, Service

LOOK_SECONDS = 0.05
_UNIT = (ROOT / "systemd" / "edge.service").read_text("utf-8")


def _of_unit(name: str) -> int:
    match = re.search(rf"^{name}=(\d+)$", _UNIT, re.MULTILINE)
    assert match
    return int(match[1])


class SupervisedService(Service):
    """Counts unexpected ends of the service by cause. Starts, stops and kills by the test do not count."""

    RESTART_SECONDS = _of_unit("RestartSec")
    NEVER_AFTER = _of_unit("RestartPreventExitStatus")

    def __init__(self, data_dir: Path, broker_url: str, log: Path | None = None, **settings: object) -> None:
        super().__init__(data_dir, broker_url, log, **settings)
        self.ended_by_itself: Counter[str] = Counter()
        self._turn = threading.RLock()
        self._is_expected = False
        self._ended_at: float | None = None
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="supervisor", daemon=True)

    def __enter__(self) -> SupervisedService:
        self._thread.start()
        return self

    def __exit__(self, *given: object) -> None:
        self._stopping.set()
        self._thread.join()
        super().__exit__(*given)

    def start(self) -> None:
        with self._turn:
            super().start()
            self._is_expected = True

    def stop(self) -> float:
        with self._turn:
            self._let_go()
        return super().stop()

    def kill(self) -> None:
        with self._turn:
            self._let_go()
        super().kill()

    def has_given_up(self) -> bool:
        """True if systemd would not restart it, because its database is damaged."""
        return bool(self.ended_by_itself[f"exit {self.NEVER_AFTER}"])

    def _let_go(self) -> None:
        self._note_end()
        self._is_expected, self._ended_at = False, None

    def _note_end(self) -> None:
        code = self.process.poll() if self.process and self._is_expected and self._ended_at is None else None
        if code is not None:
            self._ended_at = time.monotonic()
            how = signal.Signals(-code).name if code < 0 else f"exit {code}"
            self.ended_by_itself[how] += 1
            print(f"the service ended by itself: {how}", flush=True)

    def _run(self) -> None:
        while not self._stopping.wait(LOOK_SECONDS):
            with self._turn:
                self._note_end()
                if self._ended_at is None or self.has_given_up():
                    continue
                if time.monotonic() - self._ended_at > self.RESTART_SECONDS:
                    self._ended_at = None
                    super().start()
