"""Messages of a site cost the hub the same with any amount of data, and one small message cannot block it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from edge import clock
from edge.audit import actors
from edge.database import change_log
from edge.database.change_log import Kind
from edge.database.connection import execute, writing
from edge.doors.passage_copies import SentDoor, SentPassage
from edge.errors import Unavailable
from edge.people import people, sessions
from edge.people.people import Role
from edge.people.secrets import hash_secret
from edge.sync import batch_format, hub
from edge.sync.store import change_feed, clashes, incoming, mirrors, outgoing, refused_data, sites, state
from edge.sync.store.exchange import AssetRecord, Batch, Cursor, LocationRecord, Needs, Origin, Patch, Stay, TrackState
from tests.application import make_app
from tests.observed import steps_of
from tests.pages.conftest import Browser
from tests.sync.world import EPOCH, Hub, SiteBox, apply_records

MANY = 3_000


@pytest.fixture
def box(tmp_path: Path) -> SiteBox:
    site = SiteBox(tmp_path / "ber", "BER", Hub(tmp_path / "hub", "hub"))
    site.join()
    site.sync()
    return site


def asset(number: int) -> AssetRecord:
    return AssetRecord(number, f"K-{number}", "Name", None, 1, "{}", EPOCH, None, EPOCH + number, EPOCH, None, [])


def location(number: int, parent: int, updated_at: int = EPOCH) -> LocationRecord:
    return LocationRecord(
        *(number, parent, f"K-{number}", "Name", None, 1, EPOCH, None, EPOCH + number, updated_at, None, [])
    )


def test_a_record_costs_the_same_at_a_hub_with_many_assets(box: SiteBox) -> None:
    """Regression: the index for lists of assets made SQLite read all assets of the organization for each record."""
    with box.hub.in_use():
        site = sites.get_site(box.hub.organization_id, box.site_no)

        def take(number: int) -> Callable[[], object]:
            return lambda: apply_records(site.peer, asset(number))

        def look() -> None:
            ids = {execute("SELECT max(id) FROM asset").fetchone()[0]}
            outgoing.assets_for_site(site.organization_id, 99, ids)
            contents = outgoing.Contents(site.organization_id, 0)
            contents.need(Needs(assets=[*ids]))
            contents.batch(0)
            outgoing._names("asset", site.organization_id, ids)

        def page() -> None:
            outgoing.asset_ids_after(site.organization_id, 0, 10)
            clashes.own_records(site.organization_id, Kind.ASSET, 0, "hub")

        with writing():
            apply_records(site.peer, *map(asset, range(1, 20)))
            works = [take(1000), look, page]
            before = [steps_of(work) for work in works]
            apply_records(site.peer, *map(asset, range(2000, 2000 + MANY)))
            works[0] = take(1001)
            after = [steps_of(work) for work in works]
    assert after[0] < before[0] * 2
    assert after[1] < before[1] * 2
    assert after[2] < before[2] + 200 * clashes.MOST_RECORDS  # a page is full now


def test_changes_of_records_are_found_behind_many_changes_of_stays(box: SiteBox) -> None:
    """Regression: with an open feed, each batch of a site read all changes of stays that the feed still had."""
    with box.hub.in_use():
        change_feed.open_for_readers()
        with writing():
            apply_records(sites.get_site(box.hub.organization_id, box.site_no).peer, *map(asset, range(300)))
            execute("ANALYZE")  # as the service does; the planner then expects changes of records everywhere
            change_feed.add_stays([(1, at) for at in range(5_000)])
        assert steps_of(change_feed.newest_record) < 500
        assert steps_of(lambda: change_feed.records_listed(change_log.newest() - 5_000, 5)) < 500


def send(box: SiteBox, **values: Any) -> Any:
    """Send a forged batch to the hub."""
    with box.hub.in_use():
        base: Cursor = sites.get_site(box.hub.organization_id, box.site_no).cursor
    empty: dict[str, Any] = dict.fromkeys(Batch._fields[2:4], ()) | {"readers": {}, "people": {}, "horizon": 0}
    empty |= dict.fromkeys(("tracks", "gone_tracks", "origins", "patches"), ())
    batch = Batch(**empty | {"until_seq": base.acked_seq + 1} | values)
    return box.hub.answer(box.site_no, "changes", batch_format.encode(base, batch))


def track(no: int, asset_ref: int, location: int, at: int = EPOCH) -> TrackState:
    return TrackState(no, asset_ref, location, at, at, at, 0, 1)


def stay(at: int) -> Stay:
    return Stay(at, 0, 0, 0, 0, 0, 1, None)


def passage(no: int, asset_ref: int, at: int = EPOCH) -> SentPassage:
    return SentPassage(no, 1, asset_ref, at, 1, 500, 1, 1, at, at, at, 0)


def test_an_asset_has_a_bounded_number_of_positions_from_one_site(box: SiteBox) -> None:
    """Regression: a request of 4 KB with 30,000 positions of one asset kept the hub's write lock for minutes."""
    send(box, assets=[asset(1)])
    many = range(1, incoming.MOST_TRACKS + refused_data.MOST_ASIDE + 201)
    answer = send(
        box,
        tracks=[track(no, 1, box.docks[0]) for no in many],
        origins=[Origin(box.docks[0], None, None, None)],
        patches=[Patch(no, EPOCH, EPOCH, [stay(EPOCH)]) for no in many],
    )
    assert answer["applied"]
    assert len(answer["aside"]) == refused_data.MOST_ASIDE
    assert box.hub.rows("SELECT count(*) FROM set_aside") == [(refused_data.MOST_ASIDE,)]
    assert len(send(box, tracks=[track(9_999, 1, box.docks[0])])["aside"]) == 1
    assert box.hub.rows("SELECT count(*) FROM track") == [(incoming.MOST_TRACKS,)]
    for number in range(3):  # the same number for another asset starts another position
        send(box, assets=[asset(2 + number)], tracks=[track(7, 2 + number, box.docks[0])])
        send(box, tracks=[track(7, 1, box.docks[0])])
    assert box.hub.rows("SELECT count(*) FROM track") == [(incoming.MOST_TRACKS + 3,)]


def test_a_site_cannot_report_the_future(tmp_path: Path, box: SiteBox) -> None:
    """Regression: with one position in the year 9999, a site decided for good where the board shows an asset."""
    future = clock.now() + incoming.MOST_AHEAD + clock.HOUR
    other = SiteBox(tmp_path / "ham", "HAM", box.hub)
    other.join()
    pallet = box.add_asset("P-1")
    box.scan(pallet, 0, EPOCH)
    box.sync()
    other.sync()
    other.fetch()
    [(ref,)] = box.hub.rows("SELECT -id FROM asset")
    dock = other.docks[0]
    at_dock = [Origin(dock, None, None, None)]
    send(other, tracks=[track(1, ref, dock, EPOCH - 1)])
    answer = send(
        other,
        assets=[asset(9)],
        tracks=[track(2, 9, dock, future), track(3, 9, dock)],
        origins=at_dock,
        patches=[Patch(2, future, future, [stay(future)]), Patch(3, EPOCH, future, [stay(EPOCH), stay(future)])],
        seen=[(1, future)],
        doors=[SentDoor(1, None, "Gate")],
        passages=[passage(1, ref), passage(2, ref, future)],
    )
    assert answer["applied"]
    assert sorted(item.partition(":")[0] for item in answer["aside"]) == [
        *("passages", "position 1", "position 2", "position 3")
    ]
    shown = "SELECT l.external_key FROM position p JOIN location l ON l.id = p.location_id"
    assert box.hub.rows(shown) == [("BER-DOCK-0",)]
    assert box.hub.rows("SELECT remote_no FROM passage") == [(1,)]
    soon = clock.now() + clock.HOUR  # a clock that is a little wrong loses nothing
    assert send(other, seen=[(1, soon)])["aside"] == []
    assert box.hub.rows(shown) == [("HAM-DOCK-0",)]


def test_a_hub_whose_clock_was_never_set_takes_everything(box: SiteBox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "now", lambda: clock.DAY)
    assert send(box, assets=[asset(1)], tracks=[track(1, 1, box.docks[0])])["aside"] == []
    assert box.hub.rows("SELECT count(*) FROM track") == [(1,)]


def test_stays_two_thousand_years_apart_do_not_keep_a_hub_busy(box: SiteBox, monkeypatch: pytest.MonkeyPatch) -> None:
    """Regression: one question of a site made the hub compute and store digests of 740,000 days."""
    monkeypatch.setattr(hub, "WHOLE_SECONDS", 0.1)
    long_ago = EPOCH - 2_000 * 365 * clock.DAY
    send(
        box,
        assets=[asset(1)],
        tracks=[track(1, 1, box.docks[0])],
        origins=[Origin(box.docks[0], None, None, None)],
        patches=[Patch(1, at, at, [stay(at)]) for at in (long_ago, EPOCH)],
    )
    question = batch_format.pack({"range": [-(10**9), 10**9], "days": []})
    with pytest.raises(Unavailable):
        box.hub.answer(box.site_no, "digests", question)


def test_a_site_asks_for_ranges_of_copies_that_do_not_exist(box: SiteBox) -> None:
    """Regression: 500 and a traceback in the log."""
    [(epoch,)] = box.hub.rows("SELECT epoch FROM hub")
    content = {"range": [1, 0], "days": [], "of": "copies", "first": 0, "after": 0, "epoch": epoch, "is_exact": True}
    for number in (2**60, -5):
        answer = box.hub.answer(box.site_no, "digests", batch_format.pack({**content, "buckets": [number]}))
        assert answer == {"buckets": [], "copies": [], "without": [], "is_exact": True, "columns": []}


def test_of_passages_with_one_number_the_last_counts(box: SiteBox) -> None:
    """Regression: 500 and a traceback in the log."""
    send(box, assets=[asset(1)])
    twice = [passage(1, 1), passage(1, 1, EPOCH + 1)]
    assert send(box, doors=[SentDoor(1, None, "Gate")], passages=twice)["applied"]
    assert box.hub.rows("SELECT at FROM passage") == [(EPOCH + 1,)]


def test_a_location_is_not_an_asset(box: SiteBox) -> None:
    """Regression: 500 and a traceback in the log."""
    [(place,)] = box.hub.rows("SELECT id FROM location WHERE external_key = 'BER'")
    assert send(box, tracks=[track(1, -place, box.docks[0])])["needs"]["assets"] == [-place]
    answer = send(box, doors=[SentDoor(1, None, "Gate")], passages=[passage(1, -place)])
    assert answer["needs"]["assets"] == [-place]


@pytest.mark.parametrize("moment", [2**63 - 1, 1 - 2**63])
def test_times_without_a_calendar_do_not_break_the_page_of_all_sites(box: SiteBox, moment: int) -> None:
    """Regression: the Sync page of the hub answered 500."""
    send(box, report={"board_at": moment, "history_until": moment, "waiting": -3})
    with box.hub.in_use():
        [status] = state.site_statuses(box.hub.organization_id)
        person = people.add_person(box.hub.actor, "Ann", Role.ADMINISTRATOR)
        actor = actors.person(box.hub.organization_id, person.id, person.name)
        sessions.add_session(actor, hash_secret("token"), clock.now() + clock.HOUR)
        page = Browser(make_app(), "token").get("/sync")
    assert (status.board_at, status.history_until, status.waiting) == (None, None, 0)
    assert page.status_code == 200


def test_a_branch_of_a_site_has_a_bounded_depth(box: SiteBox, monkeypatch: pytest.MonkeyPatch) -> None:
    """Regression: moving 2,000 locations below a chain of 9,000 kept the hub's write lock for minutes."""
    monkeypatch.setattr(mirrors, "MOST_LEVELS", 5)
    chain = [location(1000 + level, 999 + level if level else box.yard) for level in range(4)]
    assert [item.partition(":")[0] for item in send(box, locations=chain)["aside"]] == ["location K-1003"]
    send(box, locations=[location(2000, box.yard)])
    moved = send(box, locations=[location(2000, 1002, EPOCH + 1)])
    assert moved["aside"] == ["location K-2000: it would be more than 5 levels deep"]
    renamed = location(1002, 1001, EPOCH + 2)._replace(name="Renamed")
    monkeypatch.setattr(mirrors, "MOST_LEVELS", 2)
    assert send(box, locations=[renamed])["aside"] == [], "one that stays where it is may be deeper"
