"""A site that leaves its hub and returns has its records and history under the same ids, without conflicts."""

from __future__ import annotations

from pathlib import Path

import pytest

from edge.audit import actors
from edge.database.connection import database
from edge.people import organizations
from edge.records import assets, locations
from edge.sync.store import hub_link, site_lifecycle, sites
from edge.sync.store.hub_link import HubAccess
from edge.tracking import deletion, report
from tests.sync.company import Company
from tests.sync.world import EPOCH, HOUR, Hub, assert_equal, kill_at_each_commit


@pytest.fixture
def company(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Company:
    return Company(tmp_path, monkeypatch)


def test_a_returning_site_has_its_records_under_the_same_ids(company: Company) -> None:
    before = company.ids()
    company.ber.leave()
    company.ber.rejoin()
    company.assert_settled()
    assert company.ids() == before
    assert company.ber.rows("SELECT * FROM former_hub") == company.ber.rows("SELECT * FROM former_link") == []


def test_another_organization_that_joins_the_hub_gets_none_of_the_copies(company: Company) -> None:
    """They would be read-only for their organization, and the hub's data of the other one would replace theirs."""
    ber = company.ber
    ber.leave()
    left = ber.rows("SELECT hub_id, remote_id, local_id FROM former_link ORDER BY 2")
    with ber.in_use():
        other = actors.shell(organizations.add_organization(actors.shell(), "Other").id)
        hub_link.begin(other, HubAccess("https://hub", "OTH", "The hub", "key", company.hub.permanent_id()))
        assert ber.rows("SELECT * FROM mirror") == ber.rows("SELECT * FROM link") == []
        assert ber.rows("SELECT hub_id, remote_id, local_id FROM former_link ORDER BY 2") == left != []


def test_what_happened_meanwhile_at_both_ends_arrives(company: Company) -> None:
    ber, ham = company.ber, company.ham
    ber.leave()
    with ber.in_use():
        assets.rename(ber.actor, company.own[0], "B-renamed")
        assets.delete(ber.actor, company.own[1])
        assets.patch(ber.actor, company.copies[0], {"name": "Changed by the site alone"})
        assets.delete(ber.actor, company.copies[3])
        locations.patch(ber.actor, ber.docks[0], {"name": "New name"})
    new = ber.add_asset("B-new")
    for asset, at in ((new, 20), (company.own[0], 21), (company.copies[0], 22), (company.copies[1], 23)):
        ber.scan(asset, 2, EPOCH + at * HOUR)
    with ham.in_use():
        assets.patch(ham.actor, company.theirs[1], {"name": "Changed at its home"})
        assets.delete(ham.actor, company.theirs[2])
    company.settle()
    ber.rejoin()
    company.assert_settled()
    names = {
        box.name: box.rows("SELECT external_key, name FROM asset WHERE deleted_at IS NULL ORDER BY 1")
        for box in (company.hub, ber, ham)
    }
    assert names["hub"] == names["BER"] == names["HAM"]
    assert names["hub"] == [
        ("B-2", "Pallet B-2"),
        ("B-new", "Pallet B-new"),
        ("B-renamed", "Pallet B-0"),
        ("H-0", "Pallet H-0"),
        ("H-1", "Changed at its home"),
        ("H-3", "Pallet H-3"),
    ]
    assert ber.rows("SELECT what FROM set_aside ORDER BY 1") == [("change of asset H-0",), ("change of asset H-3",)]
    in_hub = company.id_at(company.hub, "H-0")
    with company.hub.in_use():
        assert report.list_history(company.hub.organization_id, in_hub, limit=10).total_count == 2


def test_history_that_retention_deleted_meanwhile_stays_at_the_hub(company: Company) -> None:
    ber, asset = company.ber, company.own[0]
    for hour in range(1, 8):
        ber.scan(asset, hour % 3, EPOCH + hour * HOUR)
    company.settle()
    [(rows,)] = company.hub.rows("SELECT count(*) FROM history")
    ber.leave()
    with ber.in_use():
        deletion.drop_history(EPOCH + 6 * HOUR)
    ber.scan(asset, 0, EPOCH + 30 * HOUR)
    ber.rejoin()
    company.assert_settled()
    assert company.hub.rows("SELECT count(*) FROM history") == [(rows + 1,)]


def test_a_track_deleted_meanwhile_is_deleted_at_the_hub(company: Company) -> None:
    """A comparison finds history of a track that the site no longer has."""
    company.ber.leave()
    with company.ber.in_use(), database.atomic():
        database.execute_sql(
            "DELETE FROM history WHERE position_no IN (SELECT no FROM track WHERE asset_id = ?)", (company.own[2],)
        )
        database.execute_sql("DELETE FROM track WHERE asset_id = ?", (company.own[2],))
    company.ber.rejoin()
    company.assert_settled()


def test_a_box_that_joins_another_hub_takes_its_copies_there_as_its_own(company: Company, tmp_path: Path) -> None:
    company.ber.leave()
    other = Hub(tmp_path / "other", "other")
    first, first_no = company.ber.hub, company.ber.site_no
    company.ber.hub, company.ber.site_no = other, other.add_site("BER")
    company.ber.join()
    company.ber.settle()
    assert_equal(company.ber)
    assert other.rows("SELECT count(*) FROM asset JOIN mirror ON record_id = id") == [(7,)]
    company.ber.leave()
    company.ber.hub, company.ber.site_no = first, first_no
    company.ber.rejoin()
    company.assert_settled()


@pytest.mark.parametrize("step", ["leave", "rejoin"])
def test_a_kill_at_each_commit_of_leaving_and_returning_loses_nothing(
    company: Company, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    before = company.ids()
    if step == "rejoin":
        company.ber.leave()
    kill_at_each_commit(monkeypatch, company.ber.leave if step == "leave" else company.ber.rejoin)
    if step == "leave":
        company.ber.rejoin()
    company.assert_settled()
    assert company.ids() == before


def test_a_returning_site_learns_that_the_hub_has_deleted_an_asset_that_was_its_own(company: Company) -> None:
    """Before, the site kept the asset live under the earlier key for good, and no conflict was listed."""
    ber, hub = company.ber, company.hub
    at_hub = company.id_at(hub, "B-1")
    with hub.in_use():
        site_lifecycle.remove(hub.actor, ber.site_no)
        assets.rename(hub.actor, at_hub, "B-9")
    ber.leave()
    with ber.in_use():
        assets.patch(ber.actor, company.own[1], {"name": "Changed by the site alone"})
    with hub.in_use():
        sites.add_site(hub.actor, "BER", "Site BER", b"code")
    ber.rejoin()
    with hub.in_use():
        assets.delete(hub.actor, at_hub)
    company.settle()
    [(key, name, deleted_at)] = hub.rows(f"SELECT external_key, name, deleted_at FROM asset WHERE id = {at_hub}")
    assert (key, name, deleted_at is None) == ("B-9", "Pallet B-1", False)
    columns = f"SELECT external_key, name, deleted_at FROM asset WHERE id = {company.own[1]}"
    assert ber.rows(columns) == [(key, name, deleted_at)]
    assert company.ham.rows("SELECT deleted_at FROM asset WHERE external_key = 'B-9'") == [(deleted_at,)]
    company.assert_settled()
