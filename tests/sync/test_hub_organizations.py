"""Sync of one organization never exposes data of another on the same hub or site."""

from __future__ import annotations

from pathlib import Path

import pytest

from edge.audit import actors
from edge.database.connection import writing
from edge.people import organizations
from edge.readers import readers
from edge.records import assets, locations
from edge.records.tags import NewTag
from edge.sync import batch_format, verify
from edge.sync import hub as hub_module
from edge.sync.store import change_feed, epochs, hub_link
from edge.sync.store.exchange import Batch, Cursor, Origin, Patch, Stay, TrackState
from edge.tracking.positions import record
from edge.tracking.stays import Quality, Scan
from tests.sync.world import EPOCH, GAP, HOUR, Box, Hub, SiteBox, assert_equal


class Rival:
    """Another organization on the machine, with an asset read at its dock."""

    def __init__(self, box: Box) -> None:
        self.box = box
        with box.in_use():
            self.organization_id = organizations.add_organization(actors.shell(), "Rival").id
            self.actor = actors.shell(self.organization_id)
            self.dock = locations.create(self.actor, name="Secret dock", external_key="R-DOCK").id
            self.reader = readers.add_reader(self.actor, name="Secret gate", topic="rival/gate", format="edge").id
        self.asset = self.add_asset("R-1")

    def add_asset(self, key: str) -> int:
        with self.box.in_use():
            made = assets.create(self.actor, name="Secret", external_key=key, tags=[NewTag("rfid", f"FF{key}")]).id
            record(
                [Scan(self.organization_id, made, self.dock, self.reader, 1, EPOCH, EPOCH, Quality.READER, -50.0)], GAP
            )
            return made


@pytest.fixture
def ber(tmp_path: Path) -> SiteBox:
    site = SiteBox(tmp_path / "ber", "BER", Hub(tmp_path / "hub", "hub"))
    site.pallet = site.add_asset("P-1")
    for step in range(3):
        site.scan(site.pallet, step, EPOCH + step * HOUR)
    return site


def secrets_at(box: Box) -> list[tuple[str]]:
    """Return names and keys of the rival in any synced table."""
    return box.rows(
        "SELECT name FROM asset WHERE name = 'Secret' OR external_key LIKE '%R-%' UNION ALL "
        "SELECT name FROM location WHERE name LIKE 'Secret%' UNION ALL "
        "SELECT name FROM remote_name WHERE name LIKE 'Secret%' UNION ALL "
        "SELECT what FROM set_aside UNION ALL SELECT value FROM tag WHERE value LIKE 'FFR%'"
    )


def test_a_replaced_database_of_one_site_is_none_of_another(tmp_path: Path) -> None:
    hub = Hub(tmp_path / "hub", "hub")
    ber, ham = hub.add_site("BER"), hub.add_site("HAM")
    with hub.in_use():
        with writing():
            epochs.retire(ber, "5f0c1d2e3a4b5c6d")
        assert epochs.is_retired(ber, "5f0c1d2e3a4b5c6d")
        assert not epochs.is_retired(ham, "5f0c1d2e3a4b5c6d")


def test_a_site_sends_only_data_of_its_organization(ber: SiteBox) -> None:
    """Covers the first copy, later changes, and resending all names."""
    rival = Rival(ber)
    ber.join()
    ber.sync()
    rival.add_asset("R-2")
    with ber.in_use():
        readers.change_reader(rival.actor, rival.reader, {"name": "Secret gate, renamed"})
    ber.scan(ber.pallet, 0, EPOCH + 10 * HOUR)
    ber.sync()
    with ber.in_use():
        change_feed.add_names(ber.organization_id)
        change_feed.add_names(rival.organization_id)
    ber.sync()
    assert secrets_at(ber.hub) == []
    assert ber.rows("SELECT what, reason FROM set_aside") == [], "nor was it sent, and refused"
    assert ber.hub.rows("SELECT count(*) FROM track") == [(1,)]
    with ber.in_use():
        here = hub_link.find()
        assert here
        assert verify.compare(here, ber.call) == []


@pytest.mark.parametrize("is_in_pages", [False, True])
def test_a_site_gets_only_the_assets_of_its_organization(
    ber: SiteBox, monkeypatch: pytest.MonkeyPatch, is_in_pages: bool
) -> None:
    monkeypatch.setattr(hub_module, "MAX_MASTERS", 2)
    ber.join()
    ber.sync()
    if not is_in_pages:
        ber.fetch()
    rival = Rival(ber.hub)
    with ber.hub.in_use():
        assets.create(ber.hub.actor, name="Ours", external_key="P-2")
    rival.add_asset("R-2")
    ber.fetch()
    assert secrets_at(ber) == []
    assert ber.rows("SELECT count(*) FROM asset WHERE external_key = 'P-2'") == [(1,)]


def test_a_site_cannot_refer_to_records_of_another_organization(ber: SiteBox) -> None:
    """Otherwise it could add history to the rival's asset, or probe ids."""
    ber.join()
    ber.sync()
    rival = Rival(ber.hub)
    with ber.in_use():
        here = hub_link.find()
        assert here
    ours = ber.docks[0]
    for asset, place in ((-rival.asset, ours), (ber.pallet, -rival.dock), (-rival.asset, -rival.dock)):
        track = TrackState(77, asset, place, EPOCH, EPOCH, EPOCH, 0, 0)
        stays = Patch(77, EPOCH, EPOCH, [Stay(EPOCH, 0, 0, 0, 0, 0, 0, None)])
        batch = Batch(here.acked_seq + 5, 0, [], [], {}, {}, [track], [], [Origin(place, None, None, None)], [stays])
        answer = ber.hub.answer(ber.site_no, "changes", batch_format.encode(here.cursor, batch))
        assert not answer["applied"]
        needed = {*answer["needs"]["assets"], *answer["needs"]["locations"]}
        assert needed == {ref for ref in (asset, place) if ref < 0}
    assert_equal(ber)


def test_digests_cover_one_site_only(ber: SiteBox) -> None:
    """Two sites have history on the same days."""
    ham = SiteBox(ber.folder.parent / "ham", "HAM", ber.hub)
    ham.pallet = ham.add_asset("P-9")
    for step in range(5):
        ham.scan(ham.pallet, step % 3, EPOCH + step * HOUR)
    for site in (ber, ham):
        site.join()
        site.sync()
    for site in (ber, ham):
        with site.in_use():
            here = hub_link.find()
            assert here
            assert verify.compare(here, site.call) == []


def test_a_batch_of_one_site_does_not_move_the_cursor_of_another(ber: SiteBox) -> None:
    ham = SiteBox(ber.folder.parent / "ham", "HAM", ber.hub)
    for site in (ber, ham):
        site.join()
        site.sync()
    [before] = ber.hub.rows(f"SELECT epoch, acked_seq, chain, horizon FROM site WHERE no = {ham.site_no}")
    ber.scan(ber.pallet, 1, EPOCH + 20 * HOUR)
    ber.sync()
    assert ber.hub.rows(f"SELECT epoch, acked_seq, chain, horizon FROM site WHERE no = {ham.site_no}") == [before]
    with ber.in_use():
        here = hub_link.find()
        assert here
    late = Batch(here.acked_seq + 5, 0, [], [], {}, {}, [], [1], [], [])
    assert not ber.hub.answer(ham.site_no, "changes", batch_format.encode(here.cursor, late))["applied"]
    assert ber.hub.answer(ber.site_no, "changes", batch_format.encode(Cursor(*here.cursor), late))["applied"]
