"""The open feed of a hub has the history of its sites, and costs them nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from edge.database import change_log
from edge.database.connection import close_database
from edge.records import assets
from edge.sync.store import hub_link
from tests.feed.test_feed import Mirror, assert_equal, box_of
from tests.sync.world import EPOCH, HOUR, Hub, SiteBox


@pytest.fixture
def company(tmp_path: Path, engine: None) -> tuple[Hub, SiteBox, SiteBox]:
    hub = Hub(tmp_path / "hub", "hub")
    sites = [SiteBox(tmp_path / code, code, hub) for code in ("BER", "HAM")]
    for site in sites:
        site.pallet = site.add_asset(f"P-{site.name}", f"E{site.name}")
        site.join()
        site.settle()
    return hub, sites[0], sites[1]


def test_a_hub_feeds_the_history_of_each_site(company: tuple[Hub, SiteBox, SiteBox]) -> None:
    hub, ber, ham = company
    with hub.in_use():
        everything = Mirror(box_of(hub.organization_id))
        one = Mirror(everything.box)
        answer = one.box.get(query="site=BER")
        while one.apply(one.db, answer.data):
            answer = one.box.get(one.cursor)
        everything.follow()
    for hour, (site, dock) in enumerate([(ber, 0), (ber, 1), (ham, 0), (ber, 2), (ham, 1)]):
        site.scan(site.pallet, dock, EPOCH + hour * HOUR)
        site.settle()
    ber.scan(ber.pallet, 2, EPOCH + HOUR // 2)  # late
    ber.settle()
    with hub.in_use():
        everything.follow()
        assert_equal(everything)
        one.follow()
        stays = one.rows("stay")
        assert 0 < len(stays) < len(everything.rows("stay"))
        site_no = ber.site_no
        assert one.db.execute("SELECT DISTINCT site_id FROM stay").fetchall() == [(site_no,)]
        assert [row[1] for row in everything.rows("site")] == ["BER", "HAM"]


def test_sites_do_not_ask_for_records_because_of_history(
    company: tuple[Hub, SiteBox, SiteBox], monkeypatch: pytest.MonkeyPatch
) -> None:
    hub, ber, ham = company
    with hub.in_use():
        Mirror(box_of(hub.organization_id)).follow()
    asked: list[str] = []
    answer = Hub.answer

    def note(self: Hub, site_no: int, path: str, body: bytes) -> Any:
        asked.append(path)
        return answer(self, site_no, path, body)

    ham.settle()
    ber.settle()
    monkeypatch.setattr(Hub, "answer", note)
    for hour in range(3):
        ber.scan(ber.pallet, hour, EPOCH + hour * HOUR)
        ber.settle()
    ham.settle()
    assert "changes" in asked
    assert "masters" not in asked
    with hub.in_use():
        assets.create(hub.actor, name="New", external_key="NEW")
    ham.settle()
    assert asked.count("masters") == 1
    assert ham.rows("SELECT name FROM asset WHERE external_key = 'NEW'") == [("New",)]


def test_sites_get_a_new_asset_after_the_feed_was_trimmed(company: tuple[Hub, SiteBox, SiteBox]) -> None:
    hub, ber, ham = company
    with hub.in_use():
        Mirror(box_of(hub.organization_id)).follow()
    ber.scan(ber.pallet, 1, EPOCH)
    ber.settle()
    with hub.in_use():
        change_log.trim(change_log.newest(), 1_000)
    ham.settle()
    with hub.in_use():
        assets.create(hub.actor, name="New", external_key="NEW")
    ham.settle()
    assert ham.rows("SELECT name FROM asset WHERE external_key = 'NEW'") == [("New",)]


def test_a_site_that_leaves_its_hub_keeps_its_feed(company: tuple[Hub, SiteBox, SiteBox]) -> None:
    _, ber, _ = company
    with ber.in_use():
        mirror = Mirror(box_of(ber.organization_id))
        mirror.follow()
        hub_link.end(ber.actor)
        ber.scan_now(ber.pallet, 1, EPOCH)
        assert [json.loads(line)["op"] for line in mirror.box.get(mirror.cursor).data.splitlines()][-2] == "put"
        mirror.follow()
        assert_equal(mirror)


def test_a_change_that_the_hub_refuses_is_in_the_feed(company: tuple[Hub, SiteBox, SiteBox]) -> None:
    _, ber, _ = company
    with ber.in_use():
        mirror = Mirror(box_of(ber.organization_id))
        mirror.follow()
        ber.scan_now(ber.pallet, 1, EPOCH)
        for change in change_log.after(0, 1_000):
            hub_link.skip(change.seq)
        mirror.follow()
        assert_equal(mirror)
    close_database()
