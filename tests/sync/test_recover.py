"""Recovery from the hub: a new machine gets all records and history, a restored one the missing data."""

from __future__ import annotations

from pathlib import Path

import pytest

from edge.audit.actors import person, shell
from edge.database.connection import close_database, execute, writing
from edge.doors import doors
from edge.errors import Conflict
from edge.events import detection
from edge.handhelds import scans
from edge.handhelds.scans import Submitted
from edge.operations import backup
from edge.operations.backup import Rotation
from edge.people import people
from edge.people.people import Role
from edge.people.secrets import hash_secret
from edge.records import assets, locations, lookup
from edge.sync import hub as hub_module
from edge.sync.sender import LinkError, Stopped
from edge.sync.store import conflicts, recovered_history, site_copies, sites
from edge.sync.store.hub_link import HubAccess
from edge.tracking import antenna_names, report
from edge.tracking.positions import record
from edge.tracking.stays import Quality, Scan
from tests.events.conftest import SILENCE
from tests.sync.world import EPOCH, GAP, HOUR, Box, Hub, SiteBox, assert_equal, hub_dump, site_dump

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("engine")]


class NewBox(SiteBox):
    """A fresh installation that replaces a site."""

    def __init__(self, folder: Path, of: SiteBox) -> None:
        Box.__init__(self, folder, of.name)
        self.hub, self.site_no = of.hub, of.site_no
        self.docks, self.reader_id = of.docks, of.reader_id
        self.spoil = lambda send: send()

    def join_again(self) -> None:
        with self.hub.in_use():
            sites.renew_code(self.hub.actor, self.site_no, hash_secret("again"))
            sites.join(hash_secret("again"), hash_secret("another secret"))
        with self.in_use():
            recovered_history.join(self.actor, HubAccess("https://hub", self.name, "The hub", "another key"))


@pytest.fixture
def hub(tmp_path: Path) -> Hub:
    return Hub(tmp_path / "hub", "hub")


@pytest.fixture
def ber(hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SiteBox:
    """Return a synced site with all kinds of data. Small pages make many of them."""
    for name, count in (("RECORDS", 2), ("TRACKS", 2), ("STAYS", 7), ("PASSAGES", 2)):
        monkeypatch.setattr(site_copies, name, count)
    site = SiteBox(tmp_path / "ber", "BER", hub)
    site.pallet = site.add_asset("P-1", "AA01")
    for step in range(20):
        site.scan(site.pallet, step % 3, EPOCH + step * HOUR)
    for key in ("P-2", "P-3", "P-4"):
        site.scan(site.add_asset(key, f"BB{key[-1]}"), 1, EPOCH + HOUR)
    with site.in_use():
        ann = people.add_person(site.actor, "Ann", Role.OPERATOR)
        hand = person(site.organization_id, ann.id, "Ann")
        scans.submit(hand, [Submitted("scan-1", "P-2", site.docks[2], EPOCH + 3 * HOUR)], EPOCH + 4 * HOUR)
        old = assets.create(site.actor, name="Retired", external_key="P-9").id
        assets.delete(site.actor, old)
        locations.delete(site.actor, locations.create(site.actor, name="Gone", external_key="GONE").id)
        gate = antenna_names.port_from(site.reader_id, "north gate")
        at = EPOCH + 30 * HOUR
        record(
            [Scan(site.organization_id, site.pallet, site.docks[0], site.reader_id, gate, at, at, Quality.READER)], GAP
        )
        door = doors.add_door(site.actor, "Dock 4", site.docks[0])
        with writing():
            for step in range(5):
                at = EPOCH + step * HOUR
                execute(
                    "INSERT INTO passage (organization_id, door_id, asset_id, at, direction, confidence, inner_reads, "
                    "outer_reads, since, until, decided_at) VALUES (?, ?, ?, ?, 2, 900, 5, 6, ?, ?, ?)",
                    (site.organization_id, door, site.pallet, at, at, at, at),
                )
    site.join()
    site.sync()
    site.fetch()
    return site


PASSAGES = "SELECT no, door_id, asset_id, at, direction, decided_at FROM passage ORDER BY no"


def test_a_new_machine_gets_all_data_with_the_same_ids(ber: SiteBox, tmp_path: Path) -> None:
    new = NewBox(tmp_path / "new", ber)
    new.join_again()
    new.recover()
    assert site_dump(new) == site_dump(ber)
    ids = "SELECT id, external_key FROM asset UNION SELECT id, external_key FROM location ORDER BY 1"
    assert new.rows(ids) == ber.rows(ids)
    with new.in_use():
        row = lookup.asset_by_key(new.organization_id, "P-2")
        assert row
        assert report.moves(new.organization_id, row.id)[0].person_name == "Ann"
        newest = report.moves(new.organization_id, ber.pallet)[0]
        assert (newest.reader_name, newest.port) == ("Gate BER", "north gate")


def test_passages_return_with_their_doors_and_are_not_sent_as_new_ones(ber: SiteBox, tmp_path: Path) -> None:
    new = NewBox(tmp_path / "new", ber)
    new.join_again()
    with new.in_use():
        detection.start(SILENCE)
    new.recover()
    with new.in_use():
        while detection.log_changes(SILENCE):
            pass
    assert len(ber.rows(PASSAGES)) == 5
    assert new.rows("SELECT count(*) FROM event WHERE kind = 'asset.passed'") == [(0,)]
    assert new.rows(PASSAGES) == ber.rows(PASSAGES)
    assert new.rows("SELECT id, name, location_id FROM door") == ber.rows("SELECT id, name, location_id FROM door")
    before = new.hub.rows("SELECT no, remote_no, at FROM passage ORDER BY no")
    new.sync()
    assert new.hub.rows("SELECT no, remote_no, at FROM passage ORDER BY no") == before
    with new.in_use(), writing():  # a later passage gets a number that no passage had
        execute(
            "INSERT INTO passage SELECT NULL, organization_id, door_id, asset_id, at + 1, direction, confidence, "
            "inner_reads, outer_reads, since, until, decided_at + 1, 0, NULL, NULL, NULL FROM passage LIMIT 1"
        )
    assert new.rows("SELECT max(no) FROM passage") == [(6,)]


def test_an_earlier_hub_without_passages_ends_the_recovery_with_history(
    ber: SiteBox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sections = {name: section for name, section in hub_module._SECTIONS.items() if name != "passages"}
    monkeypatch.setattr(hub_module, "_SECTIONS", sections)
    new = NewBox(tmp_path / "new", ber)
    new.join_again()
    new.recover()
    assert site_dump(new) == site_dump(ber)
    assert new.rows(PASSAGES) == []


def test_a_new_machine_continues_the_history_of_the_site(ber: SiteBox, tmp_path: Path) -> None:
    new = NewBox(tmp_path / "new", ber)
    new.join_again()
    new.recover()
    new.scan(ber.pallet, 0, EPOCH + 40 * HOUR)
    new.scan(new.add_asset("P-5"), 0, EPOCH + 41 * HOUR)
    new.sync()
    assert_equal(new)
    assert len(hub_dump(new)["history"]) == len(site_dump(ber)["history"]) + 2
    assert new.hub.rows("SELECT count(*) FROM track WHERE remote_no < 0") == [(0,)]
    with pytest.raises(Stopped):
        ber.sync()


def test_an_interrupted_recovery_resumes(ber: SiteBox, tmp_path: Path) -> None:
    new = NewBox(tmp_path / "new", ber)
    new.join_again()
    calls = [0]

    def cut(send: object) -> object:
        calls[0] += 1
        if calls[0] % 3 == 0:
            raise LinkError("the line was cut")
        return send()  # type: ignore[operator]

    new.spoil = cut
    for _ in range(60):
        try:
            new.recover()
            break
        except LinkError:
            continue
    assert calls[0] > 10
    new.spoil = lambda send: send()
    assert site_dump(new) == site_dump(ber)
    new.sync()
    assert_equal(new)


def test_assets_of_other_sites_and_adopted_ones_are_recovered(ber: SiteBox, hub: Hub, tmp_path: Path) -> None:
    ham = SiteBox(tmp_path / "ham", "HAM", hub)
    crate, twin = ham.add_asset("C-1", "CC01"), ham.add_asset("P-3")
    ham.scan(twin, 0, EPOCH)
    ham.join()
    ham.sync()
    with hub.in_use():
        [conflict] = conflicts.list_conflicts(hub.organization_id).rows
        conflicts.merge(hub.actor, conflict.site_no, conflict.remote_id)
    for site in (ber, ham, ber, ham):
        site.sync()
        site.fetch()
    with ber.in_use():
        mirrored = lookup.asset_by_key(ber.organization_id, "C-1")
        assert mirrored
    ber.scan(mirrored.id, 1, EPOCH + 9 * HOUR)
    ber.sync()
    assert crate != mirrored.id
    new = NewBox(tmp_path / "new", ber)
    new.join_again()
    new.recover()
    new.sync()
    new.fetch()
    assert {row[:-1] for row in site_dump(new)["tracks"]} == {row[:-1] for row in site_dump(ber)["tracks"]}
    assert site_dump(new)["history"] == site_dump(ber)["history"]
    assert_equal(new)
    homes = "SELECT a.external_key, m.home FROM mirror m JOIN asset a ON a.id = m.record_id "
    homes += "WHERE a.deleted_at IS NULL ORDER BY 1"
    assert new.rows(homes) == ber.rows(homes)


def test_a_restored_machine_gets_the_data_after_its_backup(ber: SiteBox) -> None:
    with ber.in_use():
        saved = backup.make_backup(ber.folder, ber.folder / "backups", Rotation(7, 4)).backup.path
    for step in range(20, 30):
        ber.scan(ber.pallet, step % 3, EPOCH + step * HOUR)
    ber.scan(ber.add_asset("P-7", "DD07"), 2, EPOCH + 30 * HOUR)
    with ber.in_use():
        assets.rename(ber.actor, ber.pallet, "P-1B")
    ber.sync()
    before = site_dump(ber)
    close_database()
    backup.restore_backup(shell(), saved, ber.folder)
    ber.scan(ber.pallet, 0, EPOCH + 50 * HOUR)  # the service ran before the recovery
    ber.sync()
    with ber.in_use():
        recovered_history.begin(ber.actor)
    ber.recover()
    after = site_dump(ber)
    assert {row[:6] for row in before["history"]} - {row[:6] for row in after["history"]} <= {
        row[:6]
        for row in before["history"]
        if row[3] == EPOCH + 19 * HOUR  # open in the backup
    }
    assert {row[0] for row in after["assets"]} == {row[0] for row in before["assets"]}
    ber.sync()
    assert_equal(ber)
    assert ber.rows("SELECT * FROM set_aside") == []


def test_a_machine_with_records_refuses_to_recover(ber: SiteBox, tmp_path: Path) -> None:
    other = SiteBox(tmp_path / "other", "OTHER", ber.hub)
    with other.in_use(), pytest.raises(Conflict, match="already has assets or locations"):
        recovered_history.join(other.actor, HubAccess("https://hub", "BER", "The hub", "key"))
    assert other.rows("SELECT * FROM target") == []


def test_a_tag_used_again_before_a_recovery_stays_with_its_new_record(ber: SiteBox, tmp_path: Path) -> None:
    ber.add_asset("P-6", "EE01", "EE02")
    ber.sync()
    new = NewBox(tmp_path / "new", ber)
    new.join_again()
    new.add_asset("N-1", "EE01")
    new.recover()
    tags = "SELECT external_key, value FROM tag JOIN asset a ON a.id = asset_id WHERE tag.deleted_at IS NULL "
    assert new.rows(f"{tags} AND value GLOB 'EE*' ORDER BY 2") == [("N-1", "EE01"), ("P-6", "EE02")]
    assert new.rows("SELECT what FROM set_aside") == [("asset P-6",)]
