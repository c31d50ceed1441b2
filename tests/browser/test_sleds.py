"""A sled with IoT Connector on the scan page: its operator's choices reach the server, and a bar leads to an asset."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from edge import clock
from edge.audit.actors import shell
from edge.database.connection import execute, writing
from edge.people import people
from edge.readers import readers, sled_scans, sleds
from edge.readers.sled_owners import Owner
from edge.readers.sled_scans import SledRead
from edge.records import assets
from edge.records.tags import NewTag
from tests.browser.conftest import Site, scan

pytestmark = pytest.mark.browser
EPC = "30AA00000000000000000001"


def shot(page: Page, name: str) -> None:
    if folder := os.environ.get("SCREENSHOTS"):
        page.screenshot(path=Path(folder) / f"{name}.png")


def test_a_sled_follows_its_operator_and_leads_to_an_asset(scan_page: Callable[..., Page], site: Site) -> None:
    by, box = shell(site.organization_id), site.assets[6]
    assets.attach_tag(by, box.id, NewTag("rfid", EPC))
    olga = next(row for row in people.list_people(site.organization_id) if row.name == "olga")
    sled = readers.add_reader(by, name="RFD40", topic="sled/1", format="zebra_sled")
    page = scan_page(viewport={"width": 360, "height": 640})
    page.clock.install()
    page.reload()
    page.wait_for_selector("body[data-ready]")
    sleds.assign(by, sled.id, person_id=olga.id)
    with page.expect_response("**/scan/batch"):  # the open page learns of its sled and tells its location
        page.clock.fast_forward(61_000)
    scan(page, "DOCK-2")
    expect(page.locator("#location-name")).to_have_text("Dock 2")
    page.wait_for_function("() => document.getElementById('link').textContent === 'All saved'")
    page.click("#find")
    page.fill("#asked", box.external_key)
    page.keyboard.press("Enter")
    page.click("text=Find by sweep")
    expect(page.locator("#seek-state")).to_have_text("Not yet")
    for rssi, state in ((-78, "Far"), (-55, "Nearer"), (-36, "Very near")):
        with writing():
            now = clock.now()
            read = SledRead(site.organization_id, sled.id, box.id, EPC, now, now, rssi)
            sled_scans.record(read, Owner(0, olga.id, None), 0)
        expect(page.locator("#seek-state")).to_have_text(state)
        shot(page, f"locate-{state}")
    assert page.locator("#seek-bar").get_attribute("aria-label") == "Signal"
    chosen = execute("SELECT l.name FROM location_choice c JOIN location l ON l.id = c.location_id ORDER BY chosen_at")
    assert [name for (name,) in chosen] == ["Dock 1", "Dock 2"]
    places = execute("SELECT DISTINCT l.name FROM handheld_scan s JOIN location l ON l.id = s.location_id").fetchall()
    assert places == [("Dock 2",)]
    expect(page.locator("#seek-state")).to_have_text("No signal")
