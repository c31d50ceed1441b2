"""Assets are known everywhere, kept at one box, and a clash is listed until somebody decides."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest

from edge import clock
from edge.database.connection import database, execute
from edge.errors import Conflict
from edge.ingest.messages import Message
from edge.ingest.pipeline import Pipeline
from edge.readers import readers
from edge.records import assets, locations, lookup
from edge.records.tags import NewTag
from edge.sync import hub, sender
from edge.sync.sender import LinkError
from edge.sync.store import change_feed, conflicts, incoming, mirrors, sites
from edge.tracking import antenna_names, board, flows, report
from edge.tracking.why import why_here
from tests.sync.world import EPOCH, GAP, HOUR, Box, Hub, SiteBox, assert_equal


class Company:
    def __init__(self, folder: Path) -> None:
        self.hub = Hub(folder / "hub", "hub")
        self.ber = SiteBox(folder / "ber", "BER", self.hub)
        self.ham = SiteBox(folder / "ham", "HAM", self.hub)
        for site in (self.ber, self.ham):
            site.join()
            site.sync()

    def settle(self) -> None:
        """Enough rounds for what one site tells to reach the other, and back."""
        for _ in range(2):
            for site in (self.ber, self.ham):
                site.sync()
                site.fetch()


@pytest.fixture
def company(tmp_path: Path) -> Company:
    return Company(tmp_path)


def find(box: Box, key: str) -> int:
    with box.in_use():
        found = lookup.asset_by_key(box.organization_id, key)
        assert found
        return found.id


def test_a_pallet_is_known_wherever_it_arrives_and_has_one_history(company: Company) -> None:
    pallet = company.ber.add_asset("P-1", "AA01")
    company.ber.scan(pallet, 0, EPOCH)
    company.settle()
    there = find(company.ham, "P-1")
    with company.ham.in_use():
        assert [tag.value for tag in assets.get(company.ham.organization_id, there).tags] == ["AA01"]
    company.ham.scan(there, 2, EPOCH + 5 * HOUR)
    company.ber.scan(pallet, 1, EPOCH + HOUR)  # read late, while the pallet was still there
    company.settle()
    for site in (company.ber, company.ham):
        assert_equal(site)
    hub = company.hub
    with hub.in_use():
        asset = lookup.asset_by_key(hub.organization_id, "P-1")
        assert asset
        history = report.list_history(hub.organization_id, asset.id, limit=10)
        assert [row.location_external_key for row in history.rows] == ["HAM-DOCK-2", "BER-DOCK-1", "BER-DOCK-0"]
        assert history.total_count == 3
        assert [row.duration_seconds for row in history.rows] == [4 * 3600, 3600, None]
        moves = report.moves(hub.organization_id, asset.id)
        assert [move.reader_name for move in moves] == ["Gate HAM", "Gate BER", "Gate BER"]
        now = board.whereabouts(hub.organization_id, asset.id)
        assert now
        assert now.location_key == "HAM-DOCK-2"


def test_the_names_of_antennas_are_those_of_the_site(company: Company) -> None:
    asset, gates = company.ber.add_asset("P-1", "30AA"), ("north gate", "south gate")
    mapping = '{"tag_path": "epc", "antenna_path": "antenna"}'
    with company.ber.in_use():
        actor = company.ber.actor
        hall = readers.add_reader(actor, name="Hall", topic="ber/hall", format="mapping", mapping=mapping)
        for gate, dock in zip(gates, company.ber.docks, strict=False):
            port = antenna_names.port_from(hall.id, gate)
            readers.set_antenna(actor, hall.id, port, readers.Placement(dock, None, True))
        pipeline = Pipeline(GAP, 7, is_smoothing=False)
        for gate in gates:
            read = orjson.dumps({"epc": "30AA", "antenna": gate})
            pipeline.handle([Message("ber/hall", read, clock.now())])
    company.settle()
    for box, asset_id in ((company.ber, asset), (company.hub, find(company.hub, "P-1"))):
        with box.in_use():
            seen = [(move.reader_name, move.port) for move in report.moves(box.organization_id, asset_id)]
            assert seen == [("Hall", "south gate"), ("Hall", "north gate")]
            rows = flows.export_rows(box.organization_id, since=0, until=2**60)
            assert [(row.reader_name, row.port) for row in rows] == seen[::-1]
            why = why_here(box.organization_id, asset_id)
            assert why
            assert [reason.by for reason in why.reasons] == ["Hall, antenna south gate", "Hall, antenna north gate"]
            assert why.site == (None if box is company.ber else "Site BER")
            assert "at Site BER only" in why.told_of_nothing or box is company.ber


def keys_at(box: Box) -> set[str]:
    return {key for (key,) in box.rows("SELECT external_key FROM asset WHERE deleted_at IS NULL")}


def add_ten(company: Company) -> set[str]:
    """At BER; the hub has them, and HAM does not yet."""
    keys = {f"P-{number}" for number in range(10)}
    for key in sorted(keys):
        company.ber.add_asset(key)
    company.ber.sync()
    assert keys <= keys_at(company.hub)
    assert not keys & keys_at(company.ham)
    return keys


@pytest.mark.parametrize("page", [1, 3, 5, 10])
def test_assets_that_do_not_fit_in_one_answer_come_with_the_next(
    company: Company, monkeypatch: pytest.MonkeyPatch, page: int
) -> None:
    monkeypatch.setattr(hub, "MAX_MASTERS", page)
    company.settle()
    keys = add_ten(company)
    company.ham.fetch()
    assert keys <= keys_at(company.ham)


@pytest.mark.parametrize("kept", [0, 1, 3, 9])
def test_a_site_that_was_away_for_longer_than_the_hub_keeps_changes_gets_all_assets(
    company: Company, monkeypatch: pytest.MonkeyPatch, kept: int
) -> None:
    monkeypatch.setattr(hub, "MAX_MASTERS", 4)
    company.settle()
    keys = add_ten(company)
    with company.hub.in_use():
        while change_feed.trim(change_feed.newest() - kept, 1000):
            pass
    company.ham.fetch()
    assert keys <= keys_at(company.ham)


@pytest.mark.parametrize("dies_at", [1, 2, 3])
def test_a_link_that_breaks_between_two_pages_leaves_no_asset_out(
    company: Company, monkeypatch: pytest.MonkeyPatch, dies_at: int
) -> None:
    """The site notes how far it is with the last page only: a new session begins with the first one."""
    monkeypatch.setattr(hub, "MAX_MASTERS", 4)
    company.settle()
    keys = add_ten(company)
    with company.hub.in_use():
        change_feed.trim(change_feed.newest(), 1000)
    pages = 0

    def break_down(send: Callable[[], Any]) -> Any:
        nonlocal pages
        answer = send()
        pages += "assets" in answer
        if pages == dies_at:
            raise LinkError("the line is cut")
        return answer

    company.ham.spoil = break_down
    with pytest.raises(LinkError):
        company.ham.fetch()
    company.ham.spoil = lambda send: send()
    company.ham.fetch()
    assert keys <= keys_at(company.ham)


def test_a_record_is_changed_at_its_home_and_nowhere_else(company: Company) -> None:
    company.ber.add_asset("P-1")
    company.settle()
    there = find(company.ham, "P-1")
    with company.ham.in_use(), pytest.raises(Conflict, match="kept at BER"):
        assets.patch(company.ham.actor, there, {"name": "Mine"})
    with company.ham.in_use(), pytest.raises(Conflict, match="kept at BER"):
        assets.attach_tag(company.ham.actor, there, NewTag("rfid", "FF"))
    at_hub = find(company.hub, "P-1")
    with company.hub.in_use(), pytest.raises(Conflict, match="kept at BER"):
        assets.delete(company.hub.actor, at_hub)


def test_one_key_at_two_sites_is_listed_and_both_keep_their_scans(company: Company) -> None:
    here, there = company.ber.add_asset("P-1"), company.ham.add_asset("P-1")
    company.ber.scan(here, 0, EPOCH)
    company.ham.scan(there, 1, EPOCH + HOUR)
    company.settle()
    hub = company.hub
    assert hub.rows("SELECT count(*) FROM history") == [(2,)]
    with hub.in_use():
        listed = conflicts.list_conflicts(hub.organization_id).rows
    assert [(row.site_code, row.key, row.reason) for row in listed] == [("HAM", "P-1", "asset P-1 is here already")]


def test_a_clash_ends_when_one_side_takes_another_key(company: Company) -> None:
    company.ber.add_asset("P-1")
    there = company.ham.add_asset("P-1")
    company.settle()
    with company.ham.in_use():
        assets.rename(company.ham.actor, there, "P-2")
    company.settle()
    assert company.hub.rows("SELECT * FROM conflict") == []
    assert company.ber.rows("SELECT external_key FROM asset WHERE deleted_at IS NULL ORDER BY 1") == [
        ("P-1",),
        ("P-2",),
    ]


def test_a_clash_with_a_record_of_the_hub_ends_when_that_takes_another_key(company: Company) -> None:
    hub = company.hub
    with hub.in_use():
        ours = assets.create(hub.actor, name="Ours", external_key="P-1").id
    theirs = company.ham.add_asset("P-1")
    company.ham.scan(theirs, 1, EPOCH)
    company.settle()
    with hub.in_use():
        [clash] = conflicts.list_conflicts(hub.organization_id).rows
        assert clash.may_rename
        with pytest.raises(Conflict, match="that both have"):
            conflicts.rename(hub.actor, clash.site_no, clash.remote_id, "P-1")
        conflicts.rename(hub.actor, clash.site_no, clash.remote_id, "OUR-1")
        assert conflicts.list_conflicts(hub.organization_id).rows == []
        assert assets.get(hub.organization_id, ours).external_key == "OUR-1"
    in_hub = find(hub, "P-1")
    with hub.in_use():
        assert report.list_history(hub.organization_id, in_hub, limit=10).total_count == 1
    company.settle()
    assert find(company.ham, "P-1") == theirs
    assert find(company.ber, "OUR-1")


def test_a_clash_of_two_sites_is_not_ended_by_renaming_at_the_hub(company: Company) -> None:
    company.ber.add_asset("P-1")
    company.ham.add_asset("P-1")
    company.settle()
    with company.hub.in_use():
        [clash] = conflicts.list_conflicts(company.hub.organization_id).rows
        assert not clash.may_rename
        with pytest.raises(Conflict, match="at BER"):
            conflicts.rename(company.hub.actor, clash.site_no, clash.remote_id, "P-9")


def test_a_clash_ends_when_somebody_says_it_is_the_same_thing(company: Company) -> None:
    here, there = company.ber.add_asset("P-1", "AA01"), company.ham.add_asset("P-1", "BB02")
    company.ber.scan(here, 0, EPOCH)
    company.ham.scan(there, 1, EPOCH + HOUR)
    company.settle()
    hub = company.hub
    with hub.in_use():
        [clash] = conflicts.list_conflicts(hub.organization_id).rows
        conflicts.merge(hub.actor, clash.site_no, clash.remote_id)
        asset = lookup.asset_by_key(hub.organization_id, "P-1")
        assert asset
        assert report.list_history(hub.organization_id, asset.id, limit=10).total_count == 2
    company.settle()
    for site, mine in ((company.ber, here), (company.ham, there)):
        assert find(site, "P-1") == mine
        tags = site.rows(f"SELECT value FROM tag WHERE asset_id = {mine} AND deleted_at IS NULL ORDER BY 1")
        assert tags == [("AA01",), ("BB02",)]
        with site.in_use(), pytest.raises(Conflict, match="kept at"):
            assets.delete(site.actor, mine)
    company.ham.scan(there, 2, EPOCH + 9 * HOUR)
    company.settle()
    with hub.in_use():
        assert report.list_history(hub.organization_id, asset.id, limit=10).total_count == 3
    assert hub.rows("SELECT * FROM conflict") == hub.rows("SELECT * FROM set_aside") == []


def test_a_batch_has_the_hub_look_up_what_is_in_it_and_nothing_else(
    company: Company, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, plans = traced(monkeypatch)
    pallet = company.ber.add_asset("P-7", "AA07")
    company.ber.scan(pallet, 1, EPOCH)
    company.ber.sync()
    assert len(plans) > 20
    whole = re.compile(r"SCAN (asset|tag|track|history|link)\b|\(organization_id=\?\)$")
    assert [plan for plan in plans if whole.search(plan)] == []
    asked.clear()
    plans.clear()
    company.ber.scan(pallet, 2, EPOCH - HOUR)  # late: the pallet is where it was
    company.ber.sync()
    assert [sql for sql in asked if sql.startswith("INSERT OR REPLACE INTO history")]
    assert [plan for plan in plans if re.search(r"history .*\(position_no=\?\)$", plan)] == []
    assert [sql for sql in asked if sql.startswith("UPDATE track SET location_id")] == []
    assert_equal(company.ber)


def test_a_hub_asks_for_what_it_does_not_know_before_it_writes_anything(
    company: Company, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sender, "MAX_ROWS", 3)
    for number in range(6):  # where all of them are is told in the first batch, what they are in the next ones
        company.ber.scan(company.ber.add_asset(f"P-{number}"), 0, EPOCH)
    asked: list[tuple[bool, int]] = []
    take = incoming.take

    def counted(*args: Any) -> Any:
        before = database.connection().total_changes
        taken = take(*args)
        asked.append((any(taken.needs), database.connection().total_changes - before))
        return taken

    monkeypatch.setattr(incoming, "take", counted)
    company.ber.sync()
    assert_equal(company.ber)
    assert [written for is_asked, written in asked if is_asked] == [0]


def test_every_clash_gets_its_turn(company: Company, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mirrors, "MOST_RETRIED", 1)
    mine = [company.ber.add_asset(f"P-{number}") for number in range(3)]
    for number in range(3):
        company.ham.add_asset(f"P-{number}")
    company.settle()
    with company.ber.in_use():
        assets.rename(company.ber.actor, mine[2], "P-9")
    for number in range(50):  # each batch tries one of the three
        if company.hub.rows("SELECT count(*) FROM conflict") == [(2,)]:
            break
        company.ham.add_asset(f"Q-{number}")
        company.settle()
    assert company.hub.rows("SELECT record ->> 1 FROM conflict ORDER BY 1") == [("P-0",), ("P-1",)]


def test_what_cannot_be_renamed_at_the_hub_stays_there_under_its_old_name(company: Company) -> None:
    dock = company.ber.docks[0]
    with company.ber.in_use():
        locations.patch(company.ber.actor, dock, {"external_key": "D" * 255})  # and BER- before it is too long there
    company.settle()
    there = "SELECT deleted_at FROM location WHERE external_key = 'BER-DOCK-0'"
    assert company.hub.rows(there) == [(None,)]
    assert "at most 255 characters" in company.hub.rows("SELECT reason FROM set_aside")[0][0]


def traced(monkeypatch: pytest.MonkeyPatch) -> tuple[list[str], list[str]]:
    """What the hub asks its database from now on to take a batch, and how that is done."""
    asked: list[str] = []
    plans: list[str] = []
    real = incoming.take

    def take(*args: Any) -> Any:
        told: list[str] = []
        database.connection().set_trace_callback(told.append)
        taken = real(*args)
        database.connection().set_trace_callback(None)
        queries = [sql for sql in told if sql.startswith(("SELECT", "UPDATE", "DELETE", "INSERT"))]
        asked.extend(queries)
        plans.extend(str(row[3]) for sql in queries for row in execute(f"EXPLAIN QUERY PLAN {sql}").fetchall())
        return taken

    monkeypatch.setattr(incoming, "take", take)
    return asked, plans


def test_what_is_created_while_the_clock_of_a_site_is_ahead_is_visible_at_the_hub_and_at_other_sites(
    company: Company, monkeypatch: pytest.MonkeyPatch
) -> None:
    ahead = clock.now() + 30 * 24 * HOUR
    with monkeypatch.context() as patched:
        patched.setattr(clock, "now", lambda: ahead)
        company.ber.add_asset("P-1", "AA01")
        with company.ber.in_use():
            later = ahead + 24 * HOUR
            assets.create(company.ber.actor, name="Not yet", external_key="P-2", valid_from=later)
    company.settle()
    for box in (company.hub, company.ham):
        with box.in_use():
            listed = assets.list_page(box.organization_id, assets.AssetFilter(), limit=10)
            assert [row.external_key for row in listed.rows] == ["P-1"]
    before = company.hub.rows("SELECT records FROM version")
    with company.hub.in_use():
        mirrors.retry_conflicts(sites.get_site(company.hub.organization_id, company.ber.site_no).peer)
    company.settle()
    assert company.hub.rows("SELECT records FROM version") == before, "it is written once"


def test_assets_that_agree_in_key_name_and_a_tag_are_merged_together_and_no_others(company: Company) -> None:
    for site in (company.ber, company.ham):
        for number in range(5):
            site.add_asset(f"P-{number}", f"AA{number:02d}")
        site.add_asset("P-5", f"{site.name}05")  # another tag
        site.add_asset("P-6")  # no tag
    with company.ham.in_use():
        found = lookup.asset_by_key(company.ham.organization_id, "P-4")
        assert found
        assets.patch(company.ham.actor, found.id, {"name": "Another pallet"})
    company.settle()
    hub = company.hub
    with hub.in_use():
        assert conflicts.list_conflicts(hub.organization_id).total_count == 7
        assert conflicts.merge_agreeing(hub.actor, company.ham.site_no) == 4
        left = conflicts.list_conflicts(hub.organization_id).rows
    assert sorted(clash.key for clash in left) == ["P-4", "P-5", "P-6"]
    company.settle()
    for site in (company.ber, company.ham):
        homes = site.rows("SELECT a.external_key FROM mirror JOIN asset a ON a.id = record_id WHERE home = 'The hub'")
        assert {key for (key,) in homes} >= {f"P-{number}" for number in range(4)}


def test_assets_of_one_import_that_swap_their_keys_stay_two(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of an import are created at the same moment, and with renumbered keys one may arrive before the other."""
    hub = Hub(tmp_path / "hub", "hub")
    ber = SiteBox(tmp_path / "ber", "BER", hub)
    with monkeypatch.context() as frozen:
        at = clock.now()
        frozen.setattr(clock, "now", lambda: at)
        pallet, other = ber.add_asset("P-1", "AA01"), ber.add_asset("P-2", "AA02")
    ber.scan(pallet, 0, EPOCH)
    ber.scan(other, 1, EPOCH + HOUR)
    ber.join()
    ber.settle()
    with ber.in_use():
        assets.rename(ber.actor, pallet, "P-3")
        assets.rename(ber.actor, other, "P-1")
        assets.rename(ber.actor, pallet, "P-2")
    monkeypatch.setattr("edge.sync.sender.MAX_ROWS", 1)
    for _ in range(3):
        ber.settle()
    assert_equal(ber)
    assert hub.rows("SELECT external_key, name FROM asset WHERE deleted_at IS NULL ORDER BY 1") == [
        ("P-1", "Pallet P-2"),
        ("P-2", "Pallet P-1"),
    ]
