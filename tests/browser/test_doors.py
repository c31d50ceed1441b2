"""Doors in a browser: set up with the mouse, then passages appear by themselves."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, ViewportSize, expect

from edge.doors import doors
from tests.browser.conftest import PHONE, Site
from tests.doors.site import Gate, new_pipeline, passing, turning_back

pytestmark = pytest.mark.browser
Enter = Callable[..., Page]


def shoot(page: Page, name: str) -> None:
    page.wait_for_function("document.readyState === 'complete'")  # a new page has no elements for a moment
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), name
    if folder := os.environ.get("SCREENSHOTS"):
        width = (page.viewport_size or {"width": 0})["width"]
        page.screenshot(path=f"{folder}/{name}-{width}.png", full_page=True)


@pytest.mark.parametrize("viewport", [PHONE, {"width": 1440, "height": 900}])
def test_a_door_is_set_up_and_shows_who_passes(enter: Enter, site: Site, viewport: ViewportSize) -> None:
    gate = Gate(site.organization_id, count=3)
    doors.set_antennas(gate.actor, gate.door, [])
    page = enter("ada", "/doors", viewport=viewport)
    expect(page.get_by_role("heading", name="Doors")).to_be_visible()
    shoot(page, "doors")
    page.get_by_role("link", name="Gate").click()
    page.get_by_role("link", name="Edit").click()
    page.get_by_label("Reader 1, inner side", exact=True).select_option(label="gate")
    page.get_by_label("Antenna of reader 1, inner side").fill("1")
    page.get_by_label("Reader 1, outer side", exact=True).select_option(label="gate")
    page.get_by_label("Antenna of reader 1, outer side").fill("2")
    shoot(page, "edit-door")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("0 in, 0 out")).to_be_visible()
    pipeline = new_pipeline()
    now = 3_590.0  # seconds after the gate began
    gate.receive(passing(now - 60, asset=0), pipeline)
    gate.receive(passing(now - 40, asset=1, is_out=False), pipeline)
    gate.receive(turning_back(now - 20, asset=2), pipeline)
    expect(page.locator(".where")).to_contain_text("1 in, 1 out")
    expect(page.locator(".where")).to_contain_text("1 turned back")
    shoot(page, "door")
    page.get_by_role("link", name="Why: Out").click()
    expect(page.get_by_role("heading", name="Reads behind it")).to_be_visible()
    shoot(page, "passage")
    page.goto(page.url.partition("/passages")[0] + f"/assets/{gate.assets[0]}")
    expect(page.get_by_role("heading", name="Doors")).to_be_visible()
    shoot(page, "asset")
