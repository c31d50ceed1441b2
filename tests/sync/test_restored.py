"""Boxes that come back from a backup, and boxes that are copies of others."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from edge.ops import backup
from edge.ops.backup import Kept
from edge.store import target
from edge.store.database import FILE_NAME, close_database
from edge.sync import verify
from edge.sync.sender import Stopped
from tests.sync.world import EPOCH, HOUR, Box, Hub, SiteBox, assert_equal, hub_dump, site_dump

KEPT = Kept(7, 4)


@pytest.fixture
def ber(tmp_path: Path) -> SiteBox:
    site = SiteBox(tmp_path / "ber", "BER", Hub(tmp_path / "hub", "hub"))
    site.pallet = site.add_asset("P-1")
    site.join()
    travel(site, 0)
    site.sync()
    return site


def travel(site: SiteBox, first: int) -> None:
    for step in range(first, first + 5):
        site.scan(site.pallet, step % 3, EPOCH + step * HOUR)


def back_up(box: Box) -> Path:
    with box.in_use():
        return backup.make_backup(box.folder, box.folder / "backups", KEPT).backup.path


def restore(box: Box, file: Path) -> None:
    close_database()
    backup.restore_backup(file, box.folder)


def copy_of(box: Box) -> Path:
    close_database()
    return Path(shutil.copy(box.folder / FILE_NAME, box.folder / "copied.db"))


def test_a_restored_hub_is_filled_again(ber: SiteBox) -> None:
    saved = back_up(ber.hub)
    for first in (10, 20, 30):
        travel(ber, first)
        ber.add_asset(f"P-{first}")
        ber.sync()
    restore(ber.hub, saved)
    travel(ber, 40)
    ber.sync()
    assert_equal(ber)


def test_a_hub_restored_from_before_what_the_site_remembers_is_filled_by_comparing(ber: SiteBox) -> None:
    saved = back_up(ber.hub)
    travel(ber, 10)
    ber.add_asset("P-2")
    ber.sync()
    with ber.in_use():
        target.trim(EPOCH * 1000, 1000)
    assert ber.rows("SELECT count(*) FROM change") == [(0,)]
    restore(ber.hub, saved)
    travel(ber, 20)
    ber.sync()
    with ber.in_use():
        here = target.find()
        assert here
        assert here.verify_wanted
        assert "sent again" in verify.repair(here, verify.compare(here, ber.call))
    ber.sync()
    assert_equal(ber)


def test_a_restored_site_goes_on_and_the_hub_keeps_what_it_has_more(ber: SiteBox) -> None:
    saved = back_up(ber)
    travel(ber, 10)
    ber.sync()
    newer = hub_dump(ber)["history"]
    restore(ber, saved)
    ber.sync()
    assert hub_dump(ber)["history"] == newer
    assert hub_dump(ber)["tracks"][0][3] == EPOCH + 14 * HOUR
    travel(ber, 20)
    ber.sync()
    kept = hub_dump(ber)["history"]
    assert set(site_dump(ber)["history"]) < set(kept)
    assert {row[3] for row in kept} == {EPOCH + hours * HOUR for hours in (*range(5), *range(10, 15), *range(20, 25))}


def test_files_copied_back_are_another_state_of_the_site_once(ber: SiteBox) -> None:
    copied = copy_of(ber)
    travel(ber, 10)
    crate = ber.add_asset("P-2")
    ber.scan(crate, 0, EPOCH)
    ber.sync()
    close_database()
    shutil.copy(copied, ber.folder / FILE_NAME)
    other = ber.add_asset("P-3")
    ber.scan(other, 1, EPOCH)
    ber.sync()
    kept = {(row[0], row[3]) for row in hub_dump(ber)["history"]}
    assert {("P-2", EPOCH), ("P-3", EPOCH), ("P-1", EPOCH + 10 * HOUR)} <= kept
    close_database()
    shutil.copy(copied, ber.folder / FILE_NAME)
    with pytest.raises(Stopped, match="another database speaks for this site"):
        ber.sync()


def test_of_two_boxes_from_one_image_the_first_stops_when_the_second_speaks(ber: SiteBox) -> None:
    copied = copy_of(ber)
    travel(ber, 10)
    ber.sync()
    close_database()
    first = shutil.copy(ber.folder / FILE_NAME, ber.folder / "first.db")
    shutil.copy(copied, ber.folder / FILE_NAME)
    ber.sync()
    close_database()
    shutil.copy(first, ber.folder / FILE_NAME)
    with pytest.raises(Stopped):
        ber.sync()
