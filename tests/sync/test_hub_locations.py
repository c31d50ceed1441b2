"""Locations of a site at its hub: they keep their tree, and no site reaches those of another one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from edge.database.connection import execute, writing
from edge.records import locations
from edge.sync.store import incoming, sites
from edge.sync.store.exchange import AssetRecord, Batch, LocationRecord, Origin, Patch, Stay, TrackState
from tests.sync.world import EPOCH, Hub, SiteBox, assert_equal


@pytest.fixture
def ber(tmp_path: Path) -> SiteBox:
    site = SiteBox(tmp_path / "ber", "BER", Hub(tmp_path / "hub", "hub"))
    site.join()
    site.sync()
    return site


@pytest.mark.parametrize("inner_first", [True, False])
def test_a_location_swapped_with_its_child_in_two_batches(
    ber: SiteBox, monkeypatch: pytest.MonkeyPatch, inner_first: bool
) -> None:
    dock = ber.docks[0]
    with ber.in_use():
        locations.patch(ber.actor, dock, {"parent_id": None})
        locations.patch(ber.actor, ber.yard, {"parent_id": dock})
        with writing():
            execute("DELETE FROM change")
            for moved in (dock, ber.yard) if inner_first else (ber.yard, dock):
                execute("INSERT INTO change (kind, a) VALUES (3, ?)", (moved,))
    monkeypatch.setattr("edge.sync.sender.MAX_ROWS", 1)
    ber.sync()
    assert_equal(ber)
    assert ber.hub.rows("SELECT * FROM set_aside") == []


def take(site: SiteBox, **fields: Any) -> incoming.Taken:
    """Have the hub apply a batch of a site that may say anything."""
    with site.hub.in_use():
        at_hub = sites.get_site(site.hub.organization_id, site.site_no)
        batch = Batch(at_hub.acked_seq, 0, [], [], {}, {}, [], [], [], [])._replace(**fields)
        return incoming.take(at_hub.peer, at_hub.cursor, batch, b"chain")


def test_a_site_cannot_report_reads_at_a_location_of_others(ber: SiteBox) -> None:
    ham = SiteBox(ber.folder.parent / "ham", "HAM", ber.hub)
    ham.join()
    ham.sync()
    [(theirs,)] = ber.hub.rows("SELECT id FROM location WHERE external_key = 'HAM-DOCK-1'")
    with ber.hub.in_use():
        hub = ber.hub
        ours = locations.create(hub.actor, name="Gate of the hub", external_key="GATE").id
        at_hub = sites.get_site(hub.organization_id, ber.site_no)
        assigned = locations.create(
            hub.actor, name="Lent to Berlin", external_key="LENT", parent_id=at_hub.location_id
        ).id
    asset = AssetRecord(77, "P-1", "Pallet", None, 1, "{}", EPOCH, None, EPOCH, EPOCH, None, [])
    for location, is_applied in ((theirs, False), (ours, False), (assigned, True)):
        state = TrackState(7, 77, -location, EPOCH, EPOCH, EPOCH, 0, 0)
        stays = [Patch(7, EPOCH, EPOCH, [Stay(EPOCH, 0, 0, 0, 0, 0, 0, None)])]
        origins = [Origin(-location, None, None, None)]
        taken = take(ber, assets=[asset], tracks=[state], patches=stays, origins=origins)
        assert (taken.is_applied, list(taken.needs.locations)) == (is_applied, [] if is_applied else [-location])
        assert len(hub.rows("SELECT * FROM history")) == is_applied


def test_a_site_cannot_take_a_location_of_another_site_by_its_key(tmp_path: Path) -> None:
    """With the codes A and A-B, the key B-DOCK-1 of the first is the DOCK-1 of the second at the hub."""
    hub = Hub(tmp_path / "hub", "hub")
    first, second = SiteBox(tmp_path / "a", "A", hub), SiteBox(tmp_path / "b", "A-B", hub)
    with second.in_use(), writing():  # no other location was created at the same moment
        execute("UPDATE location SET created_at = created_at - 1 WHERE id = ?", (second.docks[1],))
    for site in (first, second):
        site.join()
        site.sync()
    [(theirs, created_at)] = hub.rows("SELECT id, created_at FROM location WHERE external_key = 'A-B-DOCK-1'")
    copy = LocationRecord(99, None, "B-DOCK-1", "Mine", None, 1, EPOCH, None, created_at, EPOCH, None, [])
    inside = LocationRecord(98, -theirs, "INSIDE", "Inside", None, 1, EPOCH, None, EPOCH, EPOCH, None, [])
    assert take(first, locations=[inside]).needs.locations == [-theirs]
    assert take(first, locations=[copy]).is_applied
    assert hub.rows(f"SELECT 1 FROM link WHERE local_id = {theirs} AND peer = {first.site_no}") == []
    assert hub.rows("SELECT reason FROM conflict") == [("location A-B-DOCK-1 already exists here",)]
    assert hub.rows(f"SELECT name, deleted_at FROM location WHERE id = {theirs}") == [("Dock 1", None)]
