"""A wall in a browser: large type that fits the screen, old data, a restart and a revoked link."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser, expect

from edge import clock
from edge.audit.actors import shell
from edge.rules import rules, states
from edge.rules.conditions import Condition
from edge.rules.rules import RuleFields
from edge.rules.states import Occurrence
from edge.walls import walls
from edge.walls.walls import NewWall, Shows
from tests.browser.conftest import Server, Site, new_context

pytestmark = pytest.mark.browser
TV = {"width": 1920, "height": 1080}
TABLET = {"width": 1024, "height": 768}


def test_a_screen_lives_through_a_restart_and_ends_with_its_link(server: Server, site: Site, chromium: Browser) -> None:
    wall, code = walls.add(shell(site.organization_id), NewWall("Dispatch", Shows.ALERTS, language="de"))
    rule_no = rules.add_rule(shell(site.organization_id), RuleFields("Gone", Condition.UNSEEN, span=clock.HOUR))
    rule = rules.get(site.organization_id, rule_no)
    page = new_context(chromium, locale="de").new_page()
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.set_viewport_size(TV)
    page.goto(f"{server.url}/w/{code.upper()}")
    expect(page.locator("main")).to_contain_text("Keine Alarme")
    for asset in site.assets[:9]:
        states.fire(rule, Occurrence(f"{asset.id}:1", asset.id, asset.name, asset.external_key, clock.now()))
    expect(page.locator(".rows li")).to_have_count(8)
    for size in (TV, TABLET):
        page.set_viewport_size(size)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert page.evaluate("document.documentElement.scrollHeight <= innerHeight + 1"), size
    page.set_viewport_size(TV)
    smallest = """Math.min(...[...document.querySelectorAll(".shown *")].map(
        (one) => parseFloat(getComputedStyle(one).fontSize)))"""
    assert page.evaluate(smallest) >= 39  # px: 13 mm on a screen of 43 inches
    server.stop()
    expect(page.locator("[data-live-state]")).to_be_visible()
    server.start()
    expect(page.locator("[data-live-state]")).to_be_hidden()
    walls.revoke(shell(site.organization_id), wall.id)
    expect(page.locator("h1")).to_contain_text("Dieser Link öffnet keine Wandanzeige")
    assert errors == []
    page.context.close()
