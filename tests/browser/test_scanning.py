"""The scan page, with typed scans, without a connection, with two handhelds, by keyboard."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from edge.database.connection import execute
from edge.tracking import board
from tests.browser.conftest import PHONE, Server, Site, outcome, queued, scan
from tests.observed import scanned_assets, scans_by_people

pytestmark = pytest.mark.browser
ScanPage = Callable[..., Page]
OFFLINE = ("ERR_INTERNET_DISCONNECTED", "ERR_CONNECTION_REFUSED", "ERR_CONNECTION_RESET", "ERR_EMPTY_RESPONSE")


def location_of(site: Site, number: int) -> str | None:
    row = board.whereabouts(site.organization_id, site.assets[number - 1].id)
    return row.location_name if row else None


def test_location_then_things_one_after_the_other(scan_page: ScanPage, site: Site) -> None:
    page = scan_page(viewport=PHONE)
    scan(page, "BC-0001")
    outcome(page, "recorded", "Pallet 1")
    expect(page.locator("#detail")).to_have_text("Never seen before")
    expect(page.locator("#state")).to_have_text("Saved on the server")
    scan(page, "ASSET-0002")
    outcome(page, "recorded", "Pallet 2")
    scan(page, "http://somewhere.example/l/RACK-A")
    outcome(page, "location", "Rack A")
    scan(page, "BC-0001")
    outcome(page, "recorded", "Pallet 1")
    expect(page.locator("#detail")).to_contain_text("Was at Dock 1")
    assert (location_of(site, 1), location_of(site, 2)) == ("Rack A", "Dock 1")


@pytest.mark.parametrize("end", ["Enter", "Tab", ""])
@pytest.mark.parametrize("prefix", ["", "]C1"])
def test_every_way_to_end_a_code(scan_page: ScanPage, end: str, prefix: str) -> None:
    page = scan_page()
    scan(page, f"{prefix}BC-0003", end)
    outcome(page, "recorded", "Pallet 3")


def test_a_burst_at_full_speed_loses_nothing(scan_page: ScanPage, site: Site) -> None:
    page = scan_page()
    for number in range(1, 31):
        scan(page, f"BC-{number:04}")
    outcome(page, "recorded", "Pallet 30")
    expect(page.locator("#link")).to_have_text("All saved")
    assert (scans_by_people(), scanned_assets()) == (30, 30)
    ordered = execute("SELECT code FROM handheld_scan ORDER BY observed_at, received_at").fetchall()
    assert ordered == sorted(ordered)


def test_the_same_code_within_two_seconds_is_one_scan(scan_page: ScanPage) -> None:
    page = scan_page()
    scan(page, "BC-0001")
    scan(page, "BC-0001")
    scan(page, "BC-0002")
    outcome(page, "recorded", "Pallet 2")
    expect(page.locator("#link")).to_have_text("All saved")
    assert scans_by_people() == 2


def test_a_code_never_presses_the_button_that_has_the_focus(scan_page: ScanPage) -> None:
    page = scan_page()
    scan(page, "BC-0001")
    outcome(page, "recorded", "Pallet 1")
    page.focus("#undo")
    page.keyboard.type("BC-0002", delay=5)
    page.keyboard.press("Enter")
    page.keyboard.press("Enter")  # CR and LF
    outcome(page, "recorded", "Pallet 2")
    expect(page.locator("#catcher")).to_be_focused()
    page.keyboard.press("Enter")  # an LF that a busy device delivers late
    scan(page, "BC-0003")
    outcome(page, "recorded", "Pallet 3")
    expect(page.locator("#link")).to_have_text("All saved")
    assert execute("SELECT count(*) FROM handheld_scan WHERE undone_at IS NOT NULL").fetchone() == (0,)


def test_without_a_location_nothing_is_recorded(enter: Callable[..., Page], site: Site) -> None:
    page = enter("olga", "/scan")
    page.wait_for_selector("body[data-ready]")
    scan(page, "BC-0001")
    outcome(page, "refused", "Scan a location first")
    assert queued(page) == 0


def test_already_scanned_unknown_and_refused_look_different(scan_page: ScanPage, site: Site) -> None:
    page = scan_page()
    seen = {}

    def look(name: str) -> None:
        page.wait_for_selector(f".station[data-outcome={name}]:not(.flash), .station[data-outcome={name}]")
        seen[name] = page.evaluate(
            "() => [getComputedStyle(document.querySelector('.station')).backgroundColor, "
            "document.querySelector('#shape').textContent, document.querySelector('#word').textContent]"
        )

    scan(page, "BC-0001")
    look("recorded")
    scan(page, "BC-0002")
    outcome(page, "recorded", "Pallet 2")
    page.evaluate("() => new Promise((done) => setTimeout(done, 2000))")
    scan(page, "BC-0001")
    look("again")
    scan(page, "NOBODY-KNOWS")
    look("unknown")
    scan(page, "(01)09506000134353(21)4711")
    look("refused")
    expect(page.locator("#detail")).to_contain_text("check digit")
    assert len(seen) == 4
    for column in zip(*seen.values(), strict=True):
        assert len(set(column)) == 4, column


def test_undo_takes_the_last_scan_back(scan_page: ScanPage, site: Site) -> None:
    page = scan_page()
    scan(page, "BC-0001")
    outcome(page, "recorded", "Pallet 1")
    scan(page, "RACK-A")
    scan(page, "BC-0001")
    expect(page.locator("#detail")).to_contain_text("Was at Dock 1")
    page.click("#undo")
    outcome(page, "undone", "Pallet 1")
    assert location_of(site, 1) == "Dock 1"
    page.click("#undo")
    expect(page.locator("#undo")).to_be_disabled()
    expect(page.locator("li[data-outcome=undone]")).to_have_count(2)
    assert location_of(site, 1) is None


def test_find_records_nothing(scan_page: ScanPage, site: Site) -> None:
    page = scan_page()
    scan(page, "BC-0001")
    outcome(page, "recorded", "Pallet 1")
    page.click("#find")
    scan(page, "BC-0001")
    expect(page.locator("#answer h3")).to_have_text("Pallet 1")
    expect(page.locator(".found-location")).to_have_text("Dock 1")
    page.fill("#asked", "pallet 7")
    page.keyboard.press("Enter")
    expect(page.locator("#answer .choice-button").first).to_be_visible()
    page.click("#answer .choice-button:has-text('ASSET-0007')")
    expect(page.locator("#answer h3")).to_have_text("Pallet 7")
    expect(page.locator(".found-location")).to_have_text("Never seen")
    assert scans_by_people() == 1


def test_an_editor_gives_an_unknown_tag_to_an_asset_in_two_taps(scan_page: ScanPage, site: Site) -> None:
    page = scan_page("ed")
    scan(page, "NEW-LABEL-1")
    outcome(page, "unknown", "NEW-LABEL-1")
    page.click("#acts button:text-is('New asset')")
    page.click("#sheet button:text-is('Save')")
    outcome(page, "recorded", "Asset -LABEL-1")
    scan(page, "NEW-LABEL-2")
    outcome(page, "unknown", "NEW-LABEL-2")
    page.click("#acts button:has-text('Assign')")
    page.keyboard.type("ASSET-0009")
    page.keyboard.press("Enter")
    page.click(".choice-button:has-text('Pallet 9')")
    outcome(page, "recorded", "Pallet 9")
    assert location_of(site, 9) == "Dock 1"


def test_an_operators_unknown_tag_is_parked(scan_page: ScanPage) -> None:
    page = scan_page()
    scan(page, "NEW-LABEL-1")
    outcome(page, "unknown", "NEW-LABEL-1")
    expect(page.locator("#acts button")).to_have_count(0)
    assert execute("SELECT value FROM unknown_tag").fetchall() == [("NEW-LABEL-1",)]


def test_the_scanner_test_shows_the_keys_and_records_nothing(scan_page: ScanPage) -> None:
    page = scan_page()
    page.click("#menu summary")
    page.click("#test")
    page.wait_for_selector("#raw", state="attached")
    scan(page, "]C1BC-0001")
    expect(page.locator("#raw .raw")).to_contain_text("]C1BC-0001")
    expect(page.locator("#raw kbd")).to_have_text("Enter")
    expect(page.locator("#raw .taken")).to_have_text("Read as: BC-0001")
    assert scans_by_people() == 0


def test_typing_in_a_field_is_typing(scan_page: ScanPage) -> None:
    page = scan_page()
    page.click("#location")
    page.fill("#asked", "")
    page.type("#asked", "rack b", delay=90)  # a person; a scanner is quicker
    expect(page.locator(".choice-button")).to_have_count(1)
    page.keyboard.press("Enter")
    expect(page.locator("#location-name")).to_have_text("Rack B")


def test_eighty_scans_without_a_connection_are_saved_exactly_once(
    scan_page: ScanPage, site: Site, server: Server
) -> None:
    """Offline, reload from the service worker, a server that restarts meanwhile, a sign-in that expires."""
    page = scan_page(expected=(*OFFLINE, "401"))
    page.evaluate("() => navigator.serviceWorker.ready")
    page.reload()  # now the page is the service worker's
    page.wait_for_selector("body[data-ready]")
    page.wait_for_function("() => navigator.serviceWorker.controller")
    server.stop()
    for number in range(1, 41):
        scan(page, f"BC-{number:04}", delay=0)
    page.wait_for_selector("li:has-text('Pallet 40')")
    assert queued(page) == 40
    expect(page.locator("#link")).to_contain_text("Offline · 40 kept")
    page.reload()
    page.wait_for_selector("body[data-ready]")
    expect(page.locator("#location-name")).to_have_text("Dock 1")
    assert queued(page) == 40
    for number in range(41, 81):
        scan(page, f"BC-{number:04}", delay=0)
    page.wait_for_selector("li:has-text('Pallet 80')")
    execute("DELETE FROM web_session")
    server.start()
    page.evaluate("() => dispatchEvent(new Event('online'))")
    expect(page.locator("#link")).to_contain_text("Sign in again · 80 kept")
    page.click("#link a")
    page.fill("#email", "olga@nord.example")
    page.fill("#password", "correct horse battery")
    page.click("button:has-text('Sign in')")
    expect(page.locator("#link")).to_have_text("All saved")
    assert queued(page) == 0
    assert (scans_by_people(), scanned_assets()) == (80, 80)
    assert execute("SELECT count(*) FROM history").fetchone() == (80,)
    assert execute("SELECT min(received_at - observed_at) > 0 FROM handheld_scan").fetchone() == (1,)


def test_an_answer_that_is_lost_does_not_double_a_scan(scan_page: ScanPage) -> None:
    page = scan_page(expected=("ERR_FAILED",))
    lost = []

    def lose(route: object) -> None:
        if len(lost) < 2:
            route.fetch()  # type: ignore[attr-defined]
            lost.append(1)
            route.abort()  # type: ignore[attr-defined]
        else:
            route.continue_()  # type: ignore[attr-defined]

    page.route("**/scan/batch", lose)
    scan(page, "BC-0001")
    expect(page.locator("#link")).to_contain_text("Offline")
    page.evaluate("() => dispatchEvent(new Event('online'))")
    expect(page.locator("#link")).to_contain_text("Offline")
    page.evaluate("() => dispatchEvent(new Event('online'))")
    expect(page.locator("#link")).to_have_text("All saved")
    outcome(page, "recorded", "Pallet 1")
    assert len(lost) == 2
    assert execute("SELECT count(*) FROM history").fetchone() == (1,)


def test_an_undo_without_a_connection_waits_in_the_queue(scan_page: ScanPage, site: Site) -> None:
    page = scan_page(expected=OFFLINE)
    page.context.set_offline(True)
    scan(page, "BC-0001")
    outcome(page, "queued", "Pallet 1")
    page.click("#undo")
    outcome(page, "undoing", "Pallet 1")
    scan(page, "BC-0002")
    outcome(page, "queued", "Pallet 2")
    page.context.set_offline(False)
    expect(page.locator("#link")).to_have_text("All saved")
    outcome(page, "recorded", "Pallet 2")
    assert (location_of(site, 1), location_of(site, 2)) == (None, "Dock 1")


def test_two_handhelds_at_once(scan_page: ScanPage, site: Site) -> None:
    one, other = scan_page("olga"), scan_page("otto")
    scan(other, "RACK-A")
    for number in range(1, 21):
        scan(one, f"BC-{number:04}", delay=0)
        scan(other, f"BC-{number:04}", delay=0)
    for page in (one, other):
        outcome(page, "recorded", "Pallet 20")
        expect(page.locator("#link")).to_have_text("All saved")
    assert scans_by_people() == 40
    assert {location_of(site, number) for number in range(1, 21)} == {"Rack A"}


def test_everything_is_reached_by_keyboard_alone(scan_page: ScanPage) -> None:
    page = scan_page()
    scan(page, "BC-0001")
    outcome(page, "recorded", "Pallet 1")
    reached = set()
    page.evaluate("() => new Promise((done) => setTimeout(done, 300))")
    page.evaluate("() => document.activeElement.blur()")
    for _ in range(12):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("() => document.activeElement.id || document.activeElement.tagName"))
    assert {"location", "undo", "find", "SUMMARY"} <= reached
    page.focus("#find")
    page.keyboard.press("Enter")
    expect(page.locator("#sheet")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("#sheet")).not_to_be_visible()
    page.focus("#undo")
    page.keyboard.press("Space")
    outcome(page, "undone", "Pallet 1")


def test_mute_is_remembered(scan_page: ScanPage) -> None:
    page = scan_page()
    page.click("#menu summary")
    page.click("#mute")
    page.reload()
    page.wait_for_selector("body[data-ready]")
    assert page.get_attribute("#mute", "aria-pressed") == "true"


@pytest.mark.parametrize("size", [(320, 568), (360, 740), (740, 360), (820, 1180)])
def test_targets_are_large_and_nothing_overflows(scan_page: ScanPage, size: tuple[int, int]) -> None:
    page = scan_page("ed", viewport={"width": size[0], "height": size[1]}, has_touch=True)
    scan(page, "A-VERY-LONG-CODE-THAT-NOBODY-KNOWS-0123456789-0123456789")
    page.wait_for_selector(".station[data-outcome=unknown]")
    found = page.evaluate(
        """() => [...document.querySelectorAll('.station button, .station summary')]
        .filter((e) => e.offsetParent).map((e) => [e.id || e.textContent.trim(), e.getBoundingClientRect().height])"""
    )
    assert len(found) >= 6
    assert [name for name, height in found if height < 56] == []
    assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")


def test_on_plain_http_the_queue_survives_and_the_page_says_what_it_cannot(
    scan_page: ScanPage, site: Site, server: Server
) -> None:
    """No secure context: no service worker, no random ids of the browser; scanning works all the same."""
    page = scan_page(base_url=server.url.replace("localhost", "box.lan"), expected=OFFLINE)
    assert page.evaluate("() => [isSecureContext, !!navigator.serviceWorker]") == [False, False]
    page.context.set_offline(True)
    scan(page, "BC-0001")
    outcome(page, "queued", "Pallet 1")
    expect(page.locator("#link")).to_contain_text("Do not close this page")
    page.context.set_offline(False)
    page.reload()
    expect(page.locator("#link")).to_have_text("All saved")
    assert location_of(site, 1) == "Dock 1"
