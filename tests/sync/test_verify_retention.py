"""History deleted by retention on one side is no difference; history that the hub never got is listed."""

from __future__ import annotations

from pathlib import Path

import pytest

from edge.sync import verify
from edge.sync.store import hub_link
from edge.tracking import deletion
from tests.sync.world import EPOCH, HOUR, Hub, SiteBox

SOME = EPOCH + 30 * HOUR


@pytest.fixture
def ber(tmp_path: Path) -> SiteBox:
    """Return a site with 60 stays of a pallet."""
    site = SiteBox(tmp_path / "ber", "BER", Hub(tmp_path / "hub", "hub"))
    site.pallet = site.add_asset("P-1")
    for step in range(60):
        site.scan(site.pallet, step % 3, EPOCH + step * HOUR)
    return site


def differences(site: SiteBox) -> list[str]:
    with site.in_use():
        here = hub_link.find()
        assert here
        return [one.text for one in verify.compare(here, site.call)]


def rows(box: SiteBox | Hub) -> int:
    return int(box.rows("SELECT count(*) FROM history")[0][0])


@pytest.mark.parametrize("who", ["hub", "site"])
def test_history_deleted_on_one_side_is_no_difference(ber: SiteBox, who: str) -> None:
    ber.join()
    ber.sync()
    box = ber.hub if who == "hub" else ber
    with box.in_use():
        assert deletion.drop_history(SOME) == 30
    assert differences(ber) == []
    ber.sync()
    assert (rows(box), rows(ber if who == "hub" else ber.hub)) == (30, 60)


def test_history_deleted_at_the_site_stays_at_the_hub(ber: SiteBox) -> None:
    ber.join()
    ber.sync()
    saved = ber.hub.back_up()
    with ber.in_use():
        deletion.drop_history(SOME)
    ber.scan(ber.pallet, 0, EPOCH + 70 * HOUR)
    ber.sync()
    ber.hub.restore(saved)
    ber.settle()
    assert (rows(ber), rows(ber.hub)) == (31, 61)


@pytest.mark.parametrize("is_first_copy", [False, True])
def test_history_deleted_before_it_was_sent_is_listed(ber: SiteBox, is_first_copy: bool) -> None:
    ber.join()
    if not is_first_copy:
        ber.sync()
        for step in range(60, 90):
            ber.scan(ber.pallet, step % 3, EPOCH + step * HOUR)
    with ber.in_use():
        deletion.drop_history(SOME if is_first_copy else EPOCH + 70 * HOUR)
    day = "2023-11-16" if is_first_copy else "2023-11-17"
    assert ber.rows("SELECT what FROM set_aside") == [(f"history before {day}",)]


def test_deleting_sent_history_lists_nothing(ber: SiteBox) -> None:
    ber.join()
    ber.sync()
    with ber.in_use():
        assert deletion.drop_history(SOME) == 30
    assert ber.rows("SELECT what FROM set_aside") == []
    ber.scan(ber.pallet, 1, EPOCH + 80 * HOUR)  # not sent and not deleted
    with ber.in_use():
        assert deletion.drop_history(SOME + 10 * HOUR) == 10
    assert ber.rows("SELECT what FROM set_aside") == []
    ber.settle()
    assert rows(ber.hub) == 61
