"""A muster in a browser: plan, start, people who arrive, a tick, the report; on a phone and a large screen."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, ViewportSize, expect

from edge import clock
from edge.audit.actors import shell
from edge.clock import SECOND
from edge.database.connection import execute
from edge.records import assets
from edge.tracking import positions, tracked_people
from edge.tracking.stays import Quality, Scan
from edge.tracking.tracked_people import PeopleSetting
from tests.browser.accessibility import faults
from tests.browser.conftest import Site
from tests.browser.test_doors import shoot

pytestmark = pytest.mark.browser
Enter = Callable[..., Page]
NAMES = ("Anna Kowalska", "Ben Okafor", "Chloé Martin", "Dmitri Wolkow-Schönhausen", "Eva Lund")


def check(page: Page, name: str) -> None:
    page.wait_for_load_state()  # the page may just reload
    shoot(page, name)
    assert not faults(page), name


class Crew:
    """People who were in the racks a minute ago. `read` records one at a place some seconds later than the last."""

    def __init__(self, site: Site) -> None:
        self.organization_id = site.organization_id
        by = shell(site.organization_id)
        tracked_people.save(by, PeopleSetting(key_prefix="PERSON-"))
        self.people = [assets.create(by, name=name, external_key=f"PERSON-{no}").id for no, name in enumerate(NAMES, 1)]
        self.at = clock.now() - 60 * SECOND
        for number in range(4):
            self.read(number, site.racks[number % 3].id)

    def read(self, number: int, place: int) -> None:
        one = Scan(self.organization_id, self.people[number], place, None, None, self.at, self.at, Quality.HANDHELD)
        positions.record([one], 0)
        self.at = max(self.at + SECOND, clock.now())


@pytest.mark.parametrize("viewport", [{"width": 390, "height": 844}, {"width": 1440, "height": 900}])
def test_a_building_is_evacuated(enter: Enter, site: Site, viewport: ViewportSize) -> None:
    crew = Crew(site)
    execute(
        "INSERT INTO reader (id, organization_id, name, topic, format, location_id, created_at, updated_at) "
        "VALUES (77, ?, 'Dock reader', 'dock', 'edge', ?, 0, 0)",
        (site.organization_id, site.docks[0].id),
    )
    page = enter("ada", "/musters", viewport=viewport)
    page.get_by_role("link", name="New plan").click()
    page.get_by_label("Name", exact=True).fill("Hall 1")
    page.get_by_label("Muster points").select_option(value=[str(site.docks[0].id), str(site.docks[1].id)])
    check(page, "muster-plan")
    page.get_by_role("button", name="Create").click()
    expect(page.get_by_role("button", name="Start muster")).to_be_visible()
    check(page, "musters")
    button = page.get_by_role("button", name="Start muster").bounding_box()
    assert button
    assert button["height"] >= 56
    page.get_by_role("button", name="Start muster").click()
    expect(page.locator(".tally .huge b")).to_have_text("5")
    tally = page.locator(".tally").bounding_box()
    assert tally
    assert tally["y"] < 400  # the number is seen without scrolling, also on a phone
    expect(page.get_by_text("It sees nobody")).to_be_visible()
    crew.at = clock.now()
    crew.read(0, site.docks[0].id)
    expect(page.locator(".tally .huge b")).to_have_text("4")
    expect(page.locator("#safe")).to_contain_text("Anna Kowalska")
    check(page, "muster")
    row = page.locator("#missing a", has_text="Dmitri")
    box = row.bounding_box()
    assert box
    assert box["height"] >= 56
    row.click()
    expect(page.get_by_role("button", name="is here and safe")).to_be_visible()
    check(page, "muster-person")
    page.get_by_role("button", name="is here and safe").click()
    expect(page.get_by_text("Dmitri Wolkow-Schönhausen is marked as safe.")).to_be_visible()
    check(page, "muster-ticked")
    page.get_by_role("button", name="Undo").click()
    expect(page.locator(".tally .huge b")).to_have_text("4")
    page.goto(page.url.partition("/musters")[0] + "/")
    expect(page.get_by_role("link", name="Muster: Hall 1")).to_be_visible()
    check(page, "board-with-muster")
    page.get_by_role("link", name="Muster: Hall 1").click()
    page.get_by_role("link", name="End muster").click()
    page.get_by_label("Note").fill("Eva is on holiday")
    check(page, "muster-end")
    page.get_by_role("button", name="End muster").click()
    expect(page.get_by_text("Eva is on holiday")).to_be_visible()
    check(page, "muster-report")
    page.emulate_media(media="print")
    expect(page.locator("#missing")).to_be_visible()
    expect(page.get_by_role("link", name="Download as CSV")).to_be_hidden()
    page.emulate_media(media="screen")
    page.goto(page.url.partition("/musters")[0] + "/people/positions")
    check(page, "people-positions")
