"""The queue of the device: waiting scans, the person of each scan, and the cost of a request without an answer."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, Page, Route, expect

from edge.audit.actors import shell
from edge.database.connection import execute
from edge.pages.handhelds import scan as scan_pages
from edge.people import organizations, people
from edge.people.passwords import hash_password
from edge.people.people import Role
from tests.browser.conftest import PASSWORD, PHONE, Site, outcome, queued, scan
from tests.observed import scans_by_people

pytestmark = pytest.mark.browser
ScanPage = Callable[..., Page]


@pytest.fixture
def slow_page(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """While the event is not set, the scan page is not answered."""
    passes, render = threading.Event(), scan_pages.render_template
    passes.set()

    def wait(*given: Any, **context: Any) -> str:
        passes.wait(60)
        return render(*given, **context)

    monkeypatch.setattr(scan_pages, "render_template", wait)
    yield passes
    passes.set()


def test_a_radio_that_passes_nothing_does_not_leave_the_screen_empty(
    scan_page: ScanPage, slow_page: threading.Event
) -> None:
    page = scan_page(viewport=PHONE)
    page.evaluate("() => navigator.serviceWorker.ready")
    page.reload()
    page.wait_for_function("() => navigator.serviceWorker.controller")
    page.wait_for_selector("body[data-ready]")
    slow_page.clear()
    page.reload()
    page.wait_for_selector("body[data-ready]")
    assert not slow_page.is_set(), "the page is from the cache"
    scan(page, "BC-0001")
    outcome(page, "recorded", "Pallet 1")


def test_a_request_that_is_never_answered_does_not_block_the_queue(scan_page: ScanPage) -> None:
    """In a browser without AbortSignal.timeout: Chrome and WebView before version 103."""
    page = scan_page(expected=("ERR_FAILED",))
    page.clock.install()
    page.add_init_script("delete AbortSignal.timeout")  # after the clock, which brings its own
    page.reload()
    page.wait_for_selector("body[data-ready]")
    assert page.evaluate("typeof AbortSignal.timeout") == "undefined"
    dead: list[Route] = []
    page.route("**/scan/batch", lambda route: route.continue_() if dead else dead.append(route))
    scan(page, "BC-0001")
    expect(page.locator("#link")).to_have_text("Sending · 1 kept")
    page.clock.fast_forward(16_000)
    # Offline, or saved already: the timer that sends every 8 s may have passed meanwhile, which is then done at once.
    expect(page.locator("#link")).not_to_have_text("Sending · 1 kept")
    page.clock.fast_forward(9_000)
    expect(page.locator("#link")).to_have_text("All saved")
    assert (queued(page), len(dead)) == (0, 1)
    assert scans_by_people() == 1


SHIFT = "() => { const now = Date.now; window.ahead = 0; Date.now = () => now() + window.ahead * 1000; }"


def test_undo_follows_the_order_of_scans_after_the_clock_was_set_back(scan_page: ScanPage) -> None:
    page = scan_page(viewport=PHONE)
    page.evaluate(SHIFT)
    scan(page, "BC-0001")
    outcome(page, "recorded", "Pallet 1")
    page.evaluate("() => { window.ahead = -3600; }")
    scan(page, "BC-0002")
    outcome(page, "recorded", "Pallet 2")
    expect(page.locator("#log li").first).to_contain_text("Pallet 2")
    page.click("#undo")
    outcome(page, "undone", "Pallet 2")


OLD_STORE = """([person, location]) => new Promise((done) => {
  const request = indexedDB.open("edge-scan", 3);
  request.onupgradeneeded = () => {
    const base = request.result;
    base.createObjectStore("queue", { keyPath: "no", autoIncrement: true }).createIndex("id", "id", { unique: true });
    base.createObjectStore("log", { keyPath: "id" }).createIndex("at", "at");
    base.createObjectStore("kept");
    base.createObjectStore("assets", { keyPath: "no" });
    const [queue, log] = ["queue", "log"].map((name) => request.transaction.objectStore(name));
    const item = (n, at) => ({ id: `old-scan-${n}`, code: `BC-000${n}`, choice: "old-choice", locationId: location,
      locationName: "Dock 1", held: null, at, person, organization: null, known: `Pallet ${n}` });
    log.put({ ...item(1, Date.now() - 90000), state: "recorded" });
    for (const [n, at] of [[2, Date.now() - 30000], [3, Date.now() - 60000]]) { // the clock was set back in between
      queue.add(item(n, at));
      log.put({ ...item(n, at), state: "queued" });
    }
  };
  request.onsuccess = () => { request.result.close(); done(); };
})"""


def test_the_queue_of_an_earlier_version_is_sent_and_shown_in_order(enter: Callable[..., Page], site: Site) -> None:
    page = enter("olga", "/locations", viewport=PHONE)
    (person,) = execute("SELECT id FROM person WHERE name = 'olga'").fetchone()
    page.evaluate(OLD_STORE, [person, site.docks[0].id])
    page.goto("/scan")
    page.wait_for_selector("body[data-ready]")
    expect(page.locator("#link")).to_have_text("All saved")
    expect(page.locator("#log li .log-thing")).to_have_text(["Pallet 3", "Pallet 2", "Pallet 1"])
    assert queued(page) == 0
    assert scans_by_people() == 2


NEWER_STORE = """() => new Promise((done) => {
  const request = indexedDB.open("edge-scan", 1000);
  request.onupgradeneeded = () => request.result.createObjectStore("of-a-newer-release");
  request.onsuccess = () => { request.result.close(); done(); };
})"""


def test_after_a_rollback_the_store_of_a_newer_release_is_used(scan_page: ScanPage) -> None:
    page = scan_page(viewport=PHONE, expected=("ERR_INTERNET_DISCONNECTED",))
    page.context.set_offline(True)
    scan(page, "BC-0001")
    expect(page.locator("#link")).to_contain_text("Offline")
    page.evaluate(NEWER_STORE)
    page.context.set_offline(False)
    page.reload()
    page.wait_for_selector("body[data-ready]")
    scan(page, "BC-0002")
    outcome(page, "recorded", "Pallet 2")
    expect(page.locator("#link")).to_have_text("All saved")
    assert queued(page) == 0
    assert scans_by_people() == 2


def test_a_scan_while_another_one_is_sent_follows_at_once(scan_page: ScanPage) -> None:
    page = scan_page(viewport=PHONE)
    page.add_init_script("window.setInterval = () => 0")  # not when a timer sends it
    page.reload()
    page.wait_for_selector("body[data-copied]")
    held: list[Route] = []
    page.route("**/scan/batch", lambda route: route.continue_() if held else held.append(route))
    with page.expect_request("**/scan/batch"):
        scan(page, "BC-0001")
    scan(page, "BC-0002")
    page.wait_for_selector("li:has-text('Pallet 2')")
    held[0].continue_()
    outcome(page, "recorded", "Pallet 2")
    expect(page.locator("#link")).to_have_text("All saved")


def test_scans_are_never_sent_by_people_of_another_organization(
    scan_page: ScanPage, open_context: Callable[..., BrowserContext], site: Site
) -> None:
    rival = organizations.add_organization(shell(), "Rival").id
    hashed = hash_password(PASSWORD)
    people.add_person(shell(rival), "rita", Role.OPERATOR, email="rita@rival.example", password_hash=hashed)
    page = scan_page(viewport=PHONE, expected=("ERR_INTERNET_DISCONNECTED", "401"))
    page.context.set_offline(True)
    scan(page, "BC-0001")
    outcome(page, "queued", "Pallet 1")
    page.context.clear_cookies()
    page.context.set_offline(False)
    sign_in_instead(page, "rita@rival.example")
    expect(page.locator("#link")).to_have_text("1 kept for another organization: its people must sign in here")
    assert (queued(page), execute("SELECT count(*) FROM handheld_scan").fetchone()) == (1, (0,))
    sign_in_instead(page, "olga@nord.example")
    expect(page.locator("#link")).to_have_text("All saved")
    assert scans_by_people() == 1


def test_a_page_whose_form_token_is_out_of_date_gets_another_one(scan_page: ScanPage) -> None:
    """Somebody signed in again in another tab."""
    page = scan_page(viewport=PHONE, expected=("403",))
    other = page.context.new_page()
    other.goto("/locations")
    sign_in_instead(other, "olga@nord.example", "/locations")
    scan(page, "BC-0001")
    outcome(page, "recorded", "Pallet 1")
    expect(page.locator("#link")).to_have_text("All saved")


def sign_in_instead(page: Page, email: str, path: str = "/scan") -> None:
    page.context.clear_cookies()
    page.goto(f"/sign-in?next={path}")
    page.fill("#email", email)
    page.fill("#password", PASSWORD)
    page.click(".door button.wide")
    page.wait_for_url(f"**{path}")


def test_sheets_that_are_never_loaded_do_not_hold_up_scans(enter: Callable[..., Page], site: Site) -> None:
    """On plain http, with a radio that is connected but passes nothing."""
    page = enter("olga", "/", service_workers="block", expected=("Service Worker",))
    page.route("**/tools.js", lambda _: None)
    page.goto("/scan")
    page.wait_for_selector("body[data-copied]")
    scan(page, "DOCK-1")
    expect(page.locator("#location-name")).to_have_text("Dock 1")
    page.click("#find")
    scan(page, "BC-0001")
    outcome(page, "recorded", "Pallet 1")
    expect(page.locator("#said")).to_have_text("No connection: not loaded yet")
