"""Every other page, as people of each role use it: flows, phone and tablet, weight."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from edge import clock
from edge.audit.actors import shell
from edge.database.connection import execute
from edge.people import passwords, people
from edge.people.people import Role
from edge.records import assets, locations
from edge.tracking import positions
from edge.tracking.stays import Quality, Scan
from tests.browser.accessibility import faults
from tests.browser.conftest import PHONE, Server, Site, scan

pytestmark = pytest.mark.browser
Enter = Callable[..., Page]


# A scanner fills a field and presses Enter at once.
AT_ONCE = """([selector, text]) => {
  const field = document.querySelector(selector);
  field.value = text;
  field.dispatchEvent(new InputEvent("input", { bubbles: true }));
  const enter = new KeyboardEvent("keydown", { key: "Enter", bubbles: true, cancelable: true });
  if (field.dispatchEvent(enter)) field.form.requestSubmit();
}"""


def see(site: Site, number: int, dock: int = 0) -> None:
    now, row = clock.now(), site.assets[number - 1]
    where = site.docks[dock]
    positions.record([Scan(site.organization_id, row.id, where.id, None, None, now, now, Quality.HANDHELD)], 0)


def test_the_board_follows_the_site(enter: Enter, site: Site) -> None:
    page = enter("vic")
    see(site, 7)
    row = page.locator(f"tr[data-row='{site.assets[6].id}']")
    expect(row).to_contain_text("Dock 1")
    see(site, 7, dock=1)
    expect(row).to_contain_text("Dock 2")
    assert "fresh" in (row.get_attribute("class") or "")


def test_filters_of_the_board_are_not_cut_on_a_phone(enter: Enter, site: Site) -> None:
    see(site, 1)
    page = enter("vic", viewport={"width": 390, "height": 800})
    expect(page.locator("#location")).to_be_hidden()
    page.click("main [data-sheet]")
    cut = page.eval_on_selector_all(
        ".filters select",
        """(all) => all.filter((one) => {
            const style = getComputedStyle(one), pen = document.createElement("canvas").getContext("2d");
            pen.font = style.font;
            const needed = pen.measureText(one.selectedOptions[0].text).width;
            return needed + parseFloat(style.paddingLeft) + parseFloat(style.paddingRight) > one.clientWidth;
        }).map((one) => one.selectedOptions[0].text)""",
    )
    assert cut == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.keyboard.press("Escape")
    expect(page.locator("#location")).to_be_hidden()
    page.click("main [data-sheet]")
    page.select_option("#unseen", "24")
    page.select_option("#show", "overdue")
    page.click("#filter-sheet button:visible")
    page.wait_for_url("**unseen=24*show=overdue*")
    expect(page.locator("main [data-sheet]")).to_have_text("Filter (2)")


def test_rows_stay_where_they_are_while_things_move(enter: Enter, site: Site) -> None:
    see(site, 200)  # the first position takes the first steps off the board
    page = enter("vic")
    link = page.locator("tbody tr th a").nth(3)
    link.focus()
    held, name, top = link.element_handle(), link.inner_text(), link.bounding_box()
    assert held
    for number in (1, 5, 9):
        see(site, number)
    expect(page.locator(f"tr[data-row='{site.assets[8].id}']")).to_contain_text("Dock 1")
    assert page.evaluate("(link) => link.isConnected && document.activeElement === link", held)
    assert (link.inner_text(), link.bounding_box()) == (name, top)


def test_the_pages_of_an_asset_and_a_location_follow_the_site(enter: Enter, site: Site) -> None:
    page = enter("vic", f"/assets/{site.assets[4].id}")
    other = page.context.new_page()
    other.goto(f"/locations/{site.docks[1].id}")
    expect(page.locator(".where")).to_contain_text("Never seen")
    see(site, 5, dock=1)
    expect(page.locator(".where")).to_contain_text("Dock 2")
    expect(other.locator("tbody")).to_contain_text("Pallet 5")


def test_a_tap_on_the_timeline_tells_what_hovering_does(enter: Enter, site: Site) -> None:
    for dock in (0, 1, 0):
        see(site, 1, dock)
    page = enter("vic", f"/assets/{site.assets[0].id}", viewport=PHONE, has_touch=True)
    page.locator(".strip-line g").last.tap()
    expect(page.locator(".detail")).to_contain_text("Dock 1")
    expect(page.locator(".legend li")).to_have_text(["Dock 1", "Dock 2"])


def test_a_large_tree_of_locations_is_opened_branch_by_branch(enter: Enter, site: Site) -> None:
    for number in range(80):
        locations.create(shell(site.organization_id), name=f"Shelf {number:02}", parent_id=site.racks[0].id)
    page = enter("vic", "/locations")
    expect(page.locator("tbody tr:visible")).to_have_count(1)
    page.click("[aria-label='Sub-locations of Hall 1']")
    expect(page.locator("tbody tr:visible")).to_have_count(6)
    page.click("[aria-label='Sub-locations of Rack A']")
    expect(page.locator("tbody tr:visible")).to_have_count(86)
    page.click("[aria-label='Sub-locations of Hall 1']")
    expect(page.locator("tbody tr:visible")).to_have_count(1)


def test_a_notice_is_told_once(enter: Enter, site: Site) -> None:
    page = enter("ed", "/locations/new")
    page.fill("#name", "Yard")
    page.click("button:text-is('Save')")
    expect(page.locator(".notice")).to_have_text("Created.")
    expect(page).not_to_have_url(re.compile("done="))  # once its script has run
    page.reload()
    expect(page.locator("h1")).to_have_text("Yard")
    expect(page.locator(".notice")).to_have_count(0)


def test_the_board_is_searched_and_filtered(enter: Enter, site: Site) -> None:
    see(site, 7, dock=1)
    page = enter("vic")
    page.fill("#q", "pallet 19")
    page.keyboard.press("Enter")
    expect(page.locator("tbody tr")).to_have_count(11)
    page.goto("/")
    page.select_option("#location", label="\u2003Dock 2")
    expect(page.locator("tbody tr")).to_have_count(1)
    page.goto("/")
    page.click("main >> text=More")
    expect(page.locator(".pager span").first).to_contain_text("51 to 100 of 200 assets")


def test_a_key_is_made_copied_and_revoked(enter: Enter, site: Site) -> None:
    page = enter("ada", permissions=["clipboard-read", "clipboard-write"])
    page.click("summary")
    page.click("text=API Keys")
    page.click("text=New Key")
    page.fill("#name", "WMS production")
    page.locator("input[name=assets][value=write]").check()
    page.click("text=Create key")
    secret = page.inner_text("#client_secret")
    assert re.fullmatch(r"edge_[0-9a-f]{64}", secret)
    page.click("[data-copy=client_secret]")
    expect(page.locator("[data-copy=client_secret]")).to_have_text("Copied")
    assert page.evaluate("() => navigator.clipboard.readText()") == secret
    page.click("text=I have copied it")
    expect(page.locator("tbody tr")).to_contain_text("assets:read assets:write tracking:read")
    page.click("a:text-is('Revoke')")
    page.click("text=Revoke key")
    expect(page.locator(".notice")).to_contain_text("Key revoked")


def test_an_asset_is_made_changed_and_retired(enter: Enter, site: Site) -> None:
    page = enter("ed", expected=("400",))
    page.click("text=New asset")
    page.fill("#name", "<script>alert('x')</script>")
    page.fill("#external_key", "no good")
    page.click("button:text-is('Save')")
    expect(page.locator("#external_key")).to_have_attribute("aria-invalid", "true")
    page.fill("#external_key", "FORK-1")
    page.fill("#tag_value", "E28011700000020A7B2C3D4E")
    page.click("button:text-is('Save')")
    expect(page.locator("h1")).to_have_text("<script>alert('x')</script>")
    page.click("a:text-is('Edit')")
    page.fill("#name", "Forklift 1")
    page.click("button:text-is('Save')")
    expect(page.locator("h1")).to_have_text("Forklift 1")
    page.click("a:text-is('Edit')")
    page.click("text=Detach")
    page.fill("#value", "4711")
    page.select_option("#tag_type", "barcode")
    page.click("button:text-is('Attach')")
    expect(page.locator("#tags li")).to_have_count(1)
    page.click("text=Retire this asset")
    page.click("text=Retire Forklift 1")
    expect(page.locator(".notice")).to_contain_text("Retired")


def test_a_handheld_is_enrolled_and_people_sign_in_by_badge_and_pin(
    enter: Enter, open_context: Callable[..., BrowserContext], site: Site
) -> None:
    people.add_person(
        shell(site.organization_id),
        "Pia",
        Role.OPERATOR,
        badge_hash=passwords.hash_badge("BADGE-77"),
        pin_hash=passwords.hash_pin("4711", Role.OPERATOR),
    )
    admin = enter("ada", "/devices")
    admin.fill("#name", "Scanner 3")
    admin.click("text=Create link")
    expect(admin.locator(".label-sheet svg")).to_be_visible()
    link = admin.inner_text("#link")
    page = open_context(viewport=PHONE, expected=("403",)).new_page()
    page.goto(link)
    page.click("button:has-text('Enroll')")
    page.wait_for_selector("#badge:focus")
    page.evaluate("() => document.activeElement.blur()")
    scan(page, "BADGE-77")
    expect(page.locator("h1")).to_have_text("PIN of Pia")
    for code in ("12345678", "BC-0001"):  # scans, faster than a person types
        page.evaluate(AT_ONCE, ["#pin", code])
        expect(page.locator("#pin")).to_have_attribute("placeholder", "This was a scan, not a PIN")
    assert execute("SELECT max(wrong_pins) FROM person").fetchone() == (0,)
    page.keyboard.type("1111", delay=100)
    page.keyboard.press("Enter")
    expect(page.locator("[role=alert]")).to_contain_text("Wrong PIN")
    page.keyboard.type("BC-0001", delay=100)
    page.keyboard.press("Enter")
    expect(page.locator("[role=alert]")).to_contain_text("This is not a PIN")
    assert execute("SELECT max(wrong_pins) FROM person").fetchone() == (1,)
    page.keyboard.type("4711", delay=100)
    page.keyboard.press("Enter")
    page.wait_for_selector("body[data-ready]")
    expect(page.locator("#who")).to_have_text("Pia · Scanner 3")
    page.click("#sign-out button")
    expect(page.locator("h1")).to_have_text("Who are you?")


def test_a_label_from_a_camera_opens_the_page_after_signing_in(
    open_context: Callable[..., BrowserContext], site: Site
) -> None:
    page = open_context(viewport=PHONE).new_page()
    page.goto("/a/ASSET-0005")
    page.fill("#email", "vic@nord.example")
    page.fill("#password", "correct horse battery")
    page.click("button:has-text('Sign in')")
    expect(page.locator("h1")).to_have_text("Pallet 5")


def test_the_pages_are_worked_by_keyboard_alone(enter: Enter, site: Site) -> None:
    page = enter("ada")
    page.evaluate("() => document.activeElement.blur()")
    page.keyboard.press("Tab")
    assert page.evaluate("() => document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    page.locator(".menu summary").focus()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    assert page.evaluate("() => document.activeElement.textContent").strip() == "My account"
    page.keyboard.press("Escape")
    assert page.evaluate("() => document.activeElement.tagName") == "SUMMARY"


def test_anything_is_found_from_every_page_by_keyboard(enter: Enter, site: Site) -> None:
    page = enter("ada", "/status")
    page.keyboard.press("/")
    page.keyboard.type("pallet 77")
    expect(page.locator("#found a").first).to_have_text(f"Pallet 77 {site.assets[76].external_key}")
    assert faults(page) == []
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_have_text("Pallet 77")
    page.keyboard.press("/")
    page.keyboard.type("stock-t")
    expect(page.locator("#found a[href='/stock-takes']")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("#found")).to_be_hidden()
    page.emulate_media(media="print")
    assert page.evaluate("getComputedStyle(document.body).paddingLeft") == "0px"


def test_without_scripts_a_phone_has_the_sidebar_on_the_page(enter: Enter, site: Site) -> None:
    page = enter("ada", "/home", viewport=PHONE, java_script_enabled=False)
    expect(page.locator(".side a").first).to_be_visible()
    expect(page.locator(".quick button")).to_be_hidden()


def test_on_a_phone_all_places_are_behind_more(enter: Enter, site: Site) -> None:
    page = enter("ada", "/home", viewport=PHONE)
    expect(page.locator(".side")).to_be_hidden()
    page.click(".quick button")
    expect(page.locator(".side a").first).to_be_focused()
    assert faults(page) == []
    page.keyboard.press("Escape")
    expect(page.locator(".side")).to_be_hidden()
    page.click(".quick button")
    page.focus(".quick button")
    page.keyboard.press("Tab")  # into what the sidebar covers
    expect(page.locator(".side")).to_be_hidden()
    expect(page.locator(".quick button")).to_be_focused()
    page.click(".quick button")
    page.click(".side a:has-text('Kiosk displays')")
    expect(page.locator("h1")).to_have_text("Kiosk displays")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.parametrize("language", ["en", "fr"])
def test_the_scan_page_is_light_and_quick_on_a_slow_handheld(
    enter: Enter, open_context: Callable[..., BrowserContext], site: Site, language: str
) -> None:
    """At most 61 KB over the wire until it is ready, compressed and with headers, and 92 KB with its sheets; other
    languages than English have 8 KB of texts more.

    Takes scans soon with a processor four times slower, on Slow 4G. The copy of the site's assets is not counted.
    """
    page = enter("olga", viewport=PHONE)
    state = page.context.storage_state()
    fresh = open_context(
        viewport=PHONE,
        locale=language,
        storage_state=state,
        service_workers="block",
        expected=("Service Worker",),
    ).new_page()
    session = fresh.context.new_cdp_session(fresh)
    session.send("Network.enable")
    session.send("Emulation.setCPUThrottlingRate", {"rate": 4})
    slow_4g = {"offline": False, "latency": 150, "downloadThroughput": 1.6e6 / 8, "uploadThroughput": 0.75e6 / 8}
    session.send("Network.emulateNetworkConditions", slow_4g)
    fresh.goto("/scan", wait_until="commit")
    fresh.wait_for_selector("body[data-copied]")
    fresh.wait_for_load_state("networkidle")
    takes_scans, ready = (int(fresh.get_attribute("body", name) or 0) for name in ("data-listening", "data-ready"))
    loaded = fresh.evaluate(
        "() => [...performance.getEntriesByType('navigation'), ...performance.getEntriesByType('resource')]"
        ".filter((one) => !one.name.endsWith('/scan/assets')).map((one) => [one.startTime, one.transferSize])"
    )
    weight, in_all = sum(size for start, size in loaded if start < ready), sum(size for _, size in loaded)
    print(f"scan page: takes scans after {takes_scans} ms, ready after {ready} ms; {weight} bytes, {in_all} in all")
    assert weight <= (61 if language == "en" else 69) * 1024
    assert in_all <= (92 if language == "en" else 100) * 1024
    assert takes_scans < ready


def test_a_scan_on_the_page_of_assets_finds_the_asset(enter: Enter, site: Site) -> None:
    page = enter("vic")
    page.evaluate("() => document.activeElement.blur()")
    scan(page, "BC-0007")
    expect(page).to_have_url(re.compile("q=BC-0007"))
    expect(page.locator("tr[data-row]")).to_have_count(1)
    expect(page.locator("tr[data-row]")).to_contain_text("Pallet 7")


def test_a_restarted_server_is_not_noticed(enter: Enter, site: Site, server: Server) -> None:
    page = enter("vic", expected=("ERR_CONNECTION", "ERR_EMPTY"))
    server.stop()
    server.start()
    see(site, 3)
    expect(page.locator(f"tr[data-row='{site.assets[2].id}']")).to_contain_text("Dock 1")
    assert assets.get(site.organization_id, site.assets[2].id)


def test_a_page_links_to_its_section_of_the_manual_which_has_a_search(enter: Enter, site: Site) -> None:
    page = enter("vic", f"/assets/{site.assets[0].id}/why")
    with page.context.expect_page() as opened:
        page.click("a.help")
    manual = opened.value
    expect(manual.locator("#explanations")).to_be_in_viewport()
    manual.fill("#q", "portal kind")
    manual.keyboard.press("Enter")
    expect(manual.locator(".result").first).to_contain_text("Portals and direct antennas")
    manual.click(".result a >> nth=0")
    expect(manual.locator("#portals-and-direct-antennas")).to_be_in_viewport()
    manual.click("a[rel=next]")
    expect(manual.locator("h1")).to_have_text("Doors")


def test_the_manual_is_read_without_scripts(open_context: Callable[..., BrowserContext]) -> None:
    page = open_context(java_script_enabled=False, viewport=PHONE).new_page()
    page.goto("/manual")
    page.fill("#q", "certificate")
    page.click("form[role=search] button")
    expect(page.locator(".result").first).to_be_visible()
    page.goto("/manual/installation")
    page.click("text=Contents >> nth=0")
    expect(page.locator("#contents")).to_be_in_viewport()
