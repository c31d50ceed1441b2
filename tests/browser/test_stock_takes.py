"""A location is checked with a handheld: offline, over reloads, on two devices, signed off."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from edge import clock
from edge.audit.actors import shell
from edge.database.connection import execute, writing
from edge.expected_lists import expected_lists
from edge.records import assets
from edge.tracking import board, positions
from edge.tracking.stays import Quality, Scan
from tests.browser.conftest import PATIENCE, PHONE, Server, Site, outcome, scan
from tests.observed import scanned_assets, scans_by_people

pytestmark = pytest.mark.browser
ScanPage = Callable[..., Page]
OFFLINE = ("ERR_INTERNET_DISCONNECTED", "ERR_CONNECTION_REFUSED", "ERR_CONNECTION_RESET", "ERR_EMPTY_RESPONSE")


def see(site: Site, location_id: int, *numbers: int) -> None:
    now = clock.now() - clock.HOUR
    ids = [site.assets[number - 1].id for number in numbers]
    positions.record(
        [Scan(site.organization_id, one, location_id, None, None, now, now, Quality.HANDHELD) for one in ids], 0
    )


def location_of(site: Site, number: int) -> str | None:
    row = board.whereabouts(site.organization_id, site.assets[number - 1].id)
    return row.location_name if row else None


def begin(page: Page, location: str) -> None:
    page.click("#jobs")
    page.click("text=Start a stock-take")
    page.click(f"button:text-is('Start at {location}')")
    expect(page.locator("#take")).to_be_visible()


def join(page: Page) -> None:
    """Go on with the stock-take that olga has started."""
    page.click("#jobs")
    page.click("text=Start a stock-take")
    page.click(".choice-button:has-text('started by olga')")


def sign_off(page: Page, how: str = "Sign off as") -> None:
    page.click("#take")
    page.click("text=Sign off …")
    page.click(f"button:has-text('{how}')")
    expect(page.locator("#sheet-title")).to_have_text("Signed off")


def wait_for(sql: str, row: tuple[int, ...]) -> None:
    until = time.monotonic() + PATIENCE / 1000
    while (found := execute(sql).fetchone()) != row:
        assert time.monotonic() < until, found
        time.sleep(0.05)


def test_a_location_is_checked_and_signed_off(scan_page: ScanPage, site: Site) -> None:
    see(site, site.docks[0].id, 1, 2, 3, 4)
    see(site, site.racks[0].id, 5)
    page = scan_page(viewport=PHONE)
    begin(page, "Dock 1")
    expect(page.locator("#take")).to_have_text("Stock-take at Dock 1: 0 of 4 found")
    scan(page, "BC-0001")
    outcome(page, "counted", "Pallet 1")
    scan(page, "BC-0005")
    outcome(page, "surplus", "Pallet 5")
    expect(page.locator("#detail")).to_contain_text("Was at Rack A")
    scan(page, "NOBODY-KNOWS")
    outcome(page, "unknown", "NOBODY-KNOWS")
    scan(page, "RACK-B")
    outcome(page, "refused", "Rack B")
    scan(page, "BC-0002")
    expect(page.locator("#take")).to_contain_text("2 of 4 found")
    assert location_of(site, 5) == "Rack A"
    page.click("#take")
    expect(page.locator("#take-missing summary")).to_have_text("Missing: 2")
    expect(page.locator("#take-missing")).to_contain_text("last seen at Dock 1, 1 h")
    expect(page.locator("#take-elsewhere li")).to_contain_text("last seen at Rack A")
    expect(page.locator("#take-unknown li")).to_have_count(1)
    page.locator("#take-missing li", has_text="Pallet 4").get_by_text("Lost").click()
    page.locator("#take-missing li", has_text="Pallet 3").get_by_text("Lost").click()
    page.locator("#take-missing li", has_text="Pallet 3").get_by_text("Not lost").click()
    page.click("#sheet-close")
    sign_off(page)
    for thing, found in (("Pallet 2", "counted"), ("Pallet 5", "surplus")):  # also when it has ended
        expect(page.locator("#log li", has_text=thing)).to_have_attribute("data-outcome", found)
    page.click("text=Open the report")
    for result, count in (("missing", 2), ("elsewhere", 1), ("unknown", 1), ("here", 2)):
        expect(page.locator(f"#count-{result}")).to_have_text(str(count))
    expect(page.locator("#missing .pill")).to_have_count(1)
    assert location_of(site, 5) == "Dock 1"
    with page.expect_download() as download:
        page.click("text=Download as CSV")
    assert "Pallet 4" in download.value.path().read_text("utf-8-sig")
    assert "checking" not in page.content()


def test_what_the_server_did_not_match_is_shown_and_signed_as_unmatched(scan_page: ScanPage, site: Site) -> None:
    """The copy on the device may be older than a tag that was detached in the office."""
    see(site, site.docks[0].id, 1, 2)
    page = scan_page(viewport=PHONE)
    begin(page, "Dock 1")
    asset = site.assets[0]
    assets.detach_tag(shell(site.organization_id), asset.id, asset.tags[0].id)
    scan(page, "BC-0001")
    outcome(page, "unknown", "BC-0001")
    expect(page.locator("#take")).to_contain_text("0 of 2 found")
    page.click("#take")
    expect(page.locator("#take-unknown li")).to_have_count(1)
    expect(page.locator("#take-missing summary")).to_have_text("Missing: 2")
    page.click("#sheet-close")
    sign_off(page)
    wait_for("SELECT count(*) FROM stock_take_line", (3,))
    groups = execute("SELECT result, count(*) FROM stock_take_line GROUP BY result ORDER BY result").fetchall()
    assert groups == [("missing", 2), ("unknown", 1)]


def test_eighty_things_without_a_connection_and_with_two_reloads(
    scan_page: ScanPage, site: Site, server: Server
) -> None:
    see(site, site.docks[0].id, *range(1, 81))
    page = scan_page(viewport=PHONE, expected=OFFLINE)
    page.evaluate("() => navigator.serviceWorker.ready")
    begin(page, "Dock 1")
    server.stop()
    for number in range(1, 79):
        scan(page, f"BC-{number:04}", delay=0)
        if number in (25, 50):
            expect(page.locator("#take")).to_contain_text(f"{number} of 80 found")
            page.reload()
            page.wait_for_selector("body[data-ready]")
            expect(page.locator("#take")).to_contain_text(f"{number} of 80 found")
    expect(page.locator("#take")).to_contain_text("78 of 80 found")
    page.click("#take")
    expect(page.locator("#take-missing li")).to_have_count(2)
    page.click("#sheet-close")
    sign_off(page, "Sign off anyway as")
    page.click("#sheet-close")
    expect(page.locator("#take")).to_be_hidden()
    server.start()
    page.evaluate("() => dispatchEvent(new Event('online'))")
    expect(page.locator("#link")).to_have_text("All saved")
    assert (scans_by_people(), scanned_assets()) == (78, 78)
    groups = execute("SELECT result, count(*) FROM stock_take_line GROUP BY result ORDER BY result").fetchall()
    assert groups == [("here", 78), ("missing", 2)]


def test_another_device_goes_on_with_it_and_both_see_the_same(scan_page: ScanPage, enter: ScanPage, site: Site) -> None:
    see(site, site.docks[0].id, 1, 2, 3)
    one = scan_page("olga", viewport=PHONE)
    begin(one, "Dock 1")
    scan(one, "BC-0001")
    outcome(one, "counted", "Pallet 1")
    expect(one.locator("#link")).to_have_text("All saved")
    other = enter("otto", "/scan", viewport=PHONE)
    other.wait_for_selector("body[data-copied]")
    join(other)  # it has no location yet, and scans at that of the stock-take from now on
    expect(other.locator("#location-name")).to_have_text("Dock 1")
    outcome(other, "location", "Dock 1")
    expect(other.locator("#take")).to_contain_text("1 of 3 found")
    scan(other, "BC-0002")
    outcome(other, "counted", "Pallet 2")
    expect(one.locator("#take")).to_contain_text("2 of 3 found")
    other.click("#take")
    other.click("text=Sign off …")
    expect(other.locator("#other-devices")).to_contain_text("olga: may have unsent scans")
    expect(other.locator("#other-devices")).to_have_text("olga: everything sent")
    scan(one, "BC-0003")
    outcome(one, "refused", "The stock-take is being signed off on another device. Wait, or pause it here")
    other.click("button:has-text('Sign off as otto')")
    expect(other.locator("#sheet-title")).to_have_text("Signed off")
    expect(one.locator("#take")).to_be_hidden()
    assert scans_by_people() == 2


def test_before_signing_the_devices_that_may_hold_unsent_scans_are_named(scan_page: ScanPage, site: Site) -> None:
    see(site, site.docks[0].id, 1, 2, 3)
    one = scan_page("olga", viewport={"width": 360, "height": 640})
    begin(one, "Dock 1")
    scan(one, "BC-0001")
    outcome(one, "counted", "Pallet 1")
    other = scan_page("otto", viewport=PHONE, expected=OFFLINE)
    join(other)
    expect(other.locator("#take")).to_contain_text("1 of 3 found")
    scan(other, "http://box.local/l/NO-SUCH")
    outcome(other, "unclear", "Location unclear")
    scan(other, "BC-0002")
    expect(other.locator("#held")).to_be_visible()
    wait_for("SELECT sum(unsent) FROM stock_take_device", (1,))
    other.context.set_offline(True)
    scan(other, "BC-0003")
    one.click("#take")
    one.click("text=Sign off …")
    expect(one.locator("#other-devices li")).to_have_count(1)
    expect(one.locator("#other-devices")).to_contain_text("otto: 1 unsent scan, last contact: ")
    expect(one.locator("#sheet-body")).to_contain_text("Unsent scans of other devices are missing here")
    one.click("button:has-text('Sign off anyway as olga')")
    expect(one.locator("#sheet-title")).to_have_text("Signed off")
    wait_for("SELECT count(*) FROM stock_take WHERE finished_at IS NOT NULL", (1,))
    one.click("text=Open the report")
    expect(one.locator("#devices li")).to_contain_text("otto: 1 unsent scan")


def test_a_silent_device_is_named_unless_it_set_the_stock_take_aside(scan_page: ScanPage, site: Site) -> None:
    see(site, site.docks[0].id, 1)
    one = scan_page("olga", viewport=PHONE)
    begin(one, "Dock 1")
    other = scan_page("otto", viewport=PHONE, expected=OFFLINE)
    join(other)
    wait_for("SELECT count(*) FROM stock_take_device", (2,))
    other.context.set_offline(True)
    expect(other.locator("#link")).not_to_have_text("All saved")
    with writing():
        execute("UPDATE stock_take_device SET reported_at = reported_at - ? WHERE name = 'otto'", (240 * clock.SECOND,))
    one.click("#take")
    one.click("text=Sign off …")
    expect(one.locator("#other-devices")).to_contain_text("otto: may have unsent scans, last contact: 4 min")
    one.click("#sheet-close")
    other.click("#take")
    other.click("text=Pause, to continue later")
    other.context.set_offline(False)
    wait_for("SELECT count(*) FROM stock_take_device", (1,))
    sign_off(one)


def settles(one: Page, other: Page) -> None:
    """The device that signs off names the other one, and offers to sign off as soon as that has sent everything."""
    expect(one.locator("#other-devices")).to_contain_text("otto: may have unsent scans, last contact: ")
    expect(one.locator("button:has-text('Sign off anyway as olga')")).to_be_visible()
    other.context.set_offline(False)
    expect(one.locator("#other-devices")).to_have_text("otto: everything sent")


def test_a_device_that_reported_went_offline_and_scanned_on_is_not_taken_for_settled(
    scan_page: ScanPage, site: Site
) -> None:
    see(site, site.docks[0].id, 1, 2)
    one = scan_page("olga", viewport=PHONE)
    begin(one, "Dock 1")
    scan(one, "BC-0002")
    outcome(one, "counted", "Pallet 2")
    other = scan_page("otto", viewport=PHONE, expected=OFFLINE)
    join(other)
    wait_for("SELECT count(*) FROM stock_take_device", (2,))
    other.context.set_offline(True)
    scan(other, "BC-0001")
    outcome(other, "counted", "Pallet 1")
    one.click("#take")
    one.click("text=Sign off …")
    settles(one, other)
    expect(one.locator("#sheet-body")).to_contain_text("Here: 2")
    one.click("#sheet-close")
    scan(other, "BC-0001")  # not before the server knows that it counts again
    outcome(other, "refused", "The stock-take is being signed off on another device. Wait, or pause it here")
    wait_for("SELECT sum(is_open) FROM stock_take_device", (2,))


def test_before_a_list_is_signed_off_other_devices_are_asked_to_stop_and_named(
    scan_page: ScanPage, enter: ScanPage, site: Site
) -> None:
    """Regression: the report said for ever that an asset was missing which another handheld had scanned in time."""
    codes = ["BC-0001", "BC-0002"]
    expected_lists.create(shell(site.organization_id), "Truck 12", codes, location_id=site.docks[0].id)
    one, other = scan_page("olga", viewport=PHONE), enter("otto", "/scan", viewport=PHONE, expected=OFFLINE)
    other.wait_for_selector("body[data-copied]")
    scan(other, "RACK-A")
    outcome(other, "location", "Rack A")
    for page in (one, other):  # the second one is elsewhere: the list names its own location
        page.click("#jobs")
        page.click("text=Expected list")
        page.click("text=Truck 12")
        expect(page.locator("#location-name")).to_have_text("Dock 1")
        outcome(page, "location", "Dock 1")
    wait_for("SELECT count(*) FROM expected_list_device", (2,))
    other.context.set_offline(True)
    scan(other, "BC-0002")
    outcome(other, "queued", "Pallet 2")
    scan(one, "BC-0001")
    outcome(one, "recorded", "Pallet 1")
    one.click("#expected")
    one.click("button:has-text('Sign off as olga')")
    settles(one, other)
    expect(one.locator("#sheet-body")).to_contain_text("Missing: 0")
    scan(other, "BC-0003")
    outcome(other, "refused", "The list is being signed off on another device. Wait, or leave it here")
    one.click("button:has-text('Sign off as olga')")
    expect(one.locator("#sheet-title")).to_have_text("Signed off")
    expect(one.locator("#sheet-body")).to_contain_text("Ticked off: 2")


def test_a_check_ends_the_carrier_mode(scan_page: ScanPage, site: Site) -> None:
    page = scan_page(viewport=PHONE)
    page.click("#jobs")
    page.click("text=Take off a carrier")
    expect(page.locator("#loading")).to_be_visible()
    begin(page, "Dock 1")
    expect(page.locator("#loading")).to_be_hidden()
    page.click("#jobs")
    expect(page.locator("#sheet-body")).to_contain_text("Empty a carrier")
    expect(page.locator("#sheet-body")).not_to_contain_text("Put onto a carrier")


def test_a_scan_without_a_clear_location_is_not_counted_or_signed(scan_page: ScanPage, site: Site) -> None:
    see(site, site.docks[0].id, 1, 2)
    page = scan_page(viewport=PHONE)
    begin(page, "Dock 1")
    scan(page, "BC-0001")
    outcome(page, "counted", "Pallet 1")
    scan(page, "http://box.local/l/NO-SUCH")
    outcome(page, "unclear", "Location unclear")
    scan(page, "BC-0002")
    expect(page.locator("#held")).to_be_visible()
    expect(page.locator("#take")).to_have_text("Stock-take at Dock 1: 1 of 2 found")
    page.click("#take")
    page.click("text=Sign off …")
    expect(page.locator("#sheet-body")).to_contain_text("1 scan without a clear location is not counted")
    page.click("#sheet-close")
    sign_off(page)
    page.click("text=Open the report")
    for result, count in (("missing", 1), ("elsewhere", 0), ("unknown", 0), ("here", 1)):
        expect(page.locator(f"#count-{result}")).to_have_text(str(count))
