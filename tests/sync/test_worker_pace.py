"""The thread of sync leaves the box to the reads that wait."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import Any

import pytest

from edge.sync import worker
from edge.sync.worker import Pace, Worker
from tests.sync.world import Hub, SiteBox


class Rounds:
    """In the place of the event that stops the thread: it ends after some rounds, and knows how long each waited."""

    def __init__(self, rounds: int) -> None:
        self.waited: list[float] = []
        self._rounds = rounds

    def wait(self, seconds: float) -> bool:
        self.waited.append(seconds)
        return len(self.waited) > self._rounds


@pytest.mark.parametrize(("has_reads_waiting", "seconds"), [(False, 5.0), (True, 19.0)])
def test_while_reads_wait_it_works_a_twentieth_of_the_time(
    has_reads_waiting: bool, seconds: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ber = SiteBox(tmp_path / "ber", "BER", Hub(tmp_path / "hub", "hub"))
    clock = count()
    monkeypatch.setattr(worker.time, "thread_time", lambda: next(clock))  # each round takes a second
    one: Any = Worker(ber.folder, Pace(5.0, 0, 14), lambda: has_reads_waiting)
    one._stopping = Rounds(3)
    with ber.in_use():
        one._run()
    assert one._stopping.waited[1:] == [seconds] * 3
