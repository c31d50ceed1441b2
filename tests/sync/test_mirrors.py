"""Copies of records of another machine: which of them are the same, and which become a site's own again."""

from __future__ import annotations

from pathlib import Path

import pytest

from edge import clock
from edge.database.connection import execute, writing
from edge.records import assets, locations
from edge.records.tags import NewTag
from edge.sync.store import conflicts, mirrors
from edge.sync.store.exchange import HUB, Peer
from tests.sync.world import EPOCH, HOUR, Hub, SiteBox, assert_copies, assert_equal


@pytest.fixture
def hub(tmp_path: Path) -> Hub:
    return Hub(tmp_path / "hub", "hub")


@pytest.fixture
def ber(hub: Hub, tmp_path: Path) -> SiteBox:
    site = SiteBox(tmp_path / "ber", "BER", hub)
    site.join()
    return site


def live_keys(site: SiteBox) -> list[str]:
    return [key for (key,) in site.rows("SELECT external_key FROM asset WHERE deleted_at IS NULL ORDER BY 1")]


def copy_at(site: SiteBox, key: str) -> tuple[int, int]:
    """Add an asset at the hub and fetch it. Returns the hub's id and the id of the copy."""
    with site.hub.in_use():
        at_hub = assets.create(site.hub.actor, name=key, external_key=key).id
    site.fetch()
    [(copy,)] = site.rows(f"SELECT local_id FROM link WHERE remote_id = {at_hub}")
    return at_hub, int(copy)


def take_back(site: SiteBox, remote_id: int, own: int) -> None:
    with site.in_use(), writing():
        mirrors.take_back(Peer(HUB, site.organization_id, "The hub"), [(remote_id, own)])


def scans_of(site: SiteBox, asset_id: int) -> list[int]:
    sql = "SELECT observed_at FROM history JOIN track ON track.no = position_no WHERE asset_id = "
    return [at for (at,) in site.rows(f"{sql}{asset_id} ORDER BY 1")]


def test_a_copy_of_an_own_asset_gives_it_its_history_and_is_retired(ber: SiteBox) -> None:
    own = ber.add_asset("P-1")
    at_hub, copy = copy_at(ber, "P-2")
    ber.scan(copy, 1, EPOCH)
    take_back(ber, at_hub, own)
    assert scans_of(ber, own) == [EPOCH]
    assert live_keys(ber) == ["P-1"]


def test_a_copy_that_is_the_own_asset_is_no_copy_any_more(ber: SiteBox) -> None:
    at_hub, copy = copy_at(ber, "P-1")
    with ber.in_use(), writing():
        execute("INSERT INTO link (peer, remote_id, local_id) VALUES (5, ?, ?)", (at_hub, copy))  # of another machine
    take_back(ber, at_hub, copy)
    assert ber.rows("SELECT * FROM mirror") == []
    assert ber.rows("SELECT peer FROM link") == [(5,)]


def test_no_asset_of_the_hub_becomes_part_of_another_one_of_the_hub(ber: SiteBox) -> None:
    """A hub that names as own what the site knows as the hub's is mistaken."""
    at_hub, copy = copy_at(ber, "P-1")
    _, other = copy_at(ber, "P-2")
    ber.scan(copy, 1, EPOCH)
    take_back(ber, at_hub, other)
    assert scans_of(ber, copy) == [EPOCH]
    assert live_keys(ber) == ["P-1", "P-2"]


def test_an_asset_without_a_copy_is_left_alone(ber: SiteBox) -> None:
    own = ber.add_asset("P-1")
    with ber.in_use(), writing():
        execute(
            "INSERT INTO conflict (peer, remote_id, kind, record, local_id, reason, since) "
            "VALUES (0, 77, 2, '[]', ?, 'taken', 0)",
            (own,),
        )
    take_back(ber, 77, own)
    assert live_keys(ber) == ["P-1"]
    assert ber.rows("SELECT remote_id FROM conflict") == [(77,)]


def test_a_batch_retries_a_bounded_number_of_conflicts(ber: SiteBox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mirrors, "MOST_RETRIED", 2)
    for number in range(4):
        with ber.hub.in_use():
            assets.create(ber.hub.actor, name="Ours", external_key=f"P-{number}")
        ber.add_asset(f"P-{number}")
    ber.sync()
    assert ber.hub.rows("SELECT count(*) FROM conflict") == [(4,)]
    with ber.hub.in_use(), writing():
        peer = Peer(ber.site_no, ber.hub.organization_id, "BER")
        assert len(list(mirrors.retry_in_steps(peer))) == 2


def test_a_site_whose_code_begins_like_another_one_gets_none_of_its_locations(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Location "N-GATE" of site "A" and location "GATE" of site "A-N" have the same key at the hub."""
    first, second = (SiteBox(tmp_path / code, code, hub) for code in ("A-N", "A"))
    moment = clock.now()
    for site, key in ((first, "GATE"), (second, "N-GATE")):
        with site.in_use(), monkeypatch.context() as frozen:
            frozen.setattr(clock, "now", lambda: moment)
            gate = locations.create(site.actor, name="Gate", external_key=key, parent_id=site.yard).id
        site.docks.append(gate)
        site.join()
        site.sync()
    second.scan(second.add_asset("P-1"), 3, EPOCH + HOUR)
    second.sync()
    homes = "SELECT m.peer FROM location l JOIN mirror m ON m.record_id = l.id WHERE l.external_key = 'A-N-GATE' "
    assert hub.rows(homes + "AND l.deleted_at IS NULL") == [(first.site_no,)]
    assert hub.rows("SELECT peer, reason FROM conflict") == [(second.site_no, "location A-N-GATE already exists here")]
    [(at,)] = hub.rows("SELECT location_id FROM track")
    assert hub.rows(f"SELECT peer FROM mirror WHERE record_id = {at}") == [(second.site_no,)]


def test_a_merged_asset_of_a_site_keeps_its_id_there(hub: Hub, ber: SiteBox) -> None:
    """Before, the incomplete copy of the hub's asset took its place, and the site's own one was retired for good."""
    own = ber.add_asset("P-1", "AA01")
    with hub.in_use():
        at_hub = assets.create(hub.actor, name="Of the hub", external_key="P-1", tags=[NewTag("rfid", "AA01")]).id
    ber.settle()
    ber.scan(own, 1, EPOCH)
    with hub.in_use():
        conflicts.rename(hub.actor, ber.site_no, own, "P-2")  # the tag is still in conflict
    ber.settle()
    assert live_keys(ber) == ["P-1", "P-2"]
    with hub.in_use():
        conflicts.merge(hub.actor, ber.site_no, own)
    for _ in range(2):
        ber.settle()
    assert ber.rows("SELECT id, external_key FROM asset WHERE deleted_at IS NULL") == [(own, "P-2")]
    assert scans_of(ber, own) == [EPOCH]
    assert hub.rows("SELECT asset_id FROM track") == [(at_hub,)]
    assert_equal(ber)
    assert_copies(ber)
