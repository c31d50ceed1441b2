"""A device passes to the next person: scans keep the name of their person, and nothing else is handed over."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from edge import clock
from edge.audit.actors import shell
from edge.database.connection import execute
from edge.people import devices
from tests.browser.conftest import PASSWORD, PHONE, Site, outcome, queued, scan

pytestmark = pytest.mark.browser
EXPECTED = ("ERR_INTERNET_DISCONNECTED", "401")


@pytest.fixture
def gun(open_context: Callable[..., BrowserContext], site: Site) -> Page:
    """An enrolled device on which olga is signed in, at Dock 1."""
    _, code = devices.invite(shell(site.organization_id), "Gun 1")
    page = open_context(viewport=PHONE, expected=EXPECTED).new_page()
    page.goto(f"/enrol/{code}")
    page.click("button:has-text('Enroll')")
    choose(page, "olga")
    page.wait_for_selector("body[data-copied]")
    scan(page, "DOCK-1")
    expect(page.locator("#location-name")).to_have_text("Dock 1")
    return page


def choose(page: Page, name: str) -> None:
    page.select_option("#person", label=name)
    page.click("button:has-text('Continue')")
    page.wait_for_url("**/scan")
    page.wait_for_selector("body[data-ready]")


def pass_on(page: Page, name: str) -> None:
    """The session has expired ten minutes ago, and somebody signs in."""
    expire()
    page.goto("/sign-in?next=/scan")
    choose(page, name)


def expire() -> None:
    now = clock.now()
    execute("UPDATE web_session SET created_at = ?, expires_at = ?", (now - clock.HOUR, now - 600 * clock.SECOND))


def names() -> list[str]:
    """Who made the scans, in their order."""
    sql = "SELECT person.name FROM handheld_scan JOIN person ON person.id = person_id ORDER BY observed_at"
    return [name for (name,) in execute(sql).fetchall()]


def test_scans_keep_the_person_even_after_the_session_expired(gun: Page) -> None:
    gun.context.set_offline(True)
    scan(gun, "BC-0001")
    outcome(gun, "queued", "Pallet 1")
    expire()
    scan(gun, "BC-0002")
    outcome(gun, "queued", "Pallet 2")
    gun.context.set_offline(False)
    pass_on(gun, "otto")
    expect(gun.locator("#link")).to_have_text("All saved")
    scan(gun, "DOCK-1")
    scan(gun, "BC-0003")
    outcome(gun, "recorded", "Pallet 3")
    assert names() == ["olga", "olga", "otto"]
    assert execute("SELECT count(DISTINCT sent_by) FROM handheld_scan").fetchone() == (1,)


def test_location_carrier_and_check_do_not_pass_to_the_next_person(gun: Page) -> None:
    gun.click("#jobs")
    gun.click("text=Start a stock-take")
    gun.click("button:text-is('Start at Dock 1')")
    expect(gun.locator("#take")).to_be_visible()
    expect(gun.locator("#link")).to_have_text("All saved")
    pass_on(gun, "otto")
    expect(gun.locator("#location-name")).to_have_text("No location yet")
    expect(gun.locator("#take")).to_be_hidden()
    scan(gun, "BC-0001")
    outcome(gun, "refused", "Scan a location first")
    scan(gun, "DOCK-1")
    gun.click("#jobs")
    gun.click("text=Put onto a carrier")
    scan(gun, "BC-0002")
    expect(gun.locator("#loading")).to_contain_text("Putting onto Pallet 2")
    pass_on(gun, "otto")
    expect(gun.locator("#location-name")).to_have_text("Dock 1")
    expect(gun.locator("#loading")).to_contain_text("Putting onto Pallet 2")
    pass_on(gun, "olga")
    expect(gun.locator("#location-name")).to_have_text("No location yet")
    expect(gun.locator("#loading")).to_be_hidden()
    gun.click("#jobs")
    expect(gun.locator("#sheet-body")).to_contain_text("Scan a location first")


def test_a_sign_in_on_another_page_is_noticed_at_the_next_scan(gun: Page) -> None:
    other = gun.context.new_page()
    expire()
    other.goto("/sign-in?next=/account")
    other.select_option("#person", label="otto")
    other.click("button:has-text('Continue')")
    other.wait_for_url("**/account")
    scan(gun, "BC-0001")
    outcome(gun, "refused", "Scan a location first")
    expect(gun.locator("#location-name")).to_have_text("No location yet")


@pytest.mark.parametrize("answer", ["I made them", "Undo 2 scans"])
def test_what_is_not_proven_is_asked(scan_page: Callable[..., Page], answer: str) -> None:
    """On a browser that is not enrolled, only the person can claim scans."""
    page = scan_page("olga", viewport=PHONE, expected=EXPECTED)
    page.context.set_offline(True)
    for number in (1, 2):
        scan(page, f"BC-{number:04}")
        outcome(page, "queued", f"Pallet {number}")
    page.context.clear_cookies()
    page.context.set_offline(False)
    page.goto("/sign-in?next=/scan")
    page.fill("#email", "otto@nord.example")
    page.fill("#password", PASSWORD)
    page.click(".door button.wide")
    page.wait_for_url("**/scan")
    expect(page.locator("#held")).to_have_text("2 scans from an earlier session: say who made them")
    assert names() == []
    page.click("#held")
    page.click(f"#sheet button:text-is('{answer}')")
    expect(page.locator("#held")).to_be_hidden()
    expect(page.locator("#link")).to_have_text("All saved")
    assert queued(page) == 0
    assert names() == (["otto", "otto"] if answer == "I made them" else [])


def test_without_a_sign_in_nothing_is_recorded(scan_page: Callable[..., Page]) -> None:
    page = scan_page(viewport=PHONE, expected=EXPECTED)
    page.context.clear_cookies()
    scan(page, "BC-0001")
    outcome(page, "refused", "Sign in again")
    assert queued(page) == 0
