"""Where a scan is saved: never at a location that a label has ended, never at a guess."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from edge.audit.actors import shell
from edge.database.connection import execute
from edge.records import assets, locations
from edge.records.tags import NewTag
from edge.tracking import board
from tests.browser.conftest import PHONE, Site, outcome, queued, scan
from tests.observed import scanned_assets, scans_by_people

pytestmark = pytest.mark.browser
ScanPage = Callable[..., Page]
OFFLINE = ("ERR_INTERNET_DISCONNECTED",)
LABEL = "http://box.local/l/"


def location_of(site: Site, number: int) -> str | None:
    row = board.whereabouts(site.organization_id, site.assets[number - 1].id)
    return row.location_name if row else None


def saved(page: Page) -> None:
    expect(page.locator("#link")).to_have_text("All saved")


def test_a_location_made_after_the_page_was_opened_is_found_by_its_label(scan_page: ScanPage, site: Site) -> None:
    page = scan_page(viewport=PHONE)
    locations.create(shell(site.organization_id), name="Dock 9", external_key="DOCK-9")
    scan(page, f"{LABEL}DOCK-9")
    expect(page.locator("#location-name")).to_have_text("Dock 9")
    scan(page, "BC-0001")
    outcome(page, "recorded", "Pallet 1")
    assert location_of(site, 1) == "Dock 9"


def test_scans_under_a_label_that_is_not_known_yet_wait_for_it(scan_page: ScanPage, site: Site) -> None:
    page = scan_page(expected=OFFLINE)
    locations.create(shell(site.organization_id), name="Dock 9", external_key="DOCK-9")
    page.context.set_offline(True)
    scan(page, f"{LABEL}DOCK-9")
    outcome(page, "unclear", "Location unclear")
    expect(page.locator("#location-name")).to_have_text("Location unclear")
    scan(page, "BC-0001")
    expect(page.locator("#held")).to_contain_text("1 scan without a clear location")
    page.context.set_offline(False)
    page.evaluate("() => dispatchEvent(new Event('online'))")
    expect(page.locator("#location-name")).to_have_text("Dock 9")
    saved(page)
    assert location_of(site, 1) == "Dock 9"
    assert scans_by_people() == 1


@pytest.mark.parametrize("label", ["http://box.local/l/DOCK-Q", "http:/box.local/l/DOC", "http://box.local/l/%E0%A4%A"])
def test_a_misread_label_ends_the_location_until_somebody_chooses(scan_page: ScanPage, site: Site, label: str) -> None:
    page = scan_page(viewport=PHONE)
    scan(page, label)
    outcome(page, "unclear", "Location unclear")
    scan(page, "BC-0001")
    outcome(page, "unclear", "Pallet 1")
    scan(page, "BC-0002")
    expect(page.locator("#held")).to_contain_text("2 scans")
    assert scans_by_people() == 0
    page.click("#held")
    page.click("button:has-text('Choose the location')")
    page.click(".choice-button:has-text('Rack B')")
    expect(page.locator("#location-name")).to_have_text("Rack B")
    saved(page)
    expect(page.locator("#held")).to_be_hidden()
    assert (location_of(site, 1), location_of(site, 2)) == ("Rack B", "Rack B")


@pytest.mark.parametrize("label", ["HTTP://BOX.LOCAL:8080/L/DOCK-2", "http://box.local/l/dock-2", "dock-2"])
def test_a_label_in_another_case_is_the_same_label(scan_page: ScanPage, label: str) -> None:
    page = scan_page()
    scan(page, label)
    expect(page.locator("#location-name")).to_have_text("Dock 2")


def test_things_are_found_by_their_key_in_another_case(scan_page: ScanPage) -> None:
    page = scan_page()
    scan(page, "asset-0002")
    outcome(page, "recorded", "Pallet 2")
    scan(page, "HTTP://BOX.LOCAL/A/asset-0003")
    outcome(page, "recorded", "Pallet 3")


def new_gate(site: Site) -> None:
    """A location that the device does not know yet, with a barcode of its own."""
    gate = [NewTag("barcode", "GATE-7-LABEL")]
    locations.create(shell(site.organization_id), name="Gate 7", external_key="GATE-7", tags=gate)


def test_what_is_scanned_after_the_barcode_of_a_new_location_belongs_to_it(scan_page: ScanPage, site: Site) -> None:
    """At full speed: before its answer, between the answer and the change on the page, and after it."""
    page = scan_page()
    new_gate(site)
    scan(page, "GATE-7-LABEL", delay=0)
    for number in range(1, 61):
        scan(page, f"BC-{number:04}", delay=0)
    expect(page.locator("#location-name")).to_have_text("Gate 7")
    outcome(page, "recorded", "Pallet 60")
    saved(page)
    assert {location_of(site, number) for number in range(1, 61)} == {"Gate 7"}
    assert execute("SELECT count(*) FROM history").fetchone() == (60,)


def test_offline_scans_after_the_barcode_of_a_new_location_belong_to_it(scan_page: ScanPage, site: Site) -> None:
    """Offline nobody can know that the code is the label of a new location; the page still showed Dock 1."""
    page = scan_page(expected=OFFLINE)
    new_gate(site)
    page.context.set_offline(True)
    for code, name in (("BC-0001", "Pallet 1"), ("GATE-7-LABEL", ""), ("BC-0002", "Pallet 2"), ("BC-0003", "Pallet 3")):
        scan(page, code)
        page.wait_for_selector(f"li:has-text('{name or code}')")
    scan(page, "RACK-A")
    scan(page, "BC-0004")
    page.wait_for_selector("li:has-text('Pallet 4')")
    page.context.set_offline(False)
    page.evaluate("() => dispatchEvent(new Event('online'))")
    saved(page)
    expect(page.locator("#location-name")).to_have_text("Rack A")
    assert [location_of(site, number) for number in (1, 2, 3, 4)] == ["Dock 1", "Gate 7", "Gate 7", "Rack A"]
    assert execute("SELECT count(*) FROM history").fetchone() == (4,)


@pytest.mark.parametrize("is_meant", ["Rack A", "Pallet 1"])
def test_a_tag_that_is_also_the_key_of_a_location_is_asked_about(
    scan_page: ScanPage, site: Site, is_meant: str
) -> None:
    assets.attach_tag(shell(site.organization_id), site.assets[0].id, NewTag("barcode", "RACK-A"))
    page = scan_page(viewport=PHONE)
    scan(page, "RACK-A")
    expect(page.locator("#sheet-title")).to_have_text("What is RACK-A?")
    scan(page, "BC-0002")
    expect(page.locator("#held")).to_contain_text("2 scans")
    assert scans_by_people() == 0
    page.click("#held")
    page.click(f".held-group .choice-button:has-text('{is_meant}')")
    saved(page)
    expect(page.locator("#held")).to_be_hidden()
    is_location = is_meant == "Rack A"
    expect(page.locator("#location-name")).to_have_text("Rack A" if is_location else "Dock 1")
    assert location_of(site, 1) == (None if is_location else "Dock 1")
    assert location_of(site, 2) == ("Rack A" if is_location else "Dock 1")


def test_in_a_check_that_does_not_cover_a_new_location_somebody_is_asked(scan_page: ScanPage, site: Site) -> None:
    page = scan_page(expected=OFFLINE)
    page.click("#jobs")
    page.click("#sheet button:has-text('Start a stock-take')")
    page.click("#sheet button:has-text('Start at Dock 1')")
    saved(page)
    new_gate(site)
    page.context.set_offline(True)
    for code, name in (("GATE-7-LABEL", ""), ("BC-0002", "Pallet 2")):
        scan(page, code)
        page.wait_for_selector(f"li:has-text('{name or code}')")
    page.context.set_offline(False)
    page.evaluate("() => dispatchEvent(new Event('online'))")
    page.click("#held")
    expect(page.locator("#sheet-body")).to_contain_text("the label of Gate 7, but Dock 1 was shown")
    expect(page.locator("#sheet button:text-is('At Gate 7')")).to_be_visible()
    page.click("#sheet button:text-is('At Dock 1')")
    saved(page)
    expect(page.locator("#location-name")).to_have_text("Dock 1")
    scan(page, "BC-0003")
    saved(page)
    expect(page.locator("#held")).to_be_hidden()


def test_scans_at_a_location_that_was_retired_wait_for_another(scan_page: ScanPage, site: Site) -> None:
    page = scan_page(viewport=PHONE)
    execute("UPDATE location SET deleted_at = created_at WHERE external_key = 'DOCK-1'")
    for number in (1, 2):
        scan(page, f"BC-{number:04}")
        outcome(page, "unclear", f"Pallet {number}")
    expect(page.locator("#held")).to_contain_text("2 scans without a clear location")
    expect(page.locator("#location-name")).to_have_text("Location unclear")
    assert scans_by_people() == 0
    page.reload()
    page.wait_for_selector("body[data-ready]")
    page.click("#held")
    expect(page.locator("#sheet-body")).to_contain_text("Dock 1 was retired before")
    page.click("#sheet-close")
    page.click("#held")
    page.locator("button:has-text('Choose the location')").first.click()
    page.click(".choice-button:has-text('Rack B')")
    expect(page.locator("#held")).not_to_contain_text("2 scans")
    if page.locator("#held").is_visible():  # the one made after the answer to the first one, if that came in between
        page.click("#held")
        page.click("button:has-text('Choose the location')")
        page.click(".choice-button:has-text('Rack B')")
    expect(page.locator("#held")).to_be_hidden()
    saved(page)
    assert (location_of(site, 1), location_of(site, 2)) == ("Rack B", "Rack B")
    assert (scans_by_people(), scanned_assets()) == (2, 2)


def test_scans_without_a_clear_location_can_be_taken_back(scan_page: ScanPage, site: Site) -> None:
    page = scan_page()
    scan(page, f"{LABEL}NO-SUCH")
    scan(page, "BC-0001")
    scan(page, "BC-0002")
    expect(page.locator("#held")).to_contain_text("2 scans")
    page.click("#undo")
    expect(page.locator("#held")).to_contain_text("1 scan ")
    page.click("#held")
    page.click("button:has-text('Undo 1 scan')")
    expect(page.locator("#held")).to_be_hidden()
    assert queued(page) == 0
    assert scans_by_people() == 0


def test_the_count_of_a_location_its_list_and_any_line_of_it_taken_back(scan_page: ScanPage, site: Site) -> None:
    page = scan_page("ed", viewport=PHONE)
    for code in ("BC-0001", "BC-0002", "BC-0003", "NOBODY-KNOWS", "ASSET-0001"):
        scan(page, code)
    outcome(page, "again", "Pallet 1")
    expect(page.locator("#count")).to_have_text("51 repeat")
    page.click("#count")
    expect(page.locator(".list-count")).to_have_text("5 scans, including 1 repeat")
    page.locator("#sheet li", has_text="Pallet 2").get_by_text("Undo").click()
    expect(page.locator("#sheet li[data-outcome=undone]")).to_contain_text("Pallet 2")
    expect(page.locator(".list-count")).to_have_text("4 scans, including 1 repeat")
    page.locator("#sheet li", has_text="NOBODY-KNOWS").get_by_text("Show").click()
    expect(page.locator("#acts button")).to_have_count(2)
    assert (location_of(site, 1), location_of(site, 2), location_of(site, 3)) == ("Dock 1", None, "Dock 1")
    scan(page, "RACK-A")
    expect(page.locator("#count")).to_be_hidden()
    scan(page, "DOCK-1")
    expect(page.locator("#count-total")).to_have_text("4")
    page.click("#count")
    page.click("text=Restart count")
    expect(page.locator(".list-count")).to_have_text("0 scans")
