"""Moving more than one thing: everything at a location, and what is on a carrier."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, Route, expect

from edge.store import board
from edge.store.database import execute
from tests.browser.conftest import PHONE, Site, outcome, scan

pytestmark = pytest.mark.browser
ScanPage = Callable[..., Page]


def location_of(site: Site, number: int) -> str | None:
    row = board.whereabouts(site.organization_id, site.assets[number - 1].id)
    return row.location_name if row else None


def test_everything_at_a_location_is_moved_and_each_line_can_be_taken_back(scan_page: ScanPage, site: Site) -> None:
    page = scan_page(viewport=PHONE)
    for number in (1, 2, 3):
        scan(page, f"BC-{number:04}")
    outcome(page, "recorded", "Pallet 3")
    page.click("#jobs")
    page.click("text=Move everything")
    page.click(".choice-button:has-text('Rack B')")
    expect(page.locator("#sheet-body")).to_contain_text("3 things go from Dock 1 to Rack B")
    on_the_way: list[Route] = []
    page.route("**/scan/batch", lambda route: on_the_way.append(route))
    with page.expect_request("**/scan/batch"):
        page.click("button:has-text('Move 3 things')")
        expect(page.locator("#said")).to_contain_text("3 things are moved to Rack B")
    assert page.inner_text("#link") == "Sending · 3 kept", "nothing is said to be saved that only waits"
    on_the_way[0].continue_()
    page.unroute("**/scan/batch")
    expect(page.locator("#link")).to_have_text("All saved")
    expect(page.locator("#location-name")).to_have_text("Dock 1")
    assert [location_of(site, number) for number in (1, 2, 3)] == ["Rack B"] * 3
    page.click("#undo")
    expect(page.locator(".station[data-outcome=undone]")).to_be_visible()
    expect(page.locator("#link")).to_have_text("All saved")
    assert [location_of(site, number) for number in (1, 2, 3)].count("Dock 1") == 1


def test_things_put_on_a_pallet_go_where_it_goes(scan_page: ScanPage, site: Site) -> None:
    page = scan_page(viewport=PHONE)
    page.click("#jobs")
    page.click("text=Load a carrier")
    expect(page.locator("#loading")).to_contain_text("scan the carrier first")
    scan(page, "BC-0001")
    expect(page.locator("#loading")).to_contain_text("Loading Pallet 1")
    scan(page, "BC-0002")
    scan(page, "BC-0003")
    outcome(page, "recorded", "Pallet 3")
    scan(page, "NOBODY-KNOWS")
    outcome(page, "refused", "Unknown tag")
    page.click("#loading")
    expect(page.locator("#loading")).to_be_hidden()
    scan(page, "RACK-A")
    scan(page, "BC-0001")
    outcome(page, "recorded", "Pallet 1")
    assert [location_of(site, number) for number in (1, 2, 3)] == ["Rack A"] * 3
    page.click("#find")
    scan(page, "BC-0001")
    expect(page.locator("#answer")).to_contain_text("Carries Pallet 2, Pallet 3")
    page.click("#sheet-close")
    page.click("#jobs")
    page.click("text=Take things off their carrier")
    scan(page, "BC-0002")
    outcome(page, "recorded", "Pallet 2")
    page.click("#loading")
    scan(page, "RACK-B")
    scan(page, "ASSET-0001")
    outcome(page, "recorded", "Pallet 1")
    assert [location_of(site, number) for number in (1, 2, 3)] == ["Rack B", "Rack A", "Rack B"]
    assert execute("SELECT count(*) FROM history WHERE quality = 5").fetchone() == (3,)
