"""Assets that several machines have: after restores, in conflicts, and merged at the hub."""

from __future__ import annotations

from pathlib import Path

import pytest

from edge import clock
from edge.database.connection import execute
from edge.records import assets
from edge.records.tags import NewTag
from edge.sync import verify
from edge.sync.store import conflicts, hub_link, recovered_history, site_lifecycle
from tests.sync.world import EPOCH, HOUR, Box, Hub, SiteBox, assert_copies, assert_equal


class Company:
    """A hub with two sites."""

    def __init__(self, folder: Path) -> None:
        self.hub = Hub(folder / "hub", "hub")
        self.ber, self.ham = (SiteBox(folder / code, code, self.hub) for code in ("BER", "HAM"))
        for site in (self.ber, self.ham):
            site.join()
        self.settle()

    def settle(self) -> None:
        for _ in range(3):
            self.ber.settle()
            self.ham.settle()

    def add(self, box: Box, key: str, *tags: str) -> int:
        with box.in_use():
            new_tags = [NewTag("rfid", tag) for tag in tags]
            return assets.create(box.actor, name=f"Made at {box.name}", external_key=key, tags=new_tags).id

    def conflicts(self) -> list[conflicts.SyncConflict]:
        with self.hub.in_use():
            return list(conflicts.list_conflicts(self.hub.organization_id).rows)

    def assert_settled(self) -> None:
        """Check that all machines have the same assets, and that nothing differs or waits."""
        self.settle()
        for box in (self.hub, self.ber, self.ham):
            assert box.rows("SELECT * FROM conflict") == [], box.name
        for site in (self.ber, self.ham):
            assert_equal(site)
            assert_copies(site)
            with site.in_use():
                here = hub_link.find()
                assert here
                assert verify.compare(here, site.call) == []
                assert hub_link.change_feed.count_after(here.acked_seq) == 0


@pytest.fixture
def company(tmp_path: Path) -> Company:
    return Company(tmp_path)


def test_a_copy_in_conflict_is_asked_for_after_the_hub_was_restored(company: Company) -> None:
    """Model seed 6002. The hub lost that its asset lives again; the stored copy must not come to life."""
    hub, ber = company.hub, company.ber
    asset = company.add(hub, "OLD", "T")
    company.settle()
    with hub.in_use():
        assets.delete(hub.actor, asset)
    company.settle()
    saved = hub.back_up()
    with hub.in_use():
        assets.restore(hub.actor, asset)
        assets.rename(hub.actor, asset, "NEW")
    own = company.add(ber, "NEW")
    ber.fetch()
    assert ber.rows("SELECT * FROM conflict") != []
    hub.restore(saved)
    with ber.in_use():
        assets.delete(ber.actor, own)
    company.assert_settled()
    assert ber.rows("SELECT external_key FROM asset WHERE deleted_at IS NULL") == []


def test_what_another_site_copied_does_not_replace_what_the_home_says(company: Company) -> None:
    """Model seed 6018. The hub was restored, and a copy came back before the asset itself."""
    hub, ber, ham = company.hub, company.ber, company.ham
    saved = hub.back_up()
    asset = company.add(ham, "H-1", "T")
    company.settle()
    hub.restore(saved)
    other = company.add(hub, "X", "T")
    for _ in range(2):  # it learns that the hub has lost the asset, and gives it back
        ber.settle()
    assert len(company.conflicts()) == 1
    with ham.in_use():
        assets.patch(ham.actor, asset, {"name": "Changed at home"})
    ham.settle()
    with hub.in_use():
        assets.delete(hub.actor, other)
    company.assert_settled()
    assert hub.rows("SELECT name FROM asset WHERE external_key = 'H-1'") == [("Changed at home",)]


@pytest.mark.parametrize("is_copy_first", [False, True])
def test_a_copy_and_its_original_that_wait_for_one_key_are_one_asset(company: Company, is_copy_first: bool) -> None:
    """Model seed 6058. The hub was restored and made another asset with their key."""
    hub, ber, ham = company.hub, company.ber, company.ham
    saved = hub.back_up()
    company.add(ham, "K-1")
    company.settle()
    hub.restore(saved)
    company.add(hub, "K-1")
    for site in (ber, ham) if is_copy_first else (ham, ber):
        for _ in range(2):
            site.settle()
    waiting = company.conflicts()
    with hub.in_use():
        conflicts.rename(hub.actor, waiting[0].site_no, waiting[0].remote_id, "K-2")
    company.assert_settled()
    homes = "SELECT external_key, ifnull(home, '') FROM asset LEFT JOIN mirror ON record_id = id ORDER BY 1"
    assert hub.rows(homes) == [("K-1", "HAM"), ("K-2", "")]


def test_two_assets_of_a_site_that_were_merged_with_one_of_the_hub_come_to_rest(company: Company) -> None:
    """Model seeds 6010 and 5072. The site retires one of them, and both machines know it as retired."""
    hub, ber = company.hub, company.ber
    company.add(hub, "ONE", "T-1", "T-2")
    both = [company.add(ber, f"B-{number}", f"T-{number}") for number in (1, 2)]
    ber.settle()
    for waiting in company.conflicts():
        with hub.in_use():
            conflicts.merge(hub.actor, waiting.site_no, waiting.remote_id)
    company.assert_settled()
    live = ber.rows("SELECT id, external_key FROM asset WHERE deleted_at IS NULL")
    assert [key for _, key in live] == ["ONE"]
    assert live[0][0] in both
    with hub.in_use():
        assets.patch(
            hub.actor,
            hub.rows("SELECT id FROM asset WHERE external_key = 'ONE' AND deleted_at IS NULL")[0][0],
            {"name": "New"},
        )
    company.assert_settled()


def test_a_copy_of_a_site_that_joins_again_does_not_use_ids_again(company: Company) -> None:
    """Model seed 7104. What the copy lacks comes back with `edge sync recover`, which it asks for."""
    ber = company.ber
    copy = ber.copy_files()
    company.add(ber, "LOST")
    ber.settle()
    ber.copy_back(copy)
    company.add(company.ham, "H-1")
    company.ham.settle()
    ber.join_again()
    ber.settle()
    assert ber.rows("SELECT restored_from FROM target") != [(None,)]
    with ber.in_use():
        recovered_history.begin(ber.actor)
    company.assert_settled()
    assert ber.rows("SELECT external_key FROM asset ORDER BY 1") == [("H-1",), ("LOST",)]


def test_a_copy_of_a_site_that_joins_again_does_not_use_track_numbers_again(company: Company) -> None:
    """Else the hub keeps the lost history alone, and `edge sync recover` does not fetch it."""
    ber = company.ber
    copy = ber.copy_files()
    ber.scan(company.add(ber, "LOST"), 0, EPOCH)
    ber.settle()
    ber.copy_back(copy)
    ber.join_again()
    ber.scan(company.add(ber, "NEW"), 1, EPOCH + HOUR)
    ber.settle()
    with ber.in_use():
        recovered_history.begin(ber.actor)
    company.assert_settled()
    seen = "SELECT external_key, last_seen_at FROM track JOIN asset ON id = asset_id ORDER BY 1"
    assert ber.rows(seen) == [("LOST", EPOCH), ("NEW", EPOCH + HOUR)]


@pytest.mark.parametrize("is_copy_first", [False, True])
def test_an_asset_deleted_at_its_home_does_not_come_back_from_a_copy(company: Company, is_copy_first: bool) -> None:
    """The hub was restored to a state without the asset, and its home deleted it before it reported again."""
    hub, ber, ham = company.hub, company.ber, company.ham
    saved = hub.back_up()
    asset = company.add(ham, "H-1", "T")
    company.settle()
    hub.restore(saved)
    with ham.in_use():
        assets.delete(ham.actor, asset)
    for site in (ber, ham) if is_copy_first else (ham, ber):
        for _ in range(2):
            site.settle()
    company.assert_settled()
    for box in (hub, ber, ham):
        assert box.rows("SELECT external_key FROM asset WHERE deleted_at IS NULL") == [], box.name


def test_a_copy_that_a_site_took_for_lost_is_a_copy_again(company: Company) -> None:
    """Model seed 7291. The hub's files were exchanged twice: it did not know its asset, and then as deleted."""
    hub, ber = company.hub, company.ber
    before = hub.copy_files()
    asset = company.add(hub, "ONE")
    with hub.in_use():
        assets.delete(hub.actor, asset)
    deleted = hub.copy_files()
    with hub.in_use():
        assets.restore(hub.actor, asset)
    company.settle()
    hub.copy_back(before)
    ber.fetch()  # it learns that the hub does not know the asset
    hub.copy_back(deleted)
    company.assert_settled()
    for box in (hub, ber):
        assert box.rows("SELECT external_key FROM asset WHERE deleted_at IS NULL") == [], box.name


@pytest.mark.parametrize("has_returned", [False, True])
def test_a_restored_hub_that_forgot_a_code_knows_its_site_again(company: Company, has_returned: bool) -> None:
    """Model seed 8025. A new code of the hub was refused as that of another site."""
    hub, ber = company.hub, company.ber
    asset = company.add(ber, "B-1", "T")
    company.settle()
    saved = hub.back_up()
    with hub.in_use():
        site_lifecycle.rename(hub.actor, ber.site_no, code="X2", name="Renamed")
    ber.name = "X2"
    if has_returned:
        ber.leave()
        ber.rejoin()
    ber.scan(asset, 0, EPOCH)
    ber.settle()
    assert ber.rows("SELECT code FROM target") == [("X2",)]
    hub.restore(saved)
    ber.name = "BER"
    ber.join_again()
    company.assert_settled()
    assert ber.rows("SELECT code FROM target") == [("BER",)]
    assert hub.rows("SELECT external_key FROM asset") == [("B-1",)]


def test_a_copy_that_the_hub_lacks_is_found_though_a_clock_was_ahead(
    company: Company, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Model seed 8021. Such a copy was left alone, as if only the begin of its validity differed."""
    hub, ber = company.hub, company.ber
    with monkeypatch.context() as ahead:
        now = clock.now()
        ahead.setattr(clock, "now", lambda: now + 30 * HOUR)
        asset = company.add(hub, "U-1")
        company.settle()
    with hub.in_use():
        assets.delete(hub.actor, asset)
    company.settle()
    with ber.in_use():
        assert execute("UPDATE asset SET deleted_at = NULL WHERE external_key = 'U-1'").rowcount == 1
        here = hub_link.find()
        assert here
        assert [one.text for one in verify.compare(here, ber.call)] == ["copy of asset U-1"]
    assert ber.rows("SELECT external_key FROM asset WHERE deleted_at IS NULL") == []
