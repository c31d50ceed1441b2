"""What an operator with a small phone must see at once: whether a scan was saved, and what waits on the device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from edge.audit.actors import shell
from edge.database.connection import execute, writing
from edge.rules import rules
from edge.rules.conditions import Condition
from edge.rules.rules import RuleFields
from tests.browser.conftest import Server, Site, outcome, scan, session
from tests.browser.full import fill_storage, limit_storage

pytestmark = pytest.mark.browser
SMALL = {"width": 360, "height": 640}
# Requests of a page with a service worker go past the routes of a test.
WITHOUT_WORKER: dict[str, Any] = {"service_workers": "block", "expected": ("Service Worker",)}
OFFLINE = ("ERR_CONNECTION_REFUSED", "ERR_EMPTY")
ALERTS = [
    [f"Pallet {number} has been in the very long name of a location for more than 2 h", 0] for number in (1, 2, 3)
]
ABOVE_THE_BAR = """(line) => {
  const box = line.getBoundingClientRect();
  return box.height > 0 && box.top > 0 && box.bottom <= document.querySelector(".bar").getBoundingClientRect().top;
}"""


@pytest.mark.parametrize("code", ["BC-0001", "Y" * 250, "Z" * 300])
def test_alerts_and_a_long_code_do_not_push_away_whether_a_scan_was_saved(
    scan_page: Callable[..., Page], code: str
) -> None:
    page = scan_page(viewport=SMALL, **WITHOUT_WORKER)
    page.route("**/scan/alerts", lambda route: route.fulfill(json={"total": 12, "newest": ALERTS}))
    page.evaluate("() => dispatchEvent(new Event('online'))")
    expect(page.locator("#alerts")).to_be_visible()
    expect(page.locator("#alerts-all")).to_have_text("All alerts: 12")
    scan(page, code, delay=2)
    page.wait_for_function("() => document.getElementById('state').textContent")
    assert page.locator("#state").evaluate(ABOVE_THE_BAR)


def test_a_page_that_opened_without_a_connection_gets_alerts_and_assets_once_it_is_back(
    enter: Callable[..., Page], site: Site
) -> None:
    expected = ("ERR_FAILED", "Service Worker")
    page = enter("olga", "/locations", viewport=SMALL, service_workers="block", expected=expected)
    page.add_init_script("window.setInterval = () => 0")  # not when a timer tries again
    page.route("**/scan/alerts", lambda route: route.fulfill(json={"total": 12, "newest": ALERTS}))
    for lost in ("**/scan/state", "**/alerts.js"):
        page.route(lost, lambda route: route.abort())
    page.goto("/scan")
    page.wait_for_selector("body[data-ready]")
    expect(page.locator("#link")).to_contain_text("Offline")
    for lost in ("**/scan/state", "**/alerts.js"):
        page.unroute(lost)
    page.evaluate("() => dispatchEvent(new Event('online'))")
    page.wait_for_selector("body[data-copied]")
    expect(page.locator("#alerts-all")).to_have_text("All alerts: 12")
    expect(page.locator("#alerts-old")).to_be_hidden()


def test_alerts_of_now_are_not_called_old_on_a_device_that_is_full(enter: Callable[..., Page], site: Site) -> None:
    page = enter("olga", "/locations", viewport=SMALL, **WITHOUT_WORKER)
    limit_storage(page)
    page.goto("/scan")
    page.wait_for_selector("body[data-whole]")
    fill_storage(page)
    page.route("**/scan/alerts", lambda route: route.fulfill(json={"total": 12, "newest": ALERTS}))
    with page.expect_response("**/scan/alerts"):
        page.evaluate("() => dispatchEvent(new Event('online'))")
    expect(page.locator("#alerts-all")).to_have_text("All alerts: 12")
    assert page.is_hidden("#alerts-old")


def test_a_late_answer_does_not_replace_newer_alerts(scan_page: Callable[..., Page]) -> None:
    page = scan_page(viewport=SMALL)
    page.evaluate(
        """([alerts]) => {
          const fetched = window.fetch;
          const waiting = [];
          window.fetch = (path, ...given) => {
            if (path !== "/scan/alerts") return fetched(path, ...given);
            return new Promise((resolve) => {
              waiting.push(resolve);
              if (waiting.length < 2) return;
              const answer = (total, newest) => new Response(JSON.stringify({ total, newest }));
              waiting.pop()(answer(12, alerts));
              setTimeout(() => waiting.pop()(answer(0, [])), 100);
              setTimeout(() => { document.body.dataset.answered = "1"; }, 300);
            });
          };
          dispatchEvent(new Event("online"));
          dispatchEvent(new Event("online"));
        }""",
        [ALERTS],
    )
    page.wait_for_selector("body[data-answered]")
    expect(page.locator("#alerts-all")).to_have_text("All alerts: 12")
    expect(page.locator("#alerts")).to_be_visible()


def test_a_message_makes_room_for_the_result_of_the_next_scan(scan_page: Callable[..., Page]) -> None:
    page = scan_page(viewport=SMALL)
    page.click("#jobs")
    page.click("text=Start a stock-take")
    page.click("#sheet button.wide:has-text('Start at')")
    expect(page.locator("#said")).to_be_visible()
    page.wait_for_function("(shown) => performance.now() - shown > 1300", arg=page.evaluate("performance.now()"))
    scan(page, "BC-0001")
    outcome(page, "surplus", "Pallet 1")
    assert page.is_hidden("#said")


def test_the_sign_in_page_says_how_many_scans_the_device_keeps(
    scan_page: Callable[..., Page], server: Server, site: Site
) -> None:
    page = scan_page(expected=(*OFFLINE, "401"))
    server.stop()
    for number in (1, 2):
        scan(page, f"BC-{number:04}")
        outcome(page, "queued", f"Pallet {number}")
    server.start()
    page.context.clear_cookies()
    page.goto("/sign-in?next=/scan")
    kept = page.locator("[data-kept-scans]")
    expect(kept).to_have_text("2 scans on this device are not sent yet. Sign in to send them.")
    cookies = session(site, "olga").items()
    page.context.add_cookies([{"name": key, "value": value, "url": server.url} for key, value in cookies])
    page.goto("/scan")
    expect(page.locator("#link")).to_have_text("All saved")
    page.context.clear_cookies()
    page.goto("/sign-in")
    page.wait_for_load_state("networkidle")
    expect(kept).to_be_hidden()


def test_who_may_no_longer_scan_is_told_so_and_what_the_device_keeps(
    scan_page: Callable[..., Page], site: Site
) -> None:
    page = scan_page(expected=("403",))
    with writing():
        execute("UPDATE person SET role = 'viewer' WHERE email = 'olga@nord.example'")
    scan(page, "BC-0001")
    expect(page.locator("#link")).to_have_text("No permission to scan · 1 kept")
    page.goto("/scan")
    expect(page.locator("[data-kept-scans]")).to_have_text("1 scan on this device is not sent yet. Sign in to send it.")


def test_the_sign_in_page_makes_no_database_in_the_browser_of_an_office(
    open_context: Callable[..., BrowserContext], site: Site
) -> None:
    page = open_context().new_page()
    page.goto("/sign-in")
    page.wait_for_load_state("networkidle")
    expect(page.locator("[data-kept-scans]")).to_be_hidden()
    assert page.evaluate("async () => (await indexedDB.databases()).length") == 0


def test_a_button_in_a_row_keeps_its_word_in_one_line(enter: Callable[..., Page], site: Site) -> None:
    name = "Too many pallets at the docks, a rule with a long name"
    rules.add_rule(shell(site.organization_id), RuleFields(name, Condition.ENTERS, location_id=site.docks[0].id))
    page = enter("ed", "/rules", viewport=SMALL, locale="de")
    button = page.get_by_role("button", name="deaktivieren")
    expect(button).to_have_text("Deaktivieren")
    height = button.evaluate("(one) => parseFloat(getComputedStyle(one).lineHeight)")
    text = button.evaluate(
        "(one) => { const all = document.createRange(); all.selectNodeContents(one);"
        "return all.getBoundingClientRect().height; }"
    )
    assert text < 1.5 * height


def test_the_larger_area_of_links_leaves_buttons_as_they_are(enter: Callable[..., Page], site: Site) -> None:
    page = enter("ed", "/?q=nothing-fits", viewport=SMALL, has_touch=True)
    button = page.locator(".empty a.button")
    expect(button).to_have_css("display", "inline-flex")
    expect(button).to_have_css("margin-top", "0px")
    page.context.clear_cookies()
    page.goto("/sign-in")
    expect(page.locator("a.help")).to_have_css("display", "grid")
