"""Times of scans with a wrong device clock and a slow network."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from edge import clock
from edge.database.connection import execute
from edge.tracking import board
from tests.browser.conftest import PHONE, Site, outcome, scan

pytestmark = pytest.mark.browser
ScanPage = Callable[..., Page]
OFFLINE = ("ERR_INTERNET_DISCONNECTED",)
# `ahead` is how far the device's clock is ahead of the site's, in seconds.
SHIFTED = """(ahead) => {
  window.ahead = ahead;
  if (window.isShifted) return;
  window.isShifted = true;
  const now = Date.now;
  Date.now = () => now() + window.ahead * 1000;
}"""
# The first batch takes this long to arrive, the next ones do not.
SLOW = """(ms) => {
  const fetch = window.fetch;
  window.fetch = async (...asked) => {
    if (String(asked[0]).includes("/scan/batch") && ms) {
      const wait = ms;
      ms = 0;
      await new Promise((resolve) => setTimeout(resolve, wait));
    }
    return fetch(...asked);
  };
}"""


def location_of(site: Site, number: int) -> str | None:
    row = board.whereabouts(site.organization_id, site.assets[number - 1].id)
    return row.location_name if row else None


def times() -> list[tuple[str, int]]:
    """Codes in the order in which they were recorded to be made, with their times."""
    return execute("SELECT code, observed_at FROM handheld_scan ORDER BY observed_at").fetchall()


def saved(page: Page) -> None:
    expect(page.locator("#link")).to_have_text("All saved")


def test_a_slow_radio_does_not_move_a_scan(scan_page: ScanPage, site: Site) -> None:
    page = scan_page(viewport=PHONE)
    page.evaluate(SLOW, 3000)
    before = clock.now()
    scan(page, "BC-0001")
    page.wait_for_selector("li:has-text('Pallet 1')")
    scan(page, "RACK-A")
    scan(page, "ASSET-0001")
    page.wait_for_selector("li:nth-child(2):has-text('Pallet 1')")
    after = clock.now()
    with page.expect_response("**/scan/batch"):
        pass
    expect(page.locator("#detail")).to_contain_text("Was at Dock 1")
    assert location_of(site, 1) == "Rack A"
    assert [code for code, _ in times()] == ["BC-0001", "ASSET-0001"]
    assert all(before - clock.SECOND < at < after + clock.SECOND for _, at in times())


@pytest.mark.parametrize("ahead", [-7200, 86_400])
def test_a_wrong_clock_is_corrected_also_over_a_slow_radio(scan_page: ScanPage, ahead: int) -> None:
    page = scan_page(viewport=PHONE, expected=OFFLINE)
    page.add_init_script(f"({SHIFTED})({ahead})")
    page.reload()
    page.wait_for_selector("body[data-ready]")
    page.evaluate(SLOW, 3000)
    page.context.set_offline(True)
    before = clock.now()
    for number in (1, 2, 3):
        scan(page, f"BC-{number:04}")
        outcome(page, "queued", f"Pallet {number}")
    after = clock.now()
    page.context.set_offline(False)
    saved(page)
    assert [code for code, _ in times()] == ["BC-0001", "BC-0002", "BC-0003"]
    assert all(before - clock.SECOND < at < after + clock.SECOND for _, at in times())


@pytest.mark.parametrize(("first", "then"), [(-3600, 0), (3600, 0), (0, -3600), (0, 7200)])
def test_scans_keep_times_and_order_when_the_clock_is_set_offline(
    scan_page: ScanPage, site: Site, first: int, then: int
) -> None:
    page = scan_page(viewport=PHONE, expected=OFFLINE)
    page.add_init_script(f"({SHIFTED})({first})")
    page.reload()
    page.wait_for_selector("body[data-ready]")
    page.context.set_offline(True)
    before = clock.now()
    scan(page, "BC-0001")
    outcome(page, "queued", "Pallet 1")
    page.evaluate(SHIFTED, then)
    scan(page, "RACK-A")
    scan(page, "ASSET-0001")
    expect(page.locator("#detail")).to_have_text("At Rack A")
    scan(page, "BC-0002")
    outcome(page, "queued", "Pallet 2")
    after = clock.now()
    page.context.set_offline(False)
    saved(page)
    assert location_of(site, 1) == "Rack A"
    assert [code for code, _ in times()] == ["BC-0001", "ASSET-0001", "BC-0002"]
    assert all(before - clock.SECOND < at < after + clock.SECOND for _, at in times())


def test_scans_of_an_unknown_clock_keep_their_order(scan_page: ScanPage, site: Site) -> None:
    """The clock was set twice without a connection, and nothing says how wrong it was in between."""
    page = scan_page(viewport=PHONE, expected=OFFLINE)
    page.evaluate("() => navigator.serviceWorker.ready")
    page.context.set_offline(True)
    shown = ["Rack A", "Rack B", "Rack C"]
    for ahead, name, code in zip((-7200, 5400, 0), shown, ("BC-0001", "ASSET-0001", "BC-0001"), strict=True):
        page.evaluate(SHIFTED, ahead)
        scan(page, f"RACK-{name[-1]}")
        scan(page, code)
        expect(page.locator("#detail")).to_have_text(f"At {name}")
    page.context.set_offline(False)
    saved(page)
    found = execute(
        "SELECT location.name FROM handheld_scan JOIN location ON location.id = location_id ORDER BY observed_at"
    ).fetchall()
    assert [name for (name,) in found] == shown
    assert location_of(site, 1) == "Rack C"
