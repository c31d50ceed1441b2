"""Expected lists in a browser: prepared, started, ticked off live at the door, signed off."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, ViewportSize, expect

from edge.database.connection import execute
from edge.records import assets
from tests.browser.accessibility import faults
from tests.browser.conftest import Site
from tests.browser.test_doors import shoot
from tests.doors.site import Gate, new_pipeline, passing

pytestmark = pytest.mark.browser
Enter = Callable[..., Page]


def check(page: Page, name: str) -> None:
    shoot(page, name)
    assert not faults(page), name


@pytest.mark.parametrize("viewport", [{"width": 390, "height": 844}, {"width": 1440, "height": 900}])
def test_a_truck_is_loaded(enter: Enter, site: Site, viewport: ViewportSize) -> None:
    gate = Gate(site.organization_id, count=5)
    keys = [assets.get(site.organization_id, one).external_key for one in gate.assets]
    page = enter("ada", "/expected-lists", viewport=viewport)
    for name, codes in (("Truck 12 to Lyon", keys[:3]), ("Truck 13", keys[3:4])):
        page.goto(page.url.partition("/expected-lists")[0] + "/expected-lists/new")
        page.get_by_label("Name").fill(name)
        page.get_by_label("Door or location").select_option(label="Gate, out")
        page.get_by_label("Asset keys or tags").fill("\n".join(codes))
        check(page, "new-expected-list")
        page.get_by_role("button", name="Create").click()
        expect(page.get_by_role("heading", name=name)).to_be_visible()
    page.locator("main").get_by_role("link", name="Expected lists").click()
    expect(page.get_by_role("link", name="Truck 12 to Lyon")).to_be_visible()
    check(page, "expected-lists")
    page.get_by_role("link", name="Truck 12 to Lyon").click()
    page.get_by_role("button", name="Start").click()
    execute("UPDATE expected_list SET started_at = ? WHERE started_at IS NOT NULL", (gate.began,))
    expect(page.locator(".tally .huge")).to_have_text("0 of 3")
    door = page.context.new_page()
    door.set_viewport_size(viewport)
    door.goto(page.url.partition("/expected-lists")[0] + f"/doors/{gate.door}")
    pipeline = new_pipeline()
    for number in (0, 1, 3, 4):
        gate.receive(passing(3_300 + 50 * number, asset=number), pipeline)
    expect(page.locator(".tally .huge")).to_have_text("2 of 3")
    expect(door.locator(".tally .huge")).to_have_text("2 of 3")
    expect(door.get_by_text("belongs to Truck 13")).to_be_visible()
    check(page, "expected-list")
    check(door, "door-with-list")
    page.get_by_role("link", name="Sign off").click()
    expect(page.get_by_role("button", name="Sign off")).to_be_visible()
    check(page, "sign-off")
    page.get_by_role("button", name="Sign off").click()
    expect(page.get_by_role("link", name="Download as CSV")).to_be_visible()
    expect(page.locator("#missing")).to_contain_text("Pallet 2")
    check(page, "signed-list")
    page.emulate_media(media="print")
    expect(page.get_by_role("link", name="Download as CSV")).to_be_hidden()
    expect(page.locator("#ticked")).to_be_visible()
