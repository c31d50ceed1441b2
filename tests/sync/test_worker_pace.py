"""The sync thread yields to waiting reads."""

from __future__ import annotations

import time
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from edge import clock
from edge.clock import now
from edge.sync import files, sender, worker
from edge.sync.sender import LinkError
from edge.sync.store import hub_link
from edge.sync.worker import SyncPace, SyncWorker
from tests.sync.http import SECRET, Connected
from tests.sync.world import Hub, SiteBox


def waits(one: SyncWorker, rounds: int) -> list[float]:
    """Run some rounds. Returns the wait after each."""
    return [one.work() for _ in range(rounds)]


@pytest.mark.parametrize(("has_reads_waiting", "seconds"), [(False, 5.0), (True, 39.0)])
def test_sync_works_a_fortieth_of_the_time_while_reads_wait(
    has_reads_waiting: bool, seconds: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ber = SiteBox(tmp_path / "ber", "BER", Hub(tmp_path / "hub", "hub"))
    seconds_of_work = count()
    # Each round takes one second. Only the worker sees this clock, because the database measures its statements, too.
    clocks = SimpleNamespace(monotonic=time.monotonic, thread_time=lambda: next(seconds_of_work))
    monkeypatch.setattr(worker, "time", clocks)
    one = SyncWorker(ber.folder, SyncPace(5.0, 0, 14), lambda: has_reads_waiting)
    with ber.in_use():
        assert waits(one, 3) == [seconds] * 3


def test_a_lost_connection_is_retried_immediately_and_then_slowly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ber = SiteBox(tmp_path / "ber", "BER", Hub(tmp_path / "hub", "hub"))
    ber.join()
    files.write(ber.folder, "secret", "")
    waited: list[float] = []

    class Client:
        """A client with failed connections in rounds 3, 5 and 6."""

        sent = received = 0

        def __init__(self, *_: object) -> None:
            pass

        def call(self, path: str, body: bytes) -> Any:
            if len(waited) in (2, 4, 5):
                raise LinkError("cut")
            return ber.call(path, body)

        def close(self) -> None:
            pass

    monkeypatch.setattr(worker, "HubClient", Client)
    noted: list[str] = []
    update = hub_link.update

    def watched(**values: Any) -> None:
        noted.extend([values["last_error"]] if values.get("last_error") else [])
        update(**values)

    monkeypatch.setattr(hub_link, "update", watched)
    monkeypatch.setattr(sender, "SILENCE", -1)  # polls the hub in each round
    one = SyncWorker(ber.folder, SyncPace(5.0, 0, 14), lambda: False)
    with ber.in_use():
        for _ in range(6):
            waited.append(one.work())
    _first, _second, cut, _fourth, cut_again, away = waited
    assert max(cut, cut_again) < 0.2
    assert 0.5 < away < 5
    assert noted == ["cut", "cut"]  # not a third time, since nothing has changed


@pytest.mark.parametrize("direction", ["sent", "received"])
def test_sent_and_received_bytes_count_toward_the_daily_limit(
    direction: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mobile plan bills both. The counter restarts each UTC day."""
    ber = SiteBox(tmp_path / "ber", "BER", Hub(tmp_path / "hub", "hub"))
    link = Connected(ber)
    ber.join()
    files.write(ber.folder, SECRET, "")
    sent: list[str] = []

    def counted(_url: str, *_: object) -> Any:
        client = link.client
        call = client.call

        def noted(path: str, body: bytes) -> Any:
            sent.append(path)
            answer = call(path, body)
            setattr(client, "received" if direction == "sent" else "sent", 0)
            return answer

        monkeypatch.setattr(client, "call", noted)
        return client

    monkeypatch.setattr(worker, "HubClient", counted)
    today = now()
    monkeypatch.setattr(clock, "now", lambda: today)
    one = SyncWorker(ber.folder, SyncPace(5.0, 1, 14), lambda: False)
    with ber.in_use():
        waits(one, 4)
    assert "used up" in ber.rows("SELECT last_error FROM target")[0][0]
    first = len(sent)
    monkeypatch.setattr(clock, "now", lambda: today + clock.DAY)
    with ber.in_use():
        waits(one, 4)
    assert len(sent) > first > 0
