"""A floor plan, drawn with a mouse and looked at on a phone."""

from __future__ import annotations

import io
from collections.abc import Callable

import pytest
from PIL import Image
from playwright.sync_api import Page, expect

from edge import clock
from edge.audit.actors import shell
from edge.tracking import floor_plans, positions
from edge.tracking.stays import Quality, Scan
from tests.browser.conftest import PHONE, Site

pytestmark = pytest.mark.browser
Enter = Callable[..., Page]


def see(site: Site, number: int, location_id: int, ago: int = 0) -> None:
    at = clock.now() - ago
    positions.record(
        [Scan(site.organization_id, site.assets[number].id, location_id, None, None, at, at, Quality.HANDHELD)], 0
    )


@pytest.fixture
def plan(site: Site) -> str:
    out = io.BytesIO()
    Image.new("RGB", (1000, 500), "white").save(out, "PNG")
    hall = site.docks[0].parent_id
    assert hall
    floor_plans.set_image(shell(site.organization_id), hall, out.getvalue(), "image/png", (1000, 500))
    return f"/locations/{hall}/plan"


def pull(page: Page, left: float, top: float, right: float, bottom: float) -> None:
    box = page.locator("#plan").bounding_box()
    assert box
    page.mouse.move(box["x"] + box["width"] * left, box["y"] + box["height"] * top)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * right, box["y"] + box["height"] * bottom, steps=4)
    page.mouse.up()


def test_a_location_is_drawn_counted_found_and_opened(enter: Enter, site: Site, plan: str) -> None:
    page = enter("ed", f"{plan}/edit", viewport={"width": 1000, "height": 1000})
    page.select_option("#spot", label=page.locator("#spot option", has_text="Dock 1").inner_text())
    pull(page, 0.1, 0.1, 0.4, 0.6)
    page.select_option("#spot", label=page.locator("#spot option", has_text="Rack A").inner_text())
    page.select_option("#kind", "polygon")
    for x, y in ((0.6, 0.2), (0.9, 0.2), (0.75, 0.7), (0.6, 0.2)):
        pull(page, x, y, x, y)
    page.click("#save")
    expect(page.locator("#detail")).to_have_text("Saved.")
    shapes = {
        shape.location_id: shape.points
        for shape in floor_plans.shapes(site.organization_id, site.docks[0].parent_id or 0)
    }
    assert len(shapes[site.docks[0].id]) == 4
    assert len(shapes[site.racks[0].id]) == 3

    see(site, 0, site.docks[0].id)
    page.goto(plan)
    expect(page.locator("a.spot", has_text="Dock 1").locator(".spot-count")).to_have_text("1")
    see(site, 1, site.docks[0].id)
    expect(page.locator("a.spot", has_text="Dock 1").locator(".spot-count")).to_have_text("2")
    page.fill("#q", "Pallet 2")
    page.press("#q", "Enter")
    expect(page.locator("a.spot.found")).to_have_count(1)
    page.locator("a.spot.found").click()
    expect(page.locator("h1")).to_have_text("Dock 1")


def test_messages_while_drawing_are_in_the_language_of_the_page(enter: Enter, site: Site, plan: str) -> None:
    page = enter("ed", f"{plan}/edit", viewport={"width": 1000, "height": 1000}, locale="de-DE")
    page.select_option("#spot", label=page.locator("#spot option", has_text="Dock 1").inner_text())
    pull(page, 0.1, 0.1, 0.4, 0.6)
    expect(page.locator("#detail")).to_have_text("Dock 1 ist gezeichnet. Speichere, wenn alle fertig sind.")
    page.click("#undo")
    expect(page.locator("#detail")).to_have_text("Rückgängig gemacht.")


def test_a_location_is_drawn_with_a_finger(enter: Enter, site: Site, plan: str) -> None:
    """On a phone, where nobody hits a corner to the pixel and a second finger comes along."""
    page = enter("ed", f"{plan}/edit", viewport=PHONE, has_touch=True, is_mobile=True)
    fingers = page.context.new_cdp_session(page)

    def touch(*points: tuple[float, float]) -> None:
        """Put a finger on the plan, move it, and take it off."""
        page.locator("#plan").scroll_into_view_if_needed()
        box = page.locator("#plan").bounding_box()
        assert box
        at = [{"x": box["x"] + box["width"] * x, "y": box["y"] + box["height"] * y, "id": 0} for x, y in points]
        other = {"x": box["x"] + 1, "y": box["y"] + 1, "id": 1}
        fingers.send("Input.dispatchTouchEvent", {"type": "touchStart", "touchPoints": at[:1]})
        for point in at[1:]:
            fingers.send("Input.dispatchTouchEvent", {"type": "touchMove", "touchPoints": [point]})
            fingers.send("Input.dispatchTouchEvent", {"type": "touchStart", "touchPoints": [point, other]})
            fingers.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": [point]})
        fingers.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})

    page.select_option("#spot", label=page.locator("#spot option", has_text="Dock 1").inner_text())
    touch((0.1, 0.1), (0.3, 0.4), (0.4, 0.6))
    expect(page.locator("#detail")).to_contain_text("Dock 1 is drawn")
    page.select_option("#spot", label=page.locator("#spot option", has_text="Rack A").inner_text())
    page.select_option("#kind", "polygon")
    for x, y in ((0.6, 0.2), (0.9, 0.2), (0.75, 0.8), (0.63, 0.27)):
        touch((x, y))
    expect(page.locator("#detail")).to_contain_text("Rack A is drawn")
    page.select_option("#spot", label=page.locator("#spot option", has_text="Dock 1").inner_text())
    assert page.locator("#plan polygon").count() == 2
    page.click("#undraw")
    page.click("#save")
    expect(page.locator("#detail")).to_have_text("Saved.")
    [shape] = floor_plans.shapes(site.organization_id, site.docks[0].parent_id or 0)
    assert (shape.location_id, len(shape.points)) == (site.racks[0].id, 3)


def test_a_trail_is_played_on_a_phone(enter: Enter, site: Site, plan: str) -> None:
    page = enter("vic", "/", viewport=PHONE, reduced_motion="reduce")
    square = [(100, 100), (300, 100), (300, 300)]
    moved = [(x + 500, y) for x, y in square]
    opened = floor_plans.find_plan(site.organization_id, site.docks[0].parent_id or 0)
    assert opened
    drawn = {site.docks[0].id: square, site.racks[0].id: moved}
    floor_plans.save_shapes(shell(site.organization_id), opened.location_id, drawn, opened.updated_at)
    see(site, 0, site.docks[0].id, 3 * clock.SECOND)
    see(site, 0, site.racks[0].id, clock.SECOND)
    page.goto(f"/assets/{site.assets[0].id}/trail")
    page.evaluate(
        "() => { const s = document.getElementById('moment'); s.value = 1000; s.dispatchEvent(new Event('input')); }"
    )
    expect(page.locator("#walker")).to_have_attribute("cx", "700")
    expect(page.locator("#walker")).to_be_in_viewport()  # of a drawing that is wider than the screen
    page.click("#play")
    expect(page.locator("#play")).to_have_text("Pause")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_shapes_are_moved_resized_turned_copied_and_undone(enter: Enter, site: Site, plan: str) -> None:
    dock, rack = site.docks[0], site.racks[0]
    hall = dock.parent_id or 0
    drawn = floor_plans.find_plan(site.organization_id, hall)
    assert drawn
    box = [(100, 100), (300, 100), (300, 300), (100, 300)]
    floor_plans.save_shapes(shell(site.organization_id), hall, {dock.id: box}, drawn.updated_at)
    page = enter("ed", f"{plan}/edit", viewport={"width": 1000, "height": 1000})

    def shapes() -> dict[int, list[tuple[int, int]]]:
        page.click("#save")
        expect(page.locator("#detail")).to_have_text("Saved.")
        return {one.location_id: list(one.points) for one in floor_plans.shapes(site.organization_id, hall)}

    pull(page, 0.2, 0.2, 0.5, 0.2)  # the shape
    pull(page, 0.6, 0.3, 0.7, 0.5)  # its lower right corner
    (left, top), _, (right, bottom), _ = shapes()[dock.id]
    assert abs(left - 400) + abs(top - 100) + abs(right - 700) + abs(bottom - 500) < 12
    page.locator("#plan").focus()
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("Shift+ArrowDown")
    (left_now, top_now), _, (right_now, bottom_now), _ = shapes()[dock.id]
    assert (left_now, top_now, right_now, bottom_now) == (left - 5, top, right - 5, bottom + 5)
    page.locator("#plan").focus()
    page.keyboard.press("Control+c")
    page.select_option("#spot", value=str(rack.id))
    page.click("#paste")
    page.click("#turn")
    now = shapes()
    assert now[rack.id][0] != now[dock.id][0]
    for _ in range(6):
        page.click("#undo")
    assert shapes() == {dock.id: box}
