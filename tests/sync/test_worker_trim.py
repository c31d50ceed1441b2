"""What a site keeps for its hub is limited: changes that wait, acknowledged changes, and checkpoints of both."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from edge import clock
from edge.errors import SetupError
from edge.sync import files, sender, worker
from edge.sync.sender import LinkError
from edge.sync.store import hub_link
from edge.sync.worker import SyncPace, SyncWorker
from tests.sync.http import SECRET
from tests.sync.test_worker_pace import waits
from tests.sync.world import EPOCH, HOUR, Hub, SiteBox, assert_equal

KEPT_DAYS = 14


@pytest.fixture
def ber(tmp_path: Path) -> SiteBox:
    site = SiteBox(tmp_path / "ber", "BER", Hub(tmp_path / "hub", "hub"))
    site.pallet = site.add_asset("P-1")
    site.join()
    files.write(site.folder, SECRET, "")
    return site


def work(site: SiteBox, monkeypatch: pytest.MonkeyPatch, rounds: int = 1) -> None:
    """Run the worker with a client that reaches the hub directly."""

    class Client:
        sent = received = 0

        def __init__(self, *_: object) -> None:
            pass

        def call(self, path: str, body: bytes) -> Any:
            return site.call(path, body)

        def close(self) -> None:
            pass

    monkeypatch.setattr(worker, "HubClient", Client)
    monkeypatch.setattr(worker, "TRIM_SECONDS", -1)
    monkeypatch.setattr(sender, "SILENCE", -1)
    one = SyncWorker(site.folder, SyncPace(5.0, 0, KEPT_DAYS), lambda: False)
    with site.in_use():
        waits(one, rounds)


def test_the_oldest_changes_are_dropped_if_too_many_wait(ber: SiteBox, monkeypatch: pytest.MonkeyPatch) -> None:
    for step in range(30):
        ber.scan(ber.pallet, step % 3, EPOCH + step * HOUR)
    monkeypatch.setattr(worker, "MAX_FEED", 10)
    ber.spoil = lambda _send: (_ for _ in ()).throw(LinkError("the line is cut"))
    work(ber, monkeypatch)
    newest = ber.rows("SELECT max(seq) FROM change")[0][0]
    assert ber.rows("SELECT seq FROM change ORDER BY seq")[0] == (newest - 9,)
    assert ber.rows("SELECT verify_wanted FROM target") == [(1,)]
    ber.spoil = lambda send: send()
    ber.settle()
    assert_equal(ber)


def test_waiting_changes_within_the_limit_are_kept(ber: SiteBox, monkeypatch: pytest.MonkeyPatch) -> None:
    for step in range(5):
        ber.scan(ber.pallet, step % 3, EPOCH + step * HOUR)
    ber.spoil = lambda _send: (_ for _ in ()).throw(LinkError("the line is cut"))
    before = ber.rows("SELECT seq FROM change")
    monkeypatch.setattr(worker, "MAX_FEED", len(before))
    work(ber, monkeypatch)
    assert ber.rows("SELECT seq FROM change") == before
    assert ber.rows("SELECT verify_wanted FROM target") == [(0,)]


def test_acknowledged_changes_are_dropped_after_some_days(ber: SiteBox, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [EPOCH]
    monkeypatch.setattr(clock, "now", lambda: now[0])
    ber.sync()
    for days, are_kept in ((KEPT_DAYS - 1, True), (KEPT_DAYS + 1, False)):
        now[0] = EPOCH + days * clock.DAY
        work(ber, monkeypatch)
        assert bool(ber.rows("SELECT seq FROM change")) is are_kept


def test_leaving_a_hub_without_its_own_authority_removes_the_secret(ber: SiteBox) -> None:
    files.remove(ber.folder)
    files.remove(ber.folder)
    with pytest.raises(SetupError):
        files.read(ber.folder)


def test_old_checkpoints_are_thinned_out_to_one_an_hour(ber: SiteBox, monkeypatch: pytest.MonkeyPatch) -> None:
    """A site has a checkpoint for each batch, up to one every few seconds."""
    now = [EPOCH]
    monkeypatch.setattr(clock, "now", lambda: now[0])
    monkeypatch.setattr(hub_link, "EXACT_CHECKPOINTS", 3)
    for quarter in range(12):
        now[0] = EPOCH // HOUR * HOUR + quarter * HOUR // 4
        ber.scan(ber.pallet, quarter % 3, now[0])
        ber.sync()
    work(ber, monkeypatch)
    kept = [at // (HOUR // 4) % 12 for (at,) in ber.rows("SELECT at FROM checkpoint ORDER BY seq")]
    first = EPOCH // HOUR * 4 % 12
    assert [(quarter - first) % 12 for quarter in kept][-5:] == [3, 7, 9, 10, 11]


def test_the_feed_is_trimmed_every_ten_minutes(ber: SiteBox, monkeypatch: pytest.MonkeyPatch) -> None:
    now, trimmed = [10_000.0], []
    monkeypatch.setattr(worker, "time", SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr(worker.hub_link, "trim", lambda *_: trimmed.append(now[0]))
    one = SyncWorker(ber.folder, SyncPace(5.0, 0, KEPT_DAYS), lambda: False)
    with ber.in_use():
        here = hub_link.find()
        assert here
        for now[0] in (10_599.0, 10_600.0, 10_700.0):
            one._trim(here)
    assert trimmed == [10_600.0]


def test_a_lasting_fault_is_recorded_once_a_minute(ber: SiteBox, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page shows since when and until when it was noticed; each write costs a commit."""
    now = [EPOCH]
    monkeypatch.setattr(clock, "now", lambda: now[0])
    one = SyncWorker(ber.folder, SyncPace(5.0, 0, KEPT_DAYS), lambda: False)
    with ber.in_use():
        seen = []
        for seconds in (0, 59, 60, 90, 120):
            now[0] = EPOCH + seconds * clock.SECOND
            one._note("no line")
            here = hub_link.find()
            assert here
            seen.append(((here.last_error_at or 0) - EPOCH) // clock.SECOND)
    assert seen == [0, 0, 60, 60, 120]
