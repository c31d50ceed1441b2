"""Sites are renamed, retired, removed, and return; a kill at any step loses nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from edge.audit.actors import shell
from edge.database.connection import execute
from edge.errors import Conflict, Invalid, NotFound, Unreadable
from edge.people import organizations
from edge.people.secrets import hash_secret
from edge.records import assets, locations, lookup
from edge.sync import hub as hub_answers
from edge.sync.store import hub_link, incoming, site_lifecycle, sites
from edge.sync.store.exchange import AssetRecord, Batch
from edge.sync.store.hub_link import HubAccess
from edge.tracking import report
from tests.sync.company import Company
from tests.sync.world import EPOCH, HOUR, Hub, SiteBox


@pytest.fixture
def company(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Company:
    return Company(tmp_path, monkeypatch)


def histories(company: Company) -> dict[str, list[tuple[int, str]]]:
    """Return time and location key of each stay of each live asset at the hub, newest first."""
    with company.hub.in_use():
        owner = company.hub.organization_id
        keys = [key for (key,) in execute("SELECT external_key FROM asset WHERE deleted_at IS NULL ORDER BY 1")]
        found = {}
        for key in keys:
            row = lookup.asset_by_key(owner, key)
            assert row
            listed = report.list_history(owner, row.id, limit=100)
            assert listed.total_count == len(listed.rows)
            found[key] = [(stay.observed_at, stay.location_external_key) for stay in listed.rows]
    return found


def rejoin_as(site: SiteBox, code: str, *, is_new: bool) -> None:
    """Leave, and join again with the code of a site that the hub adds now."""
    if site.rows("SELECT 1 FROM target"):
        site.leave()
    if is_new:
        site.site_no = site.hub.add_site(code)
    site.name = code
    site.join()


# Renaming -------------------------------------------------------------------------------------------------------------


def test_a_renamed_site_has_its_locations_under_the_new_code(company: Company) -> None:
    hub, ber = company.hub, company.ber
    before = histories(company)
    with hub.in_use():
        site_lifecycle.rename(hub.actor, ber.site_no, code="BERLIN", name="Berlin East")
    for step, asset in enumerate(company.own):
        ber.scan(asset, step, EPOCH + (50 + step) * HOUR)
    company.settle()
    ber.name = "BERLIN"
    company.assert_settled()
    after = histories(company)
    renamed = {key: [(at, place.replace("BER-", "BERLIN-")) for at, place in rows] for key, rows in before.items()}
    assert {key: after[key][-len(rows) :] if rows else [] for key, rows in renamed.items()} == renamed
    assert ber.rows("SELECT code FROM target") == [("BERLIN",)]
    assert company.ham.rows("SELECT DISTINCT home FROM mirror") == [("BERLIN",)]
    with hub.in_use():
        owner = hub.organization_id
        place = locations.get(owner, company.site(ber).location_id)
        assert (place.external_key, place.name) == ("BERLIN", "Berlin East")
        assert lookup.location_by_key(owner, "BER-DOCK-1") is None
        with pytest.raises(Conflict, match="was the code of the site BERLIN"):
            sites.add_site(hub.actor, "BER", "Another", b"hash")
    site_no = ber.site_no
    ber.leave()
    ber.rejoin()
    company.assert_settled()
    assert ber.site_no == site_no


def test_a_rename_changes_nothing_if_a_key_is_taken_or_too_long(company: Company) -> None:
    hub = company.hub
    with hub.in_use():
        locations.create(hub.actor, name="Taken", external_key="NEW-DOCK-2")
    before = company.ids()
    with hub.in_use():
        with pytest.raises(Conflict, match="location NEW-DOCK-2 already exists"):
            site_lifecycle.rename(hub.actor, company.ber.site_no, code="NEW", name="New")
        with pytest.raises(Invalid):
            site_lifecycle.rename(hub.actor, company.ber.site_no, code="N" * 252, name="New")
        with pytest.raises(Conflict, match="A site HAM already exists"):
            site_lifecycle.rename(hub.actor, company.ber.site_no, code="HAM", name="New")
    assert company.ids() == before


def test_a_site_that_was_offline_during_the_rename_joins_with_a_new_code(company: Company) -> None:
    hub, ber = company.hub, company.ber
    with hub.in_use():
        site_lifecycle.rename(hub.actor, ber.site_no, code="BERLIN", name="Berlin")
        sites.renew_code(hub.actor, ber.site_no, hash_secret("again"))
        joined = sites.join(hash_secret("again"), hash_secret("secret"))
        assert joined
        former = sites.former_codes(joined)
    assert former == ["BER"]
    with ber.in_use():
        access = HubAccess("https://hub", "BERLIN", "The hub", "key", hub_id="")
        with pytest.raises(Conflict, match="This box is the site BER"):
            hub_link.renew_key(ber.actor, access)
        hub_link.renew_key(ber.actor, access._replace(former_codes=tuple(former)))
    ber.name = "BERLIN"
    company.assert_settled()


def test_a_site_of_another_hub_with_the_same_code_is_another_one(company: Company) -> None:
    """Else the copies of the first hub would become this site's own and arrive at the other hub."""
    ber = company.ber
    with ber.in_use():
        here = hub_link.find()
        assert here
        other = HubAccess("https://other", "BER", "Other hub", "key", hub_id="other", epoch=None)
        assert here.hub_id == company.hub.permanent_id()
        with pytest.raises(Conflict, match="is the site BER of The hub, and the code is for BER of Other hub"):
            hub_link.renew_key(ber.actor, other)
        assert here.is_of(other._replace(hub_id=here.hub_id))
        assert here.is_of(other._replace(hub_id=""))  # of an earlier release
        assert here.is_of(other._replace(epoch=here.epoch))  # restored to a state without its id


# Retiring and removing ------------------------------------------------------------------------------------------------


def test_the_history_of_a_retired_site_stays_read_only_until_it_returns(company: Company) -> None:
    hub, ber = company.hub, company.ber
    before, ids = histories(company), company.ids()
    with hub.in_use():
        site_lifecycle.retire(hub.actor, ber.site_no)
        site_lifecycle.retire(hub.actor, ber.site_no)  # again, as after a kill
        site = company.site(ber)
        assert site.retired_at
        assert execute("SELECT revoked_at IS NOT NULL FROM api_key WHERE id = ?", (site.api_key_id,)).fetchone() == (1,)
        assert execute("SELECT count(*) FROM audit WHERE action = 'site.retired'").fetchone() == (1,)
    assert histories(company) == before
    in_hub = company.id_at(hub, "B-0")
    with hub.in_use(), pytest.raises(Conflict, match="kept at BER"):
        assets.patch(hub.actor, in_hub, {"name": "Mine"})
    ber.leave()
    ber.scan(company.own[0], 2, EPOCH + 40 * HOUR)
    ber.rejoin()
    company.assert_settled()
    assert company.ids() == ids
    with hub.in_use():
        assert company.site(ber).retired_at is None


def test_a_removed_site_returns_with_records_the_hub_has_not_changed(company: Company) -> None:
    hub, ber = company.hub, company.ber
    ids, before = company.ids(), histories(company)
    changed, deleted = company.id_at(hub, "B-1"), company.id_at(hub, "B-2")
    with hub.in_use():
        site_lifecycle.remove(hub.actor, ber.site_no)
        assets.patch(hub.actor, changed, {"name": "Changed by the hub"})
        assets.delete(hub.actor, deleted)
        with pytest.raises(NotFound):
            site_lifecycle.remove(hub.actor, ber.site_no)
    rejoin_as(ber, "BER", is_new=True)
    for _ in range(3):
        for site in (ber, company.ham):
            site.settle()
    assert company.ids() == ids
    assert histories(company) == before
    name = "SELECT name FROM asset WHERE external_key = 'B-1' AND deleted_at IS NULL"
    assert hub.rows(name) == ber.rows(name) == company.ham.rows(name) == [("Changed by the hub",)]
    homes = "SELECT external_key, home FROM asset LEFT JOIN mirror ON record_id = id WHERE external_key GLOB 'B-*' "
    homes += "ORDER BY 1"
    assert hub.rows(homes) == [("B-0", "BER"), ("B-1", None), ("B-2", "BER")]
    assert ber.rows(homes) == [("B-0", None), ("B-1", "The hub"), ("B-2", None)]
    assert hub.rows("SELECT * FROM conflict") == hub.rows("SELECT * FROM former_home") == []
    with ber.in_use():
        assets.patch(ber.actor, company.own[2], {"name": "Changed again"})
    company.settle()
    assert hub.rows("SELECT name FROM asset WHERE external_key = 'B-2' AND deleted_at IS NULL") == [("Changed again",)]


# A hostile site -------------------------------------------------------------------------------------------------------


def forge(company: Company, *, with_ids: bool) -> None:
    """Have HAM send copies of BER's assets as its own, with their keys, times and even their ids at BER."""
    hub, ham = company.hub, company.ham
    ham.leave()
    ham.rejoin()
    sql = "SELECT remote_id, external_key, asset.created_at FROM link JOIN asset ON asset.id = local_id "
    known = hub.rows(sql + f"WHERE peer = {company.ber.site_no} AND remote_id > 0 ORDER BY external_key")
    assert len(known) == 3
    with hub.in_use():
        at_hub = company.site(ham)
        records = [
            AssetRecord(
                ref if with_ids else 900 + number, key, "Mine", None, 1, "{}", at, None, at, EPOCH * 2, None, []
            )
            for number, (ref, key, at) in enumerate(known)
        ]
        batch = Batch(at_hub.acked_seq, 0, records, [], {}, {}, [], [], [], [])
        assert incoming.take(at_hub.peer, at_hub.cursor, batch, b"chain").is_applied


@pytest.mark.parametrize("with_ids", [False, True])
@pytest.mark.parametrize("step", ["present", "retired", "removed"])
def test_a_returning_site_gets_no_records_of_another_one(company: Company, step: str, with_ids: bool) -> None:
    hub, ber = company.hub, company.ber
    before = histories(company)
    names = hub.rows("SELECT id, name, external_key FROM asset WHERE external_key GLOB 'B-*' ORDER BY 1")
    with hub.in_use():
        if step == "retired":
            site_lifecycle.retire(hub.actor, ber.site_no)
        if step == "removed":
            site_lifecycle.remove(hub.actor, ber.site_no)
    forge(company, with_ids=with_ids)
    in_force = "SELECT a.id, a.name, external_key FROM asset a WHERE external_key GLOB 'B-*' AND deleted_at IS NULL "
    assert hub.rows(in_force + "ORDER BY 1") == names
    owned = hub.rows(f"SELECT record_id FROM mirror WHERE peer = {company.ham.site_no}")
    assert {row[0] for row in names}.isdisjoint(row[0] for row in owned)
    assert histories(company) == before
    if step == "removed":
        rejoin_as(ber, "BER", is_new=True)
    else:
        ber.leave()
        ber.rejoin()
    ber.settle()
    assert hub.rows(
        "SELECT DISTINCT home FROM asset a JOIN mirror ON record_id = a.id WHERE a.id IN "
        f"({', '.join(str(row[0]) for row in names)})"
    ) == [("BER",)]


def test_a_site_gets_assets_of_its_organization_in_bounded_answers(
    company: Company, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub = company.hub
    with hub.in_use():
        other = organizations.add_organization(shell(), "Other").id
        secret = assets.create(shell(other), name="Secret", external_key="S-1").id
        ids = [row[0] for row in execute("SELECT id FROM asset WHERE organization_id = ?", (hub.organization_id,))]
        site = company.site(company.ham)
        question = {"after": 0, "epoch": None, "page": None}
        assert hub_answers.masters(site, {**question, "ids": [secret, -secret]})["assets"] == []
        monkeypatch.setattr(hub_answers, "MAX_MASTERS", 2)
        answer = hub_answers.masters(site, {**question, "ids": ids * 1000})
        assert (answer["asked"], len(answer["assets"]) <= 2, len(answer["own"]) <= 2) == (2, True, True)
        for wrong in (5, ["x"], [2**80], [None]):
            with pytest.raises(Unreadable):
                hub_answers.masters(site, {**question, "ids": wrong})


def test_a_hub_whose_last_site_was_removed_takes_another_one(tmp_path: Path) -> None:
    hub = Hub(tmp_path / "hub", "hub")
    no = hub.add_site("BER")
    with hub.in_use():
        site_lifecycle.remove(hub.actor, no)
        sites.add_site(hub.actor, "HAM", "Hamburg", hash_secret("code"))
        assert [site.code for site in sites.list_sites(hub.organization_id)] == ["HAM"]
