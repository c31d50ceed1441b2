"""Assets are known at all sites, each has one home, and conflicts are listed until somebody resolves them."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from edge import clock
from edge.database import change_log
from edge.database.connection import database, execute
from edge.errors import Conflict
from edge.ingest.messages import Message
from edge.ingest.pipeline import Pipeline
from edge.readers import readers
from edge.records import assets, locations, lookup
from edge.records.record import RecordFilter
from edge.records.tags import NewTag
from edge.sync import hub, sender
from edge.sync.sender import LinkError
from edge.sync.store import conflicts, incoming, mirrors, sites
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
        """Sync both sites until data of one has reached the other and its answer has come back."""
        for _ in range(2):
            for site in (self.ber, self.ham):
                site.sync()
                site.fetch()


@pytest.fixture
def company(tmp_path: Path) -> Company:
    return Company(tmp_path)


def find(box: Box, key: str) -> int:
    with box.in_use():
        row = lookup.asset_by_key(box.organization_id, key)
        assert row
        return row.id


def test_a_pallet_is_known_at_every_site_and_has_one_history(company: Company) -> None:
    pallet = company.ber.add_asset("P-1", "AA01")
    company.ber.scan(pallet, 0, EPOCH)
    company.settle()
    there = find(company.ham, "P-1")
    with company.ham.in_use():
        assert [tag.value for tag in assets.get(company.ham.organization_id, there).tags] == ["AA01"]
    company.ham.scan(there, 2, EPOCH + 5 * HOUR)
    company.ber.scan(pallet, 1, EPOCH + HOUR)  # a late read while the pallet was still there
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


def test_antenna_names_come_from_the_site(company: Company) -> None:
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
            read = msgspec.json.encode({"epc": "30AA", "antenna": gate})
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
            assert "at Site BER only" in why.missing_text or box is company.ber


def keys_at(box: Box) -> set[str]:
    return {key for (key,) in box.rows("SELECT external_key FROM asset WHERE deleted_at IS NULL")}


def add_ten(company: Company) -> set[str]:
    """Add ten assets at BER that the hub has and HAM does not. Returns their keys."""
    keys = {f"P-{number}" for number in range(10)}
    for key in sorted(keys):
        company.ber.add_asset(key)
    company.ber.sync()
    assert keys <= keys_at(company.hub)
    assert not keys & keys_at(company.ham)
    return keys


@pytest.mark.parametrize("page", [1, 3, 5, 10])
def test_assets_that_do_not_fit_one_answer_follow_in_the_next(
    company: Company, monkeypatch: pytest.MonkeyPatch, page: int
) -> None:
    monkeypatch.setattr(hub, "MAX_MASTERS", page)
    company.settle()
    keys = add_ten(company)
    company.ham.fetch()
    assert keys <= keys_at(company.ham)


@pytest.mark.parametrize("kept", [0, 1, 3, 9])
def test_a_site_offline_beyond_the_feed_gets_all_assets(
    company: Company, monkeypatch: pytest.MonkeyPatch, kept: int
) -> None:
    monkeypatch.setattr(hub, "MAX_MASTERS", 4)
    company.settle()
    keys = add_ten(company)
    with company.hub.in_use():
        while change_log.trim(change_log.newest() - kept, 1000):
            pass
    company.ham.fetch()
    assert keys <= keys_at(company.ham)


def test_an_asset_that_was_deleted_while_a_site_was_away_beyond_the_feed_is_deleted_there(company: Company) -> None:
    """Pages of all assets have live ones only, so the site asks for the others."""
    with company.hub.in_use():
        gone, kept = (
            assets.create(company.hub.actor, name="Of the hub", external_key=key).id for key in ("U-1", "U-2")
        )
    company.settle()
    with company.hub.in_use():
        assets.delete(company.hub.actor, gone)
        assets.rename(company.hub.actor, kept, "U-3")
        change_log.trim(change_log.newest(), 1000)
    company.ham.settle()
    assert keys_at(company.ham) & {"U-1", "U-2", "U-3"} == {"U-3"}


@pytest.mark.parametrize("dies_at", [1, 2, 3])
def test_a_link_failure_between_pages_loses_no_asset(
    company: Company, monkeypatch: pytest.MonkeyPatch, dies_at: int
) -> None:
    """The site stores its progress with the last page only, so a new session starts with the first page."""
    monkeypatch.setattr(hub, "MAX_MASTERS", 4)
    company.settle()
    keys = add_ten(company)
    with company.hub.in_use():
        change_log.trim(change_log.newest(), 1000)
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


def test_a_record_can_only_be_changed_at_its_home(company: Company) -> None:
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


def test_a_key_at_two_sites_is_a_conflict_and_both_keep_their_scans(company: Company) -> None:
    here, there = company.ber.add_asset("P-1"), company.ham.add_asset("P-1")
    company.ber.scan(here, 0, EPOCH)
    company.ham.scan(there, 1, EPOCH + HOUR)
    company.settle()
    hub = company.hub
    assert hub.rows("SELECT count(*) FROM history") == [(2,)]
    with hub.in_use():
        listed = conflicts.list_conflicts(hub.organization_id).rows
    assert [(row.site_code, row.key, row.reason) for row in listed] == [("HAM", "P-1", "asset P-1 already exists here")]


def test_a_conflict_ends_when_one_side_changes_its_key(company: Company) -> None:
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


def test_a_conflict_with_a_record_of_the_hub_ends_when_its_key_changes(company: Company) -> None:
    hub = company.hub
    with hub.in_use():
        ours = assets.create(hub.actor, name="Ours", external_key="P-1").id
    theirs = company.ham.add_asset("P-1")
    company.ham.scan(theirs, 1, EPOCH)
    company.settle()
    with hub.in_use():
        [conflict] = conflicts.list_conflicts(hub.organization_id).rows
        assert conflict.may_rename
        with pytest.raises(Conflict, match="is the key of both"):
            conflicts.rename(hub.actor, conflict.site_no, conflict.remote_id, "P-1")
        conflicts.rename(hub.actor, conflict.site_no, conflict.remote_id, "OUR-1")
        assert conflicts.list_conflicts(hub.organization_id).rows == []
        assert assets.get(hub.organization_id, ours).external_key == "OUR-1"
    in_hub = find(hub, "P-1")
    with hub.in_use():
        assert report.list_history(hub.organization_id, in_hub, limit=10).total_count == 1
    company.settle()
    assert find(company.ham, "P-1") == theirs
    assert find(company.ber, "OUR-1")


def test_a_conflict_of_two_sites_cannot_be_resolved_by_renaming_at_the_hub(company: Company) -> None:
    company.ber.add_asset("P-1")
    company.ham.add_asset("P-1")
    company.settle()
    with company.hub.in_use():
        [conflict] = conflicts.list_conflicts(company.hub.organization_id).rows
        assert not conflict.may_rename
        with pytest.raises(Conflict, match="at BER"):
            conflicts.rename(company.hub.actor, conflict.site_no, conflict.remote_id, "P-9")


def test_a_conflict_ends_with_a_merge(company: Company) -> None:
    here, there = company.ber.add_asset("P-1", "AA01"), company.ham.add_asset("P-1", "BB02")
    company.ber.scan(here, 0, EPOCH)
    company.ham.scan(there, 1, EPOCH + HOUR)
    company.settle()
    hub = company.hub
    with hub.in_use():
        [conflict] = conflicts.list_conflicts(hub.organization_id).rows
        conflicts.merge(hub.actor, conflict.site_no, conflict.remote_id)
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


def test_a_change_at_a_former_home_does_not_reach_a_merged_asset(company: Company) -> None:
    company.ber.add_asset("P-1", "AA01")
    there = company.ham.add_asset("P-1", "BB02")
    company.settle()
    hub = company.hub
    with hub.in_use():
        [conflict] = conflicts.list_conflicts(hub.organization_id).rows
        conflicts.merge(hub.actor, conflict.site_no, conflict.remote_id)
    with company.ham.in_use():  # which does not know of the merge yet
        assets.patch(company.ham.actor, there, {"name": "Renamed"})
        assets.rename(company.ham.actor, there, "P-2")
    company.ham.sync()
    with hub.in_use():
        merged = assets.get(hub.organization_id, conflict.local_id)
        assert (merged.external_key, {tag.value for tag in merged.tags}) == ("P-1", {"AA01", "BB02"})


def test_a_batch_queries_only_its_own_records(company: Company, monkeypatch: pytest.MonkeyPatch) -> None:
    company.ber.add_asset("P-6")
    company.ber.sync()  # counts all records once per thousand new ones, see `quotas.check_number`
    asked, plans = traced(monkeypatch)
    pallet = company.ber.add_asset("P-7", "AA07")
    company.ber.scan(pallet, 1, EPOCH)
    company.ber.sync()
    assert len(plans) > 20
    whole = re.compile(r"SCAN (asset|tag|track|history|link)\b|\(organization_id=\?\)$")
    assert [plan for plan in plans if whole.search(plan)] == []
    asked.clear()
    plans.clear()
    company.ber.scan(pallet, 2, EPOCH - HOUR)  # late, so the position does not change
    company.ber.sync()
    assert [sql for sql in asked if sql.startswith("INSERT OR REPLACE INTO history")]
    assert [plan for plan in plans if re.search(r"history .*\(position_no=\?\)$", plan)] == []
    assert [sql for sql in asked if sql.startswith("UPDATE track SET location_id")] == []
    assert_equal(company.ber)


def test_a_hub_requests_unknown_records_before_writing(company: Company, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sender, "MAX_ROWS", 3)
    for number in range(6):  # the first batch has all positions, later ones the records
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


def test_every_conflict_is_retried(company: Company, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mirrors, "MOST_RETRIED", 1)
    mine = [company.ber.add_asset(f"P-{number}") for number in range(3)]
    for number in range(3):
        company.ham.add_asset(f"P-{number}")
    company.settle()
    with company.ber.in_use():
        assets.rename(company.ber.actor, mine[2], "P-9")
    for number in range(50):  # each batch retries one of the three
        if company.hub.rows("SELECT count(*) FROM conflict") == [(2,)]:
            break
        company.ham.add_asset(f"Q-{number}")
        company.settle()
    assert company.hub.rows("SELECT record ->> 1 FROM conflict ORDER BY 1") == [("P-0",), ("P-1",)]


def test_a_key_too_long_for_the_hub_stays_unchanged_there(company: Company) -> None:
    dock = company.ber.docks[0]
    with company.ber.in_use():
        locations.patch(
            company.ber.actor, dock, {"external_key": "D" * 255}
        )  # too long at the hub with the prefix BER-
    company.settle()
    there = "SELECT deleted_at FROM location WHERE external_key = 'BER-DOCK-0'"
    assert company.hub.rows(there) == [(None,)]
    assert "at most 255 characters" in company.hub.rows("SELECT reason FROM set_aside")[0][0]


def traced(monkeypatch: pytest.MonkeyPatch) -> tuple[list[str], list[str]]:
    """Record the hub's queries for batches from now on, and their query plans."""
    queries_made: list[str] = []
    plans: list[str] = []
    real = incoming.take

    def take(*args: Any) -> Any:
        statements: list[str] = []
        database.connection().set_trace_callback(statements.append)
        taken = real(*args)
        database.connection().set_trace_callback(None)
        queries = [sql for sql in statements if sql.startswith(("SELECT", "UPDATE", "DELETE", "INSERT"))]
        queries_made.extend(queries)
        plans.extend(str(row[3]) for sql in queries for row in execute(f"EXPLAIN QUERY PLAN {sql}").fetchall())
        return taken

    monkeypatch.setattr(incoming, "take", take)
    return queries_made, plans


def test_records_created_with_a_clock_ahead_are_visible_everywhere(
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
            listed = assets.list_page(box.organization_id, RecordFilter(), limit=10)
            assert [row.external_key for row in listed.rows] == ["P-1"]
    before = company.hub.rows("SELECT records FROM version")
    with company.hub.in_use():
        mirrors.retry_conflicts(sites.get_site(company.hub.organization_id, company.ber.site_no).peer)
    company.settle()
    assert company.hub.rows("SELECT records FROM version") == before, "it is written once"


def test_only_assets_with_equal_key_name_and_tag_are_merged_together(company: Company) -> None:
    for site in (company.ber, company.ham):
        for number in range(5):
            site.add_asset(f"P-{number}", f"AA{number:02d}")
        site.add_asset("P-5", f"{site.name}05")  # another tag
        site.add_asset("P-6")  # no tag
    with company.ham.in_use():
        row = lookup.asset_by_key(company.ham.organization_id, "P-4")
        assert row
        assets.patch(company.ham.actor, row.id, {"name": "Another pallet"})
    company.settle()
    hub = company.hub
    with hub.in_use():
        assert conflicts.list_conflicts(hub.organization_id).total_count == 7
        assert conflicts.merge_agreeing(hub.actor, company.ham.site_no) == 4
        left = conflicts.list_conflicts(hub.organization_id).rows
    assert sorted(conflict.key for conflict in left) == ["P-4", "P-5", "P-6"]
    company.settle()
    for site in (company.ber, company.ham):
        homes = site.rows("SELECT a.external_key FROM mirror JOIN asset a ON a.id = record_id WHERE home = 'The hub'")
        assert {key for (key,) in homes} >= {f"P-{number}" for number in range(4)}


def test_imported_assets_with_swapped_keys_stay_separate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Imported rows share one creation time, and after renumbering one may arrive before the other."""
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
