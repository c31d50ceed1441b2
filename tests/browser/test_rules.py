"""A rule is created, previewed, and its alert acknowledged."""

from __future__ import annotations

import os
from collections.abc import Callable
from zoneinfo import ZoneInfo

import pytest
from playwright.sync_api import Page, expect

from edge import clock
from edge.audit.actors import shell
from edge.clock import SECOND
from edge.events import detection
from edge.events.detection import Silence
from edge.rules import rules
from edge.rules.conditions import Condition
from edge.rules.engine import Engine
from edge.rules.rules import RuleFields
from edge.tracking import positions
from edge.tracking.stays import Quality, Scan
from tests.browser.conftest import PHONE, Site

pytestmark = pytest.mark.browser
SILENCE = Silence(24 * clock.HOUR, 15 * 60 * SECOND)


def see(site: Site, number: int, dock: int, ago: int = 0) -> None:
    at, row = clock.now() - ago, site.assets[number - 1]
    positions.record([Scan(site.organization_id, row.id, site.docks[dock].id, None, None, at, at, Quality.HANDHELD)], 0)


def test_a_rule_is_previewed_and_its_alert_acknowledged(enter: Callable[..., Page], site: Site) -> None:
    detection.start(SILENCE)
    see(site, 3, 0, ago=clock.HOUR)
    see(site, 3, 1, ago=clock.HOUR // 2)
    editor = enter("ed", "/rules", viewport={"width": 1440, "height": 900})
    editor.get_by_role("link", name="New rule").click()
    editor.get_by_label("Name", exact=True).fill("Left dock 1")
    editor.get_by_label("Condition").select_option(label="leaves a location")
    expect(editor.get_by_label("Door")).to_be_hidden()
    expect(editor.get_by_label("Value")).to_be_hidden()
    editor.locator("#location_id").select_option(str(site.docks[0].id))
    editor.get_by_role("button", name="Preview").click()
    expect(editor.locator("#preview")).to_contain_text("there would have been 1 alert")
    expect(editor.locator("#preview")).to_contain_text(site.assets[2].name)
    shot(editor, "rule-1440")
    editor.get_by_role("button", name="Save").click()
    expect(editor.locator("main")).to_contain_text("When any asset leaves Dock 1, at any time")
    shot(editor, "rules-1440")

    engine = Engine(ZoneInfo("UTC"))
    engine.follow()
    see(site, 4, 0)
    evaluate(engine)
    operator = enter("olga", "/", viewport=PHONE)
    see(site, 4, 1)
    evaluate(engine)
    left = f"{site.assets[3].name} left Dock 1"
    expect(operator.locator(".alerts")).to_contain_text(left)
    shot(operator, "board-390")
    operator.locator(".alerts + a").click()
    operator.locator("summary", has_text="Acknowledge").click()
    shot(operator, "alerts-390")
    operator.get_by_label("Note").fill("Put back")
    operator.locator("form button", has_text="Acknowledge").click()
    expect(operator.locator("main")).to_contain_text("No alerts")
    operator.goto("/alerts?show=all")
    expect(operator.locator(".alert-list")).to_contain_text("Put back")
    assert operator.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_the_scan_page_shows_alerts_and_says_offline_that_they_are_old(enter: Callable[..., Page], site: Site) -> None:
    detection.start(SILENCE)
    see(site, 3, 0)
    rules.add_rule(shell(site.organization_id), RuleFields("Left", Condition.LEAVES, location_id=site.docks[0].id))
    engine = Engine(ZoneInfo("UTC"))
    evaluate(engine)
    see(site, 3, 1)
    evaluate(engine)
    expected = ["ERR_INTERNET_DISCONNECTED"]
    operator = enter("olga", "/scan", viewport=PHONE, expected=expected)
    left = f"{site.assets[2].name} left Dock 1"
    expect(operator.locator("#alerts")).to_contain_text(left)
    expect(operator.locator("#alerts-old")).to_be_hidden()
    shot(operator, "scan-alerts-390")
    operator.context.set_offline(True)
    expect(operator.locator("#alerts-old")).to_contain_text("No connection. As of")
    expect(operator.locator("#alerts")).to_contain_text(left)
    operator.context.set_offline(False)
    expect(operator.locator("#alerts-old")).to_be_hidden()


def evaluate(engine: Engine) -> None:
    while detection.log_changes(SILENCE):
        pass
    engine.follow()


def shot(page: Page, name: str) -> None:
    if os.environ.get("SHOTS"):
        page.screenshot(path=f"{os.environ['SHOTS']}/{name}.png", full_page=True)
