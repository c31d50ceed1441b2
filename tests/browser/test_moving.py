"""Moving several assets: everything at a location, and the load of a carrier."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, Route, expect

from edge import clock
from edge.audit.actors import shell
from edge.database.connection import execute
from edge.records import assets
from edge.tracking import board, carriers, positions
from edge.tracking.stays import Quality, Scan
from tests.browser.conftest import PHONE, Site, outcome, scan
from tests.service import wait_for

pytestmark = pytest.mark.browser
ScanPage = Callable[..., Page]


def location_of(site: Site, number: int) -> str | None:
    row = board.whereabouts(site.organization_id, site.assets[number - 1].id)
    return row.location_name if row else None


def test_everything_at_a_location_is_moved_and_moved_back_by_one_undo(scan_page: ScanPage, site: Site) -> None:
    page = scan_page(viewport=PHONE)
    for number in (1, 2, 3):
        scan(page, f"BC-{number:04}")
    outcome(page, "recorded", "Pallet 3")
    page.click("#jobs")
    page.click("text=Move everything")
    page.click(".choice-button:has-text('Rack B')")
    expect(page.locator("#sheet-body")).to_contain_text("3 assets move from Dock 1 to Rack B")
    on_the_way: list[Route] = []
    page.route("**/scan/batch", lambda route: on_the_way.append(route))
    with page.expect_request("**/scan/batch"):
        page.click("button:has-text('Move 3 assets')")
        expect(page.locator("#said")).to_contain_text("3 assets moved to Rack B")
    assert page.inner_text("#link") == "Sending · 3 kept", "nothing is said to be saved that only waits"
    on_the_way[0].continue_()
    page.unroute("**/scan/batch")
    expect(page.locator("#link")).to_have_text("All saved")
    expect(page.locator("#location-name")).to_have_text("Dock 1")
    assert [location_of(site, number) for number in (1, 2, 3)] == ["Rack B"] * 3
    page.click("#undo")
    expect(page.locator(".station[data-outcome=undone]")).to_be_visible()
    wait_for(lambda: [location_of(site, number) for number in (1, 2, 3)] == ["Dock 1"] * 3, 20)


def test_of_what_was_moved_together_one_line_can_be_undone(scan_page: ScanPage, site: Site) -> None:
    page = scan_page(viewport=PHONE)
    for number in (1, 2):
        scan(page, f"BC-{number:04}")
    outcome(page, "recorded", "Pallet 2")
    move_everything(page, "Rack B")
    expect(page.locator("#link")).to_have_text("All saved")
    scan(page, "RACK-B")
    page.click("#count")
    page.locator("#sheet li", has_text="Pallet 2").get_by_text("Undo").click()
    expect(page.locator("#sheet li[data-outcome=undone]")).to_contain_text("Pallet 2")
    assert [location_of(site, number) for number in (1, 2)] == ["Rack B", "Dock 1"]


@pytest.mark.parametrize(("key", "other"), [("A?B", "A"), ("C#1", "C"), ("Q%41", "QA"), ("M/1", "M"), ("BC-0007", "x")])
def test_a_key_with_any_character_moves_its_own_asset(scan_page: ScanPage, site: Site, key: str, other: str) -> None:
    """Also one that is the tag of another asset: `BC-0007` is that of Pallet 7."""
    named = {name: assets.create(shell(site.organization_id), name=name, external_key=name) for name in (key, other)}
    page = scan_page(viewport=PHONE)
    now = clock.now()
    dock = site.docks[0].id
    positions.record([Scan(site.organization_id, named[key].id, dock, None, None, now, now, Quality.HANDHELD)], 0)
    move_everything(page, "Rack B")

    def where() -> dict[str, str | None]:
        rows = {name: board.whereabouts(site.organization_id, row.id) for name, row in named.items()}
        return {name: row and row.location_name for name, row in rows.items()}

    wait_for(lambda: where()[key] == "Rack B", 20)  # "All saved" may still be that of the scans before
    assert where() == {key: "Rack B", other: None}
    assert location_of(site, 7) is None


def test_a_retired_asset_is_reported_as_retired(scan_page: ScanPage, site: Site) -> None:
    page = scan_page(viewport=PHONE)
    for number in (1, 2):
        scan(page, f"BC-{number:04}")
    outcome(page, "recorded", "Pallet 2")
    page.click("#jobs")
    page.click("text=Move everything")
    page.click(".choice-button:has-text('Rack B')")
    assets.delete(shell(site.organization_id), site.assets[1].id)
    page.click("button:has-text('Move 2 assets')")
    outcome(page, "refused", "Pallet 2")
    expect(page.locator("#detail")).to_have_text("This asset is retired")
    scan(page, "ASSET-0002")
    outcome(page, "unknown", "Pallet 2")
    expect(page.locator("#detail")).to_have_text("This asset is retired")
    assert location_of(site, 1) == "Rack B"


def move_everything(page: Page, to: str) -> None:
    page.click("#jobs")
    page.click("text=Move everything")
    page.click(f".choice-button:has-text('{to}')")
    page.click("#sheet button.wide:has-text('Move')")


def test_a_load_and_an_unload_are_undone_with_their_scan(scan_page: ScanPage, site: Site) -> None:
    page = scan_page(viewport=PHONE)
    page.click("#jobs")
    page.click("text=Put onto a carrier")
    scan(page, "BC-0001")
    scan(page, "BC-0002")
    outcome(page, "recorded", "Pallet 2")
    page.click("#undo")
    outcome(page, "undone", "Pallet 2")
    assert carriers.on(site.organization_id, site.assets[0].id) == []
    scan(page, "BC-0002")
    outcome(page, "recorded", "Pallet 2")
    page.click("#loading")
    page.click("#jobs")
    page.click("text=Take off a carrier")
    scan(page, "ASSET-0002")  # the same code would be the same scan
    outcome(page, "again", "Pallet 2")
    expect(page.locator("#link")).to_have_text("All saved")
    assert carriers.on(site.organization_id, site.assets[0].id) == []
    page.click("#undo")
    outcome(page, "undone", "Pallet 2")
    assert carriers.on(site.organization_id, site.assets[0].id) == [(site.assets[1].id, "Pallet 2")]
    page.click("#loading")
    page.click("#jobs")
    page.click("text=Put onto a carrier")
    scan(page, "BC-0002")
    scan(page, "BC-0001")
    outcome(page, "refused", "Pallet 1")
    expect(page.locator("#detail")).to_have_text("The carrier is already on this asset")


def test_things_put_on_a_pallet_go_where_it_goes(scan_page: ScanPage, site: Site) -> None:
    page = scan_page(viewport=PHONE)
    page.click("#jobs")
    page.click("text=Put onto a carrier")
    expect(page.locator("#loading")).to_contain_text("scan the carrier first")
    scan(page, "BC-0001")
    expect(page.locator("#loading")).to_contain_text("Putting onto Pallet 1")
    scan(page, "BC-0002")
    scan(page, "BC-0003")
    outcome(page, "recorded", "Pallet 3")
    scan(page, "NOBODY-KNOWS")
    outcome(page, "refused", "Unmatched tag")
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
    page.click("text=Take off a carrier")
    scan(page, "BC-0002")
    outcome(page, "recorded", "Pallet 2")
    page.click("#loading")
    scan(page, "RACK-B")
    scan(page, "ASSET-0001")
    outcome(page, "recorded", "Pallet 1")
    assert [location_of(site, number) for number in (1, 2, 3)] == ["Rack B", "Rack A", "Rack B"]
    assert execute("SELECT count(*) FROM history WHERE quality = 5").fetchone() == (3,)
