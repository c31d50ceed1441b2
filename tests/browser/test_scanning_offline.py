"""Without a connection: names, positions and the content of locations from the copy on the device."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from edge import clock
from edge.audit.actors import shell
from edge.database.connection import execute
from edge.records import assets, locations
from edge.records.tags import NewTag
from edge.tracking import positions
from edge.tracking.stays import Quality, Scan
from tests.browser.conftest import PHONE, Site, outcome, scan
from tests.observed import scans_by_people
from tests.records.test_gs1 import SGTIN

pytestmark = pytest.mark.browser
ScanPage = Callable[..., Page]
OFFLINE = ("ERR_INTERNET_DISCONNECTED",)


def see(site: Site, number: int, location_id: int) -> None:
    now = clock.now()
    one = Scan(site.organization_id, site.assets[number - 1].id, location_id, None, None, now, now, Quality.HANDHELD)
    positions.record([one], 0)


def offline(page: Page) -> None:
    page.wait_for_selector("body[data-copied]")
    page.evaluate("() => navigator.serviceWorker.ready")
    page.context.set_offline(True)
    expect(page.locator("#link")).to_contain_text("Offline")


def test_names_are_known_without_a_connection(scan_page: ScanPage, site: Site) -> None:
    assets.attach_tag(
        shell(site.organization_id), site.assets[6].id, NewTag("rfid", "0000000000E28011700000020A7B2C3D")
    )
    page = scan_page(viewport=PHONE, expected=OFFLINE)
    offline(page)
    page.reload()
    page.wait_for_selector("body[data-ready]")
    for code, name in (("BC-0005", "Pallet 5"), ("asset-0006", "Pallet 6"), ("E28011700000020A7B2C3D", "Pallet 7")):
        scan(page, code)
        outcome(page, "queued", name)


def test_things_are_found_without_a_connection(scan_page: ScanPage, site: Site) -> None:
    see(site, 7, site.racks[1].id)
    page = scan_page(viewport=PHONE, expected=OFFLINE)
    offline(page)
    page.click("#find")
    scan(page, "BC-0007")
    expect(page.locator("#answer h3")).to_have_text("Pallet 7")
    expect(page.locator(".found-location")).to_have_text("Rack B")
    expect(page.locator("#answer")).to_contain_text("Data on this device")
    page.fill("#asked", "pallet 19")
    page.keyboard.press("Enter")
    expect(page.locator("#answer .choice-button")).to_have_count(11)


def test_what_is_here_is_told_with_and_without_a_connection(scan_page: ScanPage, site: Site) -> None:
    for number in (1, 2, 3):
        see(site, number, site.docks[0].id)
    see(site, 4, site.racks[0].id)
    page = scan_page(viewport=PHONE, expected=OFFLINE)
    scan(page, "BC-0009")
    outcome(page, "recorded", "Pallet 9")

    def told() -> str:
        page.click("#jobs")
        page.click("text=What is here?")
        expect(page.locator(".list-count")).to_contain_text("asset")
        text = page.inner_text("#here-list")
        page.click("#sheet-close")
        return text

    assert told().splitlines()[0] == "4 assets"
    scan(page, "HALL-1")
    assert told().splitlines()[0] == "5 assets"
    offline(page)
    assert "Data on this device" in told()
    expect(page.locator("#location-name")).to_have_text("Hall 1")
    assert scans_by_people() == 1


def test_an_asset_key_equal_to_a_location_key_in_another_case(scan_page: ScanPage, site: Site) -> None:
    assets.create(shell(site.organization_id), name="Ramp", external_key="dock-2")
    locations.create(shell(site.organization_id), name="Cage yard", external_key="asset-0008")
    page = scan_page()
    page.wait_for_selector("body[data-copied]")
    scan(page, "dock-2")
    outcome(page, "recorded", "Ramp")
    scan(page, "ASSET-0008")
    outcome(page, "recorded", "Pallet 8")


def test_twenty_thousand_assets_are_copied_and_do_not_hold_up_a_scan(scan_page: ScanPage, site: Site) -> None:
    moment = clock.now()
    execute(
        "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 19800) "
        "INSERT INTO asset (id, organization_id, external_key, name, valid_from, created_at, updated_at) "
        "SELECT 7000000000000000 + i, ?, 'MANY-' || i, 'Crate ' || i, ?, ?, ? FROM n",
        (site.organization_id, moment, moment, moment),
    )
    page = scan_page(expected=OFFLINE)
    page.wait_for_selector("body[data-copied]")
    offline(page)
    page.reload()
    page.wait_for_selector("body[data-ready]")
    scan(page, "MANY-19700")
    outcome(page, "queued", "Crate 19700")


def test_gs1_codes_in_any_spelling_are_known_without_a_connection(scan_page: ScanPage, site: Site) -> None:
    """Printed as an element string, while the tag of the pallet is an RFID tag with its EPC."""
    assets.attach_tag(shell(site.organization_id), site.assets[6].id, NewTag("rfid", "3074257BF7194E4000001A85"))
    page = scan_page(viewport=PHONE, expected=OFFLINE)
    offline(page)
    for code in (
        "]C10180614141123458216789",
        SGTIN,
        "https://example.com/01/80614141123458/10/LOT/21/6789",
        "3074257BF7194E4000001A85",
    ):
        scan(page, code)
        outcome(page, "queued", "Pallet 7")
        scan(page, "BC-0001")
        outcome(page, "queued", "Pallet 1")
    for code in ("]C10180614141123459216789", "(00)106141412345678909", "https://id.gs1.org/8003/00614141123453567"):
        scan(page, code)
        outcome(page, "refused", code.removeprefix("]C1"))
        expect(page.locator("#detail")).to_contain_text("check digit")


def test_find_tells_since_when_an_asset_is_where_this_device_scanned_it(scan_page: ScanPage) -> None:
    """Regression: it was there since 1970, or for as long as at the place before."""
    page = scan_page(expected=OFFLINE)
    page.wait_for_selector("body[data-copied]")
    for label in ("DOCK-1", "DOCK-2"):
        scan(page, label)
        scan(page, "BC-0001")
        outcome(page, "recorded", "Pallet 1")
    page.context.set_offline(True)
    page.click("#find")
    scan(page, "BC-0001")
    expect(page.locator(".found-location")).to_have_text("Dock 2")
    assert not re.search(r"for \d+ (d|h)", page.locator("#answer").inner_text())
    page.click("#sheet-close")
    scan(page, "DOCK-1")
    for code in ("BC-0001", "BC-0002"):  # what waits on this device counts here, too
        scan(page, code)
        outcome(page, "queued", f"Pallet {code[-1]}")
    page.click("#find")
    for code in ("BC-0001", "BC-0002"):
        scan(page, code)
        expect(page.locator(".found-location")).to_have_text("Dock 1")
    expect(page.locator("#answer")).to_contain_text("Kept on this device")
    page.click("#sheet-close")
    page.click("#jobs")
    page.click("text=What is here?")
    expect(page.locator("#here-list")).to_contain_text("Pallet 2")
