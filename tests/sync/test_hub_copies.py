"""Restored or copied hubs with sites that have newer data: records are never confused, and all conflicts resolve."""

from __future__ import annotations

from pathlib import Path

import pytest

from edge.errors import Unavailable
from edge.records import assets
from edge.sync.sender import MOST_NEEDS, LinkError, Sender
from edge.sync.store import conflicts, epochs, recovered_history
from edge.sync.store.exchange import HubState
from tests.sync.world import EPOCH, HOUR, Box, Hub, SiteBox, assert_equal

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("engine")]


class Company:
    def __init__(self, folder: Path) -> None:
        self.hub = Hub(folder / "hub", "hub")
        self.ber, self.ham = (SiteBox(folder / code, code, self.hub) for code in ("BER", "HAM"))
        self.sites = (self.ber, self.ham)
        for site in self.sites:
            site.join()
            site.sync()

    def settle(self, *order: SiteBox) -> None:
        for _ in range(3):
            for site in order or self.sites:
                site.settle()

    def assert_settled(self) -> None:
        for site in self.sites:
            assert_equal(site)
        for box in (self.hub, *self.sites):
            assert box.rows("SELECT reason, record FROM conflict") == []
            assert box.rows("SELECT what, reason FROM set_aside") == []


@pytest.fixture
def company(tmp_path: Path) -> Company:
    return Company(tmp_path)


def add_at_hub(hub: Hub, key: str) -> int:
    with hub.in_use():
        return assets.create(hub.actor, name=f"Pallet {key}", external_key=key).id


def id_of(box: Box, key: str) -> int:
    [(asset_id,)] = box.rows(f"SELECT id FROM asset WHERE external_key = '{key}' AND deleted_at IS NULL")
    return int(asset_id)


def scanned_at(box: Box, key: str) -> list[int]:
    sql = "SELECT observed_at FROM history JOIN track ON track.no = position_no JOIN asset ON asset.id = asset_id "
    return [at for (at,) in box.rows(sql + f"WHERE external_key = '{key}' ORDER BY 1")]


@pytest.mark.parametrize("made_at", ["hub", "HAM"])
@pytest.mark.parametrize("is_sent", [False, True])
@pytest.mark.parametrize("first", ["BER", "HAM"])
def test_a_copied_hub_never_confuses_assets(company: Company, made_at: str, is_sent: bool, first: str) -> None:
    copied = company.hub.copy_files()
    if made_at == "hub":
        add_at_hub(company.hub, "P-1")
    else:
        company.ham.add_asset("P-1", "AA01")
        company.ham.sync()
    mistaken = id_of(company.hub, "P-1")
    company.ber.fetch()
    company.ber.scan(id_of(company.ber, "P-1"), 1, EPOCH)
    if is_sent:
        company.ber.sync()
    company.hub.copy_back(copied)
    assert add_at_hub(company.hub, "Q-1") == mistaken, "the copy assigns the same id a second time"
    company.settle(*sorted(company.sites, key=lambda site: site.name != first))
    assert scanned_at(company.hub, "Q-1") == []
    assert scanned_at(company.hub, "P-1") == [EPOCH]
    company.ham.scan(id_of(company.ham, "Q-1"), 0, EPOCH + HOUR)
    company.ber.scan(id_of(company.ber, "P-1"), 2, EPOCH + HOUR)
    company.settle()
    assert scanned_at(company.hub, "Q-1") == [EPOCH + HOUR]
    assert scanned_at(company.hub, "P-1") == [EPOCH, EPOCH + HOUR]
    company.assert_settled()


def test_an_outdated_hub_skips_ids_before_accepting_data(company: Company) -> None:
    copied = company.hub.copy_files()
    for number in range(5):
        add_at_hub(company.hub, f"P-{number}")
    given = {id_of(company.hub, f"P-{number}") for number in range(5)}
    company.ber.fetch()
    company.hub.copy_back(copied)
    before = company.hub.rows("SELECT epoch FROM hub")
    company.ber.sync()
    assert company.hub.rows("SELECT epoch FROM hub") != before
    assert company.hub.rows("SELECT epoch FROM former_hub_epoch") == before
    assert not given & {add_at_hub(company.hub, f"Q-{number}") for number in range(9)}
    company.settle()
    company.assert_settled()
    with company.hub.in_use():
        present = epochs.hub_epoch()
        epochs.check_not_behind(HubState(before[0][0], 10**9, "mark"))
        assert epochs.hub_epoch() == present, "an earlier epoch says nothing of this one"


def test_a_hub_copied_back_twice_starts_one_epoch_each_time(company: Company, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(epochs, "RENEW_AGAIN", HOUR)
    copied = company.hub.copy_files()
    for key in ("P-1", "P-2"):
        add_at_hub(company.hub, key)
        company.ber.fetch()
        company.hub.copy_back(copied)
        company.settle()
    company.assert_settled()


def test_wrong_reports_cannot_make_the_hub_start_over_repeatedly(
    company: Company, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(epochs, "RENEW_AGAIN", HOUR)
    with company.hub.in_use():
        epochs.check_not_behind(HubState("no epoch of this hub", 1, "mark"))
        present = epochs.hub_epoch()
    company.ber.settle()
    with company.ham.in_use():
        company.ham.rows("SELECT 1")
    company.hub.rows("SELECT 1")
    with company.hub.in_use(), pytest.raises(Unavailable, match="older than what this site has seen"):
        epochs.check_not_behind(HubState("nor this one", 1, "mark"))
    assert company.hub.rows("SELECT epoch FROM hub") == [(present,)]


@pytest.mark.parametrize("first", ["BER", "HAM"])
@pytest.mark.parametrize("is_renamed", [False, True])
def test_a_restored_hub_with_newer_mirrors_resolves_automatically(
    company: Company, first: str, is_renamed: bool
) -> None:
    saved = company.hub.back_up()
    pallet = company.ham.add_asset("P-1", "AA01")
    company.ham.scan(pallet, 0, EPOCH)
    company.ham.sync()
    company.ber.settle()
    company.ber.scan(id_of(company.ber, "P-1"), 1, EPOCH + HOUR)
    company.ber.settle()
    company.hub.restore(saved)
    if is_renamed:
        with company.ham.in_use():
            assets.rename(company.ham.actor, pallet, "P-2")
    company.settle(*sorted(company.sites, key=lambda site: site.name != first))
    company.assert_settled()
    assert scanned_at(company.hub, "P-2" if is_renamed else "P-1") == [EPOCH, EPOCH + HOUR]
    assert company.hub.rows("SELECT home FROM mirror JOIN asset ON id = record_id WHERE deleted_at IS NULL") == [
        ("HAM",)
    ]


@pytest.mark.parametrize("is_reported", [False, True])
def test_a_key_created_again_before_a_recovery_resolves_automatically(company: Company, is_reported: bool) -> None:
    ber = company.ber
    saved = ber.back_up()
    lost = ber.add_asset("P-1", "AA01")
    ber.scan(lost, 0, EPOCH)
    ber.sync()
    ber.restore(saved)
    again = ber.add_asset("P-1", "AA01")
    ber.scan(again, 1, EPOCH + HOUR)
    if is_reported:
        company.settle()
    with ber.in_use():
        recovered_history.begin(ber.actor)
    company.settle()
    company.assert_settled()
    assert id_of(ber, "P-1") == again
    assert scanned_at(ber, "P-1") == [EPOCH, EPOCH + HOUR], "the history of the lost one is back"
    assert ber.rows(f"SELECT deleted_at IS NOT NULL FROM asset WHERE id = {lost}") == [(1,)]


def test_a_new_asset_with_the_key_of_a_lost_one_is_a_conflict(company: Company) -> None:
    """The hub was copied back, and somebody gave a lost asset's key to another one."""
    copied = company.hub.copy_files()
    add_at_hub(company.hub, "P-1")
    company.ber.fetch()
    company.ber.scan(id_of(company.ber, "P-1"), 0, EPOCH)
    company.hub.copy_back(copied)
    other = add_at_hub(company.hub, "P-1")
    company.settle()
    with company.hub.in_use():
        [conflict] = conflicts.list_conflicts(company.hub.organization_id).rows
        assert conflict.local_id == other
        conflicts.rename(company.hub.actor, conflict.site_no, conflict.remote_id, "P-2")
    company.settle()
    company.assert_settled()
    assert scanned_at(company.hub, "P-1") == [EPOCH]
    assert scanned_at(company.hub, "P-2") == []


def test_a_site_that_disagrees_with_its_hub_starts_one_epoch_and_waits(
    company: Company, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("edge.sync.sender.RENEW_AGAIN", HOUR)
    ber = company.ber
    copied = ber.copy_files()
    ber.add_asset("P-1")
    ber.sync()
    ber.copy_back(copied)
    ber.sync()
    [(former,)] = ber.rows("SELECT json_array_length(former_epochs) FROM target")
    assert former == 1
    company.hub.rows("SELECT 1")
    ber.spoil = lambda send: {**send(), "cursor": ["another epoch", 5, ""], "applied": False, "needs": {}}
    ber.add_asset("P-2")
    for _ in range(3):
        with pytest.raises(LinkError, match="disagree"):
            ber.sync()
    assert ber.rows("SELECT json_array_length(former_epochs) FROM target") == [(1,)]


def test_a_hub_that_asks_for_far_too_much_is_refused(company: Company) -> None:
    """Regression: what each answer asked for was kept, and four answers took all memory."""
    ber = company.ber
    many = {"tracks": list(range(MOST_NEEDS + 1))}
    ber.spoil = lambda send: {**send(), "applied": False, "needs": many}
    ber.add_asset("P-2")
    with pytest.raises(LinkError, match="asked for more than"):
        ber.sync()
    ber.spoil = lambda send: send()
    ber.settle()
    assert_equal(ber)


def test_a_copied_hub_is_detected_even_after_new_changes(company: Company) -> None:
    """Change numbers and ids are the same as before; only the marks differ."""
    copied = company.hub.copy_files()
    add_at_hub(company.hub, "P-1")
    company.settle()
    company.hub.copy_back(copied)
    for number in range(5):
        add_at_hub(company.hub, f"Q-{number}")
    assert id_of(company.hub, "Q-0") == company.ber.rows("SELECT hub_seen_mark, remote_id FROM target, link")[0][1]
    company.settle()
    company.assert_settled()
    for site in company.sites:
        assert id_of(site, "Q-0") != id_of(site, "Q-4")


def test_a_session_behind_its_hub_starts_one_epoch(company: Company) -> None:
    """Another machine has reported as this site during the session."""
    ber = company.ber
    copied = ber.copy_files()
    with ber.in_use():
        sender = Sender(ber.call)
        sender.connect()
    ber.add_asset("P-1")
    ber.sync()
    ber.copy_back(copied)
    ber.add_asset("P-2")
    with ber.in_use():
        for _ in range(5):
            sender.push()
    assert ber.rows("SELECT json_array_length(former_epochs) FROM target") == [(1,)]
    assert "P-2" in {key for (key,) in company.hub.rows("SELECT external_key FROM asset")}
