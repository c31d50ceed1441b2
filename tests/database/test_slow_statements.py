"""Slow statements of one organization share one processor; those of others, and writes, do not wait for them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from edge.database import connection, slow_statements
from edge.database.connection import execute, share_processor, writing
from edge.database.slow_statements import LONGEST_STEP, SlowStatements

COUNT = "WITH RECURSIVE n (no) AS (SELECT 1 UNION ALL SELECT no + 1 FROM n WHERE no < 300000) SELECT max(no) FROM n"


class Clock:
    """Time that passes only in `sleep`."""

    def __init__(self) -> None:
        self.now = 0.0
        self.slept: list[float] = []

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(slow_statements, "time", made)
    return made


def elsewhere(slow: SlowStatements, organization_id: int) -> None:
    """Take a step in another thread."""
    thread = threading.Thread(target=slow.pace, args=(organization_id, 0.0))
    thread.start()
    thread.join()


def test_a_statement_sleeps_as_long_as_the_others_of_its_organization_work(time: Clock) -> None:
    slow = SlowStatements()
    slow.pace(1, 0.001)
    elsewhere(slow, 2)
    slow.pace(1, 0.001)
    assert time.slept == []
    holds = [threading.Event() for _ in range(2)]
    began = threading.Barrier(3)
    for hold in holds:
        threading.Thread(target=_step_and_wait, args=(slow, began, hold), daemon=True).start()
    began.wait(60)
    time.slept.clear()
    slow.pace(1, 0.001)
    slow.pace(1, 5.0)
    assert time.slept == [0.002, 2 * LONGEST_STEP]
    time.now += 1.0  # the others have ended
    time.slept.clear()
    slow.pace(1, 0.001)
    assert time.slept == []
    for hold in holds:
        hold.set()


def _step_and_wait(slow: SlowStatements, began: threading.Barrier, hold: threading.Event) -> None:
    """Take a step, and stay, since threads that ended give their numbers to others."""
    slow.pace(1, 0.0)
    began.wait(60)
    hold.wait(60)


@pytest.fixture
def paced(store: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Return the organizations of all slow steps."""
    steps: list[int] = []
    monkeypatch.setattr(connection, "SLOW_SECONDS", -1.0)
    monkeypatch.setattr(connection._slow, "pace", lambda organization_id, _step: steps.append(organization_id))
    yield steps
    share_processor(None)


def test_reads_of_an_organization_are_paced(paced: list[int]) -> None:
    execute(COUNT).fetchall()
    assert paced == []
    share_processor(7)
    execute(COUNT).fetchall()
    assert set(paced) == {7}
    paced.clear()
    share_processor(None)
    execute(COUNT).fetchall()
    assert paced == []


def test_a_writing_transaction_does_not_wait_for_reads(paced: list[int]) -> None:
    share_processor(7)
    with writing():
        execute(COUNT).fetchall()
    assert paced == []
