"""Accessibility of every page, and its width on screens from 320 to 1440 px."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from edge import clock
from edge.audit.actors import shell
from edge.people import api_keys, devices, people
from edge.readers import dead_letters, ledger, readers, status, unassigned_topics, unknown_tags
from edge.tracking import floor_plans, positions
from edge.tracking.stays import Quality, Scan
from tests.browser.accessibility import ALL, COLOR, faults, small_targets
from tests.browser.conftest import PHONE, Site, scan

pytestmark = pytest.mark.browser
Enter = Callable[..., Page]
PICTURE = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="
)
TOO_WIDE = (
    "() => [document.documentElement, ...document.querySelectorAll(innerWidth < 360 ? 'none' : '.scroll')]"
    ".some((one) => one.scrollWidth > one.clientWidth + 1)"
)
SMALL_PHONE = {"width": 320, "height": 568}
TABLET = {"width": 820, "height": 1180}
DESK = {"width": 1440, "height": 900}


def see(site: Site, number: int, dock: int = 0) -> None:
    now, row = clock.now(), site.assets[number - 1]
    where = site.docks[dock]
    positions.record([Scan(site.organization_id, row.id, where.id, None, None, now, now, Quality.HANDHELD)], 0)


@pytest.fixture
def furnished(site: Site) -> Site:
    """Something on every page."""
    reader = readers.add_reader(shell(site.organization_id), name="Portal 1", topic="dock/1", format="csl")
    hour = ledger.hour_of(clock.now())
    tally = ledger.Tally(reader.id, hour, ledger.Bucket.RECORDED)
    ledger.add({tally: 12}, {tally: 40})
    status.record_readers([status.ReaderStatus(reader.id, clock.now(), clock.now(), 3_000_000, 0, "hot", False)])
    status.record_antennas({(reader.id, 1): clock.now()})
    unassigned_topics.record([unassigned_topics.Unassigned("dock/7", clock.now(), b'{"tag": 1}')])
    unknown = unknown_tags.Sighting(
        site.organization_id, "rfid", "E2AA", reader.id, "E2AA", "unmatched", clock.now(), site.docks[0].id
    )
    unknown_tags.record([unknown])
    letter = dead_letters.NewDeadLetter(site.organization_id, reader.id, "dock/1", b"\xff", 1, "not UTF-8", clock.now())
    dead_letters.add([letter])
    api_keys.add_key(shell(site.organization_id), "WMS", ["assets:read", "tracking:read"], b"hash")
    devices.invite(shell(site.organization_id), "Scanner 1")
    for number in (1, 2, 3):
        see(site, number)
    dock, corners = site.docks[0].id, [(100, 100), (900, 100), (900, 900)]
    floor_plans.set_image(shell(site.organization_id), dock, PICTURE, "image/png", (1, 1))
    plan = floor_plans.find_plan(site.organization_id, dock)
    assert plan
    floor_plans.save_shapes(shell(site.organization_id), dock, {dock: corners}, plan.updated_at)
    return site


def paths(site: Site) -> list[str]:
    reader = readers.list_readers(site.organization_id)[0].id
    key = api_keys.list_keys(site.organization_id)[0].id
    person = people.list_people(site.organization_id)[0].id
    asset, location = site.assets[0].id, site.docks[0].id
    return [
        *(
            "/",
            "/?q=nothing-fits",
            "/locations",
            "/assets/new",
            "/locations/new",
            "/account",
            "/account/second-factor",
            "/status",
        ),
        *(f"/assets/{asset}", f"/assets/{asset}/edit", f"/assets/{asset}/label"),
        *(f"/locations/{location}", f"/locations/{location}/edit", f"/locations/{location}/label"),
        *("/keys", "/keys/new", f"/keys/{key}/revoke", "/people", "/people/new", f"/people/{person}/edit", "/devices"),
        *("/readers", f"/readers/{reader}", f"/readers/{reader}/edit", "/readers/new?topic=dock/7"),
        *("/past", "/not-seen", f"/assets/{asset}/history", f"/locations/{location}/history", f"/assets/{asset}/trail"),
        *("/plans", f"/locations/{location}/plan", f"/locations/{location}/plan/edit", f"/readers/{reader}/reads"),
        *("/readers/topics", "/readers/unknown-tags", "/readers/dead-letters"),
        *("/manual", "/manual?q=reader", "/manual/broker", "/manual/architecture", "/manual/settings"),
        *("/rules", "/rules/new", "/alerts", "/alerts?show=all", "/filters", f"/locations/{location}/plan?color=count"),
        *("/home", "/walls", "/certificate", "/scan", "/no-such-page"),
    ]


@pytest.mark.long
def test_every_page_is_accessible_in_both_color_schemes_and_fits_each_screen(enter: Enter, furnished: Site) -> None:
    """Each page is opened once, because opening it takes longer than looking at it."""
    page = enter("ada", viewport=PHONE, color_scheme="light", expected=("404",))
    wrong = {}
    for path in paths(furnished):
        page.goto(path)
        if path == "/scan":
            page.wait_for_selector("body[data-ready]")
        wrong[path] = faults(page)
        page.emulate_media(color_scheme="dark")
        wrong[path] += [f"dark: {fault}" for fault in faults(page, COLOR)]
        page.emulate_media(color_scheme="light")
        for size in (PHONE, SMALL_PHONE, TABLET, DESK):
            page.set_viewport_size(size)
            if page.evaluate(TOO_WIDE):
                wrong[path].append(f"wider than {size['width']} px")
        page.set_viewport_size(PHONE)
    assert {path: one for path, one in wrong.items() if one} == {}


def test_everything_that_is_tapped_on_a_phone_is_large_enough_for_gloves(enter: Enter, furnished: Site) -> None:
    page = enter("ada", viewport=PHONE, has_touch=True, expected=("404",))
    small = {}
    for path in paths(furnished):
        if path.startswith("/manual"):
            continue
        page.goto(path)
        small[path] = small_targets(page)
    page.set_viewport_size(TABLET)  # there, assets are ticked
    page.goto("/")
    small["tablet"] = small_targets(page)
    assert {path: one for path, one in small.items() if one} == {}


def test_printouts_show_organization_and_time_without_overlaps(enter: Enter, furnished: Site) -> None:
    page = enter("ada", color_scheme="dark")
    page.emulate_media(media="print")
    asset, reader = furnished.assets[0].id, readers.list_readers(furnished.organization_id)[0].id
    for path in ("/", f"/assets/{asset}", f"/readers/{reader}", "/readers/topics", "/status"):
        page.goto(path)
        foot = page.locator(".zone")
        expect(foot).to_contain_text(re.compile(r"Nordhafen, .*20\d\d.* Times are in UTC"))
        above, box = page.locator("main").bounding_box(), foot.bounding_box()
        assert above
        assert box
        assert box["y"] >= above["y"] + above["height"], path
        assert page.evaluate("() => getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"


def test_the_scan_page_prints_dark_on_light(enter: Enter) -> None:
    page = enter("ed", color_scheme="dark")
    page.goto("/scan")
    ink = "() => getComputedStyle(document.body).color"
    on_screen = page.evaluate(ink)
    page.emulate_media(media="print")
    assert on_screen == "rgb(240, 243, 244)"
    assert page.evaluate(ink) == "rgb(18, 23, 28)"


def test_the_outcomes_of_a_scan_have_no_serious_fault(scan_page: Callable[..., Page]) -> None:
    page = scan_page("ed", viewport=PHONE, reduced_motion="reduce")
    found = {}
    for name in ("none", "recorded", "again", "unknown", "unclear", "refused", "queued", "location", "undone"):
        page.evaluate("(name) => { document.querySelector('.station').dataset.outcome = name; }", name)
        if faults_here := faults(page, impacts=ALL):
            found[name] = faults_here
    scan(page, "NOBODY-KNOWS")
    page.wait_for_selector("#acts button")
    page.click("#acts button:text-is('New asset')")
    found["attach"] = faults(page)
    page.click("#sheet-close")
    for opener, item in (
        ("#count", ""),
        ("#find", ""),
        ("#location", ""),
        ("#jobs", ""),
        ("#jobs", "Start a stock-take"),
    ):
        page.click(opener)
        page.wait_for_selector("#sheet[open]")
        if item:
            page.click(f"text={item}")
            page.wait_for_selector("button:has-text('Start at')")
        found[opener + item] = faults(page)
        if not item:
            page.click("#sheet-close")
    page.click("button:has-text('Start at')")
    scan(page, "http://box.local/l/NO-SUCH")
    scan(page, "BC-0001")
    page.wait_for_selector("#held:not([hidden])")
    found["held bar"] = faults(page)
    page.click("#held")
    found["held"] = faults(page)
    assert {name: one for name, one in found.items() if one} == {}


def test_the_sheets_of_the_scan_page_have_no_fault_while_they_are_open(
    scan_page: Callable[..., Page], site: Site
) -> None:
    see(site, 1)
    see(site, 2)
    page = scan_page("ed", viewport=PHONE, reduced_motion="reduce")
    found = {}

    def look(title: str, *clicks: str) -> None:
        for selector in clicks:
            page.click(selector)
        expect(page.locator("#sheet-title")).to_contain_text(title)
        found[title] = faults(page, impacts=ALL) + small_targets(page)

    for item, title in (("Expected list", "Expected lists"), ("Empty a carrier", "Empty a carrier")):
        look(title, "#jobs", f"#sheet button:has-text('{item}')")
        page.click("#sheet-close")
    look("Test my scanner", "#menu summary", "#test")
    page.click("#sheet-close")
    scan(page, "BC-0001")
    look("Scanned at", "#count")
    look("Stock-take at", "#sheet-close", "#jobs", "text=Start a stock-take", "button:has-text('Start at')", "#take")
    look("Sign off the stock-take", "text=Sign off …")
    look("Signed off", "button:has-text('Sign off as')")
    assert {name: one for name, one in found.items() if one} == {}


def test_the_doors_have_no_serious_fault(open_context: Callable[..., BrowserContext], site: Site) -> None:
    _, code = devices.invite(shell(site.organization_id), "Scanner 1")
    page = open_context(viewport=PHONE).new_page()
    found = []
    for path in ("/sign-in", "/manual/troubleshooting", f"/enrol/{code}"):
        page.goto(path)
        found += faults(page)
    page.click("button:has-text('Enroll')")
    assert found + faults(page) == []
