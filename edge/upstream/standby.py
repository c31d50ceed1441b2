"""The start of upstream in the service. The other modules are loaded only once there is one."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from edge.events.standby_thread import StandbyThread
from edge.sync.store import change_feed

if TYPE_CHECKING:
    from edge.upstream.worker import UpstreamWorker


class UpstreamStandby(StandbyThread):
    """Starts the worker of upstreams when there is one."""

    def __init__(self, authority_file: Path | None, has_reads_waiting: Callable[[], bool]) -> None:
        super().__init__("upstream", change_feed.has_upstream, self._work, self._close)
        self._authority_file = authority_file
        self._has_reads_waiting = has_reads_waiting
        self._worker: UpstreamWorker | None = None

    def _work(self) -> float:
        if self._worker is None:
            self._worker = import_module("edge.upstream.worker").UpstreamWorker(
                self._authority_file, self._has_reads_waiting, lambda: self.is_stopping
            )
        return self._worker.work()

    def _close(self) -> None:
        if self._worker is not None:
            self._worker.close()


def troubles() -> list[str]:
    """Return one sentence for each service that has not been usable for an hour."""
    sentences: list[str] = import_module("edge.upstream.upstreams").troubles() if change_feed.has_upstream() else []
    return sentences
