"""Two machines with one identity: the hub refuses the second while the first is active, and all three report it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from edge import clock
from edge.database.connection import FILE_NAME, close_database
from edge.sync import worker
from edge.sync.sender import SecondBox
from edge.sync.store import sites, state
from edge.sync.worker import SyncPace, SyncWorker
from tests.sync.http import Connected
from tests.sync.world import EPOCH, SECOND, Box, Hub, SiteBox, assert_equal


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    now = [EPOCH]
    monkeypatch.setattr(clock, "now", lambda: now[0])
    return now


@pytest.fixture
def ber(tmp_path: Path, time: list[int]) -> SiteBox:
    site = SiteBox(tmp_path / "ber", "BER", Hub(tmp_path / "hub", "hub"))
    site.pallet = site.add_asset("P-1")
    site.join()
    site.sync()
    return site


class Clone(SiteBox):
    """A site's folder copied to another machine."""

    def __init__(self, of: SiteBox, folder: Path) -> None:
        close_database()
        shutil.copytree(of.folder, folder)
        self.__dict__.update(of.__dict__)
        self.folder = folder
        self.spoil = lambda send: send()


def trouble(box: Box) -> str:
    with box.in_use():
        if box.name != "hub":
            return state.site_trouble()
        [reported] = state.site_statuses(box.organization_id)
        return reported.trouble


@pytest.mark.parametrize("has_moved", [False, True])
def test_the_second_machine_is_refused_and_the_first_continues(
    ber: SiteBox, tmp_path: Path, time: list[int], has_moved: bool
) -> None:
    clone = Clone(ber, tmp_path / "clone")
    if has_moved:
        ber.add_asset("P-2")
    for turn in range(10):
        time[0] += 60 * SECOND
        ber.scan(ber.pallet, turn % 3, time[0])
        ber.sync()
        clone.scan(ber.pallet, 2, time[0])
        with pytest.raises(SecondBox, match="another box reports as this site"):
            clone.sync()
    time[0] += SECOND
    ber.sync()
    assert_equal(ber)
    assert ber.rows("SELECT former_epochs, stopped FROM target") == [("[]", None)]
    assert clone.rows("SELECT former_epochs, stopped FROM target") == [("[]", None)]
    assert "the second one is rejected" in trouble(ber.hub)
    assert "the hub rejects it" in trouble(ber)
    time[0] += sites.RIVAL_SHOWN
    ber.sync()
    assert trouble(ber) == trouble(ber.hub) == "", "the copy was switched off"


def test_a_restored_machine_takes_over_once_the_first_is_silent(ber: SiteBox, tmp_path: Path, time: list[int]) -> None:
    successor = Clone(ber, tmp_path / "successor")
    successor.add_asset("P-2")
    with pytest.raises(SecondBox) as refused:
        successor.sync()
    assert 0 < refused.value.wait_seconds <= sites.SILENT / SECOND + 1
    time[0] += int(refused.value.wait_seconds) * SECOND
    successor.sync()
    assert_equal(successor)
    assert trouble(ber.hub) == ""


def test_a_new_code_admits_a_machine_immediately(ber: SiteBox, tmp_path: Path) -> None:
    successor = Clone(ber, tmp_path / "successor")
    successor.join_again()
    successor.sync()
    assert_equal(successor)


def test_the_refused_machine_shows_the_reason(tmp_path: Path, time: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    ber = SiteBox(tmp_path / "ber", "BER", Hub(tmp_path / "hub", "hub"))
    line = Connected(ber)
    ber.join()
    ber.call = line.client.call  # type: ignore[method-assign]
    ber.sync()
    clone = Clone(ber, tmp_path / "clone")
    line.line._site = clone
    refused = SyncWorker(clone.folder, SyncPace(10, 0, 14), lambda: False)
    monkeypatch.setattr(worker, "HubClient", lambda *_: line.client)
    monkeypatch.setattr(worker.files, "read", lambda _: ("", None))
    with clone.in_use():
        with pytest.raises(SecondBox) as error:
            refused._round()
        refused._note(str(error.value), is_rival=True)
    assert error.value.wait_seconds > 0
    assert "another box reports as this site" in trouble(clone)
    assert (clone.folder / FILE_NAME).exists()
