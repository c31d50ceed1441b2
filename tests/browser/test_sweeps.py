"""Sweeps with an RFID sled: thousands of tags, each once, compared with an independent record by SQL."""

from __future__ import annotations

import os
import random
import socket
import time
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from functools import partial
from pathlib import Path

import pytest
from playwright.sync_api import Browser, CDPSession, Page, Route, expect

from edge import clock
from edge.audit.actors import shell
from edge.database.connection import close_database, execute
from edge.expected_lists import expected_lists
from edge.records import assets
from edge.records.tags import NewTag
from edge.tracking import board, carriers, positions
from edge.tracking.stays import Quality, Scan
from tests.browser.conftest import PASSWORD, Site, new_context, outcome, queued, scan
from tests.databases import Files, copy_files
from tests.mosquitto import free_port
from tests.observed import scans_by_people
from tests.service import LedgerReader, Service, wait_for

pytestmark = pytest.mark.browser
ScanPage = Callable[..., Page]
SMALL = {"width": 360, "height": 640}
TAGS = int(os.environ.get("SWEEP_TAGS", "300"))
BROKEN = (
    *("ERR_INTERNET_DISCONNECTED", "ERR_CONNECTION_REFUSED", "ERR_CONNECTION_RESET", "ERR_EMPTY_RESPONSE"),
    *("ERR_FAILED", "Failed to fetch", "Failed to update", "sw.js", "An unknown error occurred"),
    *("Blocked call to navigator.vibrate", "AudioContext was not allowed"),  # until the page is touched
)

# The page fills the sheet of the list, which by now shows something else.
REDRAW_LATE = """async () => {
  const loaded = performance.getEntriesByType("resource").find(({ name }) => name.includes("/lists."));
  (await import(loaded.name)).showGroups([]);
}"""

# The sled: inserts texts or presses keys at a fixed rate, the first three at once: a page that hangs delays its
# own sled, and codes with pauses are scans. Notes the longest pause of the page.
SLED = """([codes, rate, isTyped]) => new Promise((done) => {
  const begun = performance.now();
  let [sent, longest, last, cost] = [0, 0, begun, 0];
  const catcher = () => document.getElementById("catcher");
  const press = (key) => catcher().dispatchEvent(new KeyboardEvent("keydown",
    { key, code: /\\d/.test(key) ? `Digit${key}` : `Key${key}`, bubbles: true, cancelable: true }));
  const send = (code) => {
    if (!isTyped) {
      catcher().value += `${code}\\n`;
      return catcher().dispatchEvent(new InputEvent("input", { inputType: "insertText", bubbles: true }));
    }
    for (const key of code) press(key);
    press("Enter");
  };
  const timer = setInterval(() => {
    const now = performance.now();
    longest = Math.max(longest, now - last);
    last = now;
    while (sent < codes.length && sent < Math.max(3, (now - begun) * rate / 1000)) send(codes[sent++]);
    cost += performance.now() - now;
    if (sent < codes.length) return;
    clearInterval(timer);
    done({ longest, cost, seconds: (performance.now() - begun) / 1000 });
  }, 10);
})"""


# Tap each button that signs off, twice, in the moment when it appears.
HURRIED = """() => {
  const tapped = new WeakSet();
  new MutationObserver(() => {
    for (const one of document.querySelectorAll("#sheet-body button")) {
      if (!one.textContent.startsWith("Sign off as") || tapped.has(one)) continue;
      tapped.add(one);
      one.click();
      one.click();
    }
  }).observe(document.getElementById("sheet-body"), { childList: true, subtree: true });
}"""

# The page sends as many batches of scans as the test allows.
COUNTED_BATCHES = """() => {
  const usual = window.fetch;
  window.batches = 0;
  window.fetch = async (path, options) => {
    while (path === "/scan/batch" && window.batches < 1) await new Promise((done) => { setTimeout(done, 20); });
    window.batches -= path === "/scan/batch";
    return usual(path, options);
  };
}"""


def epc(number: int, digits: int = 24) -> str:
    return f"E280{number:0{digits - 4}X}"


def slow(page: Page, times: int = 4) -> CDPSession:
    """Slow the page down until the session is detached. This takes processor time, also while the page waits."""
    session = page.context.new_cdp_session(page)
    session.send("Emulation.setCPUThrottlingRate", {"rate": times})
    return session


def sweep(page: Page, codes: Sequence[str], rate: int = 200, *, is_typed: bool = False) -> dict[str, float]:
    figures: dict[str, float] = page.evaluate(SLED, [list(codes), rate, is_typed])
    return figures


class Steps:
    """Taps, scans and sweeps of an operator, counted."""

    def __init__(self, page: Page) -> None:
        self._page = page
        self.count = 0

    def tap(self, selector: str) -> None:
        self.count += 1
        self._page.click(selector)

    def scan(self, code: str) -> None:
        self.count += 1
        scan(self._page, code)

    def sweep(self, codes: Sequence[str]) -> None:
        self.count += 1
        sweep(self._page, codes)

    def done(self) -> int:
        """Return the steps of the job, and begin the next one."""
        count, self.count = self.count, 0
        return count


def tag(site: Site, number: int, code: str) -> None:
    assets.attach_tag(shell(site.organization_id), site.assets[number].id, NewTag("rfid", code))


def see(site: Site, number: int, location_id: int, ago: int = 0) -> None:
    at = clock.now() - ago
    one = Scan(site.organization_id, site.assets[number].id, location_id, None, None, at, at, Quality.HANDHELD)
    positions.record([one], 0)


def location_of(site: Site, number: int) -> str | None:
    row = board.whereabouts(site.organization_id, site.assets[number].id)
    return row.location_name if row else None


def counted(page: Page, count: int) -> None:
    expect(page.locator("#sweep-count")).to_have_text(str(count))


def saved(page: Page, seconds: float = 300) -> None:
    expect(page.locator("#link")).to_have_text("All saved", timeout=seconds * 1000)


def recorded() -> list[str]:
    return [code for (code,) in execute("SELECT code FROM handheld_scan WHERE undone_at IS NULL ORDER BY code")]


def shot(page: Page, name: str) -> None:
    if folder := os.environ.get("SCREENSHOTS"):
        page.screenshot(path=Path(folder) / f"{name}.png")


@pytest.mark.parametrize(
    ("rate", "is_typed", "count"), [(200, False, TAGS), (30, True, TAGS // 2)], ids=["text", "keys"]
)
def test_no_tag_of_a_sweep_is_dropped_by_a_slow_handheld(
    scan_page: ScanPage, site: Site, rate: int, is_typed: bool, count: int
) -> None:
    for number in range(min(100, count)):
        tag(site, number, epc(number, 24 if number % 2 else 32))
    page = scan_page(viewport=SMALL)
    page.reload()  # for the new tags
    page.wait_for_selector("body[data-copied]")
    slow(page)
    codes = [epc(number, 24 if number % 2 else 32) for number in range(count)]
    figures = sweep(page, random.Random(7).sample(codes * 2, count * 2), rate, is_typed=is_typed)  # each is read twice
    ended = time.monotonic()
    counted(page, count)
    behind = time.monotonic() - ended
    expect(page.locator("#sweep-unknown")).to_have_text(f"{count - min(100, count)} unmatched tags")
    shot(page, f"sweep-{rate}")
    assert scans_by_people() == 0
    began = time.monotonic()
    page.click("#sweep-save")
    expect(page.locator(".station[data-outcome=recorded] #thing")).to_have_text(
        f"Sweep of {count} tags", timeout=300_000
    )
    print(
        f"{count * 2} reads of {count} tags at {rate}/s in {figures['seconds']:.1f} s: the longest pause was "
        f"{figures['longest']:.0f} ms, input took {figures['cost']:.0f} ms, all were shown {behind:.1f} s later and "
        f"saved on the server in {time.monotonic() - began:.1f} s"
    )
    shot(page, f"saved-{rate}")
    assert (queued(page), recorded()) == (0, sorted(codes))
    began = time.monotonic()
    page.click("#undo")
    expect(page.locator(".station[data-outcome=undone] #thing")).to_have_text(f"Sweep of {count} tags", timeout=300_000)
    print(f"undone on the server in {time.monotonic() - began:.1f} s")
    assert (queued(page), recorded()) == (0, [])


@pytest.mark.long
def test_a_sweep_survives_reloads_a_lost_network_and_kill_9(
    chromium: Browser, tmp_path: Path, new_database: Files, database_with_site: tuple[Files, Site]
) -> None:
    """With `edge serve` as a process, which is killed while it records, and compared by SQL when it has ended."""
    files, site = database_with_site
    box = tmp_path / "box"
    box.mkdir(mode=0o700)
    copy_files(files, box)
    for number in range(50):
        tag(site, number, epc(number))
    close_database()
    codes = [epc(number) for number in range(TAGS)]
    broker = f"127.0.0.1:{free_port()}"
    with Service(box, "embedded", mqtt__listen=broker) as service, closing(LedgerReader(box)) as record:
        service.start()
        wait_for(lambda: is_listening(service), 60, service.read_log)
        context = new_context(chromium, base_url=service.http, viewport=SMALL)
        page = signed_in(context.new_page())
        slowed = slow(page)
        sweep(page, codes[: TAGS // 2])
        page.reload()  # before all of it is stored
        page.wait_for_selector("body[data-listening]")
        context.set_offline(True)
        sweep(page, codes[TAGS // 3 : -10])
        page.wait_for_selector("body[data-ready]")
        sweep(page, codes[-20:])
        counted(page, TAGS)
        slowed.detach()
        service.kill()
        page.click("#sweep-save")
        expect(page.locator(".station[data-outcome=queued] #thing")).to_have_text(f"Sweep of {TAGS} tags")
        page.reload()
        page.wait_for_selector("body[data-ready]")
        context.set_offline(False)
        page.evaluate(COUNTED_BATCHES)
        killed_at = [0]
        for _ in range(2):  # in the middle: after the first of two batches, or in the second one
            service.start()
            page.evaluate("window.batches = 2")
            wait_for(partial(has_more_scans, record, killed_at[-1]), 60, service.read_log)
            service.kill()
            killed_at.append(count_scans(record))
        page.reload()
        service.start()
        wait_for(lambda: is_listening(service), 60, service.read_log)
        saved(page)
        assert queued(page) == 0
        context.close()
        service.stop()
        print(f"killed after {killed_at} of {TAGS} scans")
        assert 0 < killed_at[1] < TAGS
        scans = record.all(
            "SELECT code, count(*) FROM handheld_scan WHERE undone_at IS NULL GROUP BY code ORDER BY code"
        )
        assert scans == [(code, 1) for code in sorted(codes)]
        assert record.one(
            "SELECT count(*), count(DISTINCT track.asset_id) FROM history JOIN track ON track.no = history.position_no "
            "JOIN location ON location.id = track.location_id WHERE external_key = 'DOCK-1' AND history_rows = 1"
        ) == (50, 50)
        assert record.one("SELECT count(*), sum(sightings) FROM unknown_tag") == (TAGS - 50, TAGS - 50)
    copy_files(new_database, tmp_path)


def signed_in(page: Page) -> Page:
    """Return the scan page of an operator at Dock 1, which works without a connection."""
    page.goto("/sign-in?next=/scan")
    page.fill("#email", "olga@nord.example")
    page.fill("#password", PASSWORD)
    page.click(".door button.wide")
    page.wait_for_selector("body[data-copied]")
    page.evaluate("() => navigator.serviceWorker.ready")
    page.reload()
    page.wait_for_selector("body[data-copied]")
    scan(page, "DOCK-1")
    expect(page.locator("#location-name")).to_have_text("Dock 1")
    return page


def is_listening(service: Service) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", int(service.http.rpartition(":")[2])), 1):
        return True
    return False


def has_more_scans(record: LedgerReader, number: int) -> bool:
    return count_scans(record) > number


def count_scans(record: LedgerReader) -> int:
    return sum(number for (number,) in record.all("SELECT count(*) FROM handheld_scan"))


def test_one_undo_reverts_the_sweep(scan_page: ScanPage, site: Site) -> None:
    for number in range(20):
        tag(site, number, epc(number))
        see(site, number, site.racks[0].id, 2 * clock.HOUR)
    before = [location_of(site, number) for number in range(20)]
    page = scan_page(viewport=SMALL)
    scan(page, "BC-0100")
    outcome(page, "recorded", "Pallet 100")
    sweep(page, [epc(number) for number in range(25)])
    counted(page, 25)
    page.click("#sweep-save")
    outcome(page, "recorded", "Sweep of 25 tags")
    expect(page.locator("#log li")).to_have_count(2)  # one line, and the scan before
    assert {location_of(site, number) for number in range(20)} == {"Dock 1"}
    page.click("#undo")
    outcome(page, "undone", "Sweep of 25 tags")
    assert [location_of(site, number) for number in range(20)] == before
    assert recorded() == ["BC-0100"]
    assert execute("SELECT count(*) FROM unknown_tag").fetchone() == (0,)


def test_what_was_just_seen_elsewhere_is_apart_and_moves_on_request(scan_page: ScanPage, site: Site) -> None:
    for number in range(12):
        tag(site, number, epc(number))
    for number in range(3):
        see(site, number, site.racks[0].id)
    page = scan_page(viewport=SMALL)
    sweep(page, [epc(number) for number in range(14)])
    counted(page, 14)
    expect(page.locator("#sweep-elsewhere")).to_have_text("3 just seen elsewhere")
    expect(page.locator("#sweep-names li")).to_have_text([f"Pallet {number} · Rack A" for number in (1, 2, 3)])
    expect(page.locator("#sweep-save")).to_have_text("Save 11 tags")
    shot(page, "elsewhere")
    page.click("#sweep-save")
    outcome(page, "recorded", "Sweep of 11 tags")
    assert [location_of(site, number) for number in (0, 2, 3, 11)] == ["Rack A", "Rack A", "Dock 1", "Dock 1"]
    sweep(page, [epc(number) for number in range(3)])
    counted(page, 3)
    expect(page.locator("#sweep-save")).to_be_disabled()
    page.click("text=Move them here too")
    page.click("text=Save 3 tags")
    outcome(page, "recorded", "Sweep of 3 tags")
    assert location_of(site, 0) == "Dock 1"


def test_what_this_device_just_scanned_elsewhere_is_apart(scan_page: ScanPage, site: Site) -> None:
    """The copy of the assets on the device learns of each saved scan at once."""
    for number in range(4):
        tag(site, number, epc(number))
    page = scan_page(viewport=SMALL)
    for number in (1, 2):
        scan(page, f"BC-{number:04}")
        outcome(page, "recorded", f"Pallet {number}")
    scan(page, "RACK-A")
    outcome(page, "location", "Rack A")
    sweep(page, [epc(number) for number in range(4)])
    counted(page, 4)
    expect(page.locator("#sweep-elsewhere")).to_have_text("2 just seen elsewhere")
    expect(page.locator("#sweep-names li")).to_have_text([f"Pallet {number} · Dock 1" for number in (1, 2)])


def test_a_sweep_begins_by_a_button_and_is_discarded_by_one(scan_page: ScanPage, site: Site) -> None:
    tag(site, 0, epc(1))
    page = scan_page(viewport=SMALL)
    page.click("#jobs")
    page.click("text=Start a sweep")
    counted(page, 0)
    page.click("#sweep-discard")  # without tags there is no question
    expect(page.locator("#sweep")).to_be_hidden()
    page.click("#jobs")
    page.click("text=Start a sweep")
    counted(page, 0)
    scan(page, epc(1))  # one tag does not begin a sweep, but belongs to this one
    scan(page, epc(2).lower())
    scan(page, epc(2))
    scan(page, "BC-0005")
    counted(page, 3)
    scan(page, "RACK-A")
    expect(page.locator("#said")).to_have_text("Save or discard the sweep first")
    expect(page.locator("#location-name")).to_have_text("Dock 1")
    page.click("#sweep-discard")
    shot(page, "discard")
    page.click("#sheet-body button:has-text('Discard ')")
    expect(page.locator("#sweep")).to_be_hidden()
    page.reload()
    page.wait_for_selector("body[data-ready]")
    expect(page.locator("#sweep")).to_be_hidden()
    scan(page, epc(1))
    outcome(page, "recorded", "Pallet 1")
    assert recorded() == [epc(1)]


def test_a_stock_take_of_twenty_assets_takes_six_steps(scan_page: ScanPage, site: Site) -> None:
    for number in range(20):
        tag(site, number, epc(number))
        see(site, number, site.docks[0].id, clock.HOUR)
    tag(site, 20, epc(20))
    see(site, 20, site.racks[0].id)  # the next aisle
    page = scan_page(viewport=SMALL)
    steps = Steps(page)
    steps.tap("#jobs")
    steps.tap("text=Start a stock-take")
    steps.tap("button:text-is('Start at Dock 1')")
    steps.sweep([epc(number) for number in (*range(19), 20, 99)])
    counted(page, 21)
    expect(page.locator("#sweep-elsewhere")).to_have_text("1 just seen elsewhere")
    steps.tap("#sweep-save")
    expect(page.locator("#take")).to_have_text("Stock-take at Dock 1: 19 of 20 found")
    expect(page.locator("#take-unknown li")).to_have_count(1)
    page.wait_for_function("() => document.getElementById('link').textContent === 'All saved'")
    assert execute("SELECT count(*) FROM stock_take_scan").fetchone() == (20,)
    expect(page.locator("#take-missing")).to_contain_text("Pallet 20")
    shot(page, "stock-take")
    button = page.locator("button:has-text('Sign off as')")
    expect(button).to_be_visible()
    page.wait_for_timeout(1100)  # nobody reads the lines in a second
    steps.tap("button:has-text('Sign off as')")
    expect(page.locator("#sheet-title")).to_have_text("Signed off")
    assert steps.count == 6
    page.click("#sheet-close")
    saved(page)
    assert len(recorded()) == 20
    assert location_of(site, 20) == "Rack A"


def test_steps_of_the_other_jobs_on_the_floor(scan_page: ScanPage, site: Site) -> None:
    """The manual lists them; a stock-take and an expected list by sweep have tests of their own."""
    for number in range(20):
        tag(site, number, epc(number))
    page = scan_page("ed", viewport=SMALL)
    page.reload()  # for the new tags
    page.wait_for_selector("body[data-copied]")
    steps = Steps(page)
    steps.scan("RACK-A")
    steps.scan("BC-0150")
    outcome(page, "recorded", "Pallet 150")
    assert steps.done() == 2
    steps.tap("#undo")
    outcome(page, "undone", "Pallet 150")
    assert steps.done() == 1
    steps.tap("#find")
    steps.scan("BC-0150")
    expect(page.locator("#answer h3")).to_have_text("Pallet 150")
    assert steps.done() == 2
    page.click("#sheet-close")
    steps.scan("DOCK-1")
    steps.sweep([epc(number) for number in range(20)])
    counted(page, 20)
    steps.tap("#sweep-save")
    outcome(page, "recorded", "Sweep of 20 tags")
    assert steps.done() == 3
    steps.tap("#find")
    steps.scan("BC-0001")
    steps.tap("text=Find by sweep")
    steps.sweep([epc(0)])
    expect(page.locator("#seek-state")).to_have_text("Found")
    assert steps.done() == 4
    page.click("#sheet-close")
    steps.tap("#jobs")
    steps.tap("text=What is here?")
    expect(page.locator("#here-list")).to_contain_text("20 assets")
    assert steps.done() == 2
    page.click("#sheet-close")
    steps.tap("#jobs")
    steps.tap("text=Move everything")
    steps.tap(".choice-button:has-text('Rack B')")
    steps.tap("button:has-text('Move 20 assets')")
    wait_for(lambda: location_of(site, 7) == "Rack B", 60)
    assert steps.done() == 4
    steps.scan("RACK-B")  # where the assets have just been moved
    assert steps.done() == 1
    steps.tap("#jobs")
    steps.tap("text=Put onto a carrier")
    steps.scan("BC-0100")
    outcome(page, "recorded", "Pallet 100")
    steps.sweep([epc(number) for number in range(20)])
    counted(page, 20)
    steps.tap("#sweep-save")
    outcome(page, "recorded", "Sweep of 20 tags")
    steps.tap("#loading")
    expect(page.locator("#loading")).to_be_hidden()
    assert len(carriers.on(site.organization_id, site.assets[99].id)) == 20
    assert steps.done() == 6
    steps.tap("#jobs")
    steps.tap("text=Empty a carrier")
    steps.scan("BC-0100")
    steps.tap("text=Take everything off")
    wait_for(lambda: not carriers.on(site.organization_id, site.assets[99].id), 60)
    assert steps.done() == 4
    steps.scan("NOBODY-KNOWS")
    outcome(page, "unknown", "NOBODY-KNOWS")
    steps.tap("text=Assign …")
    steps.scan("BC-0120")
    steps.tap(".choice-button:has-text('Pallet 120')")
    outcome(page, "recorded", "Pallet 120")
    assert steps.done() == 4


def test_a_sweep_ticks_off_an_expected_list(scan_page: ScanPage, site: Site) -> None:
    for number in range(21):
        tag(site, number, epc(number))
    see(site, 3, site.racks[0].id)  # comes from there just now
    see(site, 20, site.racks[0].id)  # stays there
    truck = expected_lists.create(
        shell(site.organization_id), "Truck 12", [epc(number) for number in range(20)], location_id=site.docks[0].id
    )
    page = scan_page(viewport=SMALL)
    page.reload()  # for the new tags
    page.wait_for_selector("body[data-copied]")
    steps = Steps(page)
    steps.tap("#jobs")
    steps.tap("text=Expected list")
    steps.tap("text=Truck 12")
    expect(page.locator("#expected")).to_have_text("Truck 12: 0 of 20")
    steps.sweep([epc(number) for number in range(21)])
    counted(page, 21)
    expect(page.locator("#sweep-list")).to_have_text("20 of 20 on Truck 12")
    expect(page.locator("#sweep-elsewhere")).to_have_text("1 just seen elsewhere")
    shot(page, "sweep-list")
    steps.tap("#sweep-save")
    expect(page.locator("#expected-ticked summary")).to_have_text("Ticked off: 20")
    saved(page)
    shot(page, "list")
    page.wait_for_timeout(1500)  # nobody reads the lines in a second
    steps.tap("button:has-text('Sign off as')")
    expect(page.locator("#sheet-title")).to_have_text("Signed off")
    shot(page, "list-signed")
    assert steps.count == 6
    page.click("#sheet-close")
    expect(page.locator("#expected")).to_be_hidden()
    state = expected_lists.find_state(site.organization_id, truck)
    assert (state.one.signed_by, state.count("ticked"), state.count("missing")) == ("olga", 20, 0)
    ticked = "SELECT count(*) FROM expected_line WHERE list_id = ? AND result = 'ticked' AND how = 'scan'"
    assert execute(ticked, (truck,)).fetchone() == (20,)


def test_an_expected_list_goes_on_without_a_connection_and_over_a_reload(scan_page: ScanPage, site: Site) -> None:
    for number in range(10):
        tag(site, number, epc(number))
    truck = expected_lists.create(
        shell(site.organization_id), "Truck 12", [epc(number) for number in range(10)], location_id=site.docks[0].id
    )
    page = scan_page(viewport=SMALL, expected=BROKEN)
    page.evaluate("() => navigator.serviceWorker.ready")
    page.reload()
    page.wait_for_selector("body[data-copied]")
    page.click("#jobs")
    page.click("text=Expected list")
    page.click("text=Truck 12")
    expect(page.locator("#expected")).to_have_text("Truck 12: 0 of 10")
    page.context.set_offline(True)
    sweep(page, [epc(number) for number in range(8)])
    counted(page, 8)
    page.click("#sweep-save")
    expect(page.locator("#expected-missing li")).to_have_count(2)
    page.click("button:has-text('Sign off as')")
    expect(page.locator("#said")).to_have_text("No connection: sign off later")
    page.reload()
    page.wait_for_selector("body[data-ready]")
    expect(page.locator("#expected")).to_have_text("Truck 12: 8 of 10")
    page.context.set_offline(False)
    page.evaluate("() => dispatchEvent(new Event('online'))")
    saved(page)
    page.click("#expected")
    expect(page.locator("#expected-missing summary")).to_have_text("Missing: 2")
    page.locator("button:has-text('Sign off as')").dblclick()  # asks, since two are missing
    expect(page.locator("#sheet-title")).to_have_text("Sign off Truck 12?")
    page.evaluate(REDRAW_LATE)
    page.wait_for_timeout(600)  # the button takes no tap before
    page.click("button:has-text('Sign off anyway as')")
    expect(page.locator("#sheet-title")).to_have_text("Signed off")
    state = expected_lists.find_state(site.organization_id, truck)
    assert (state.count("ticked"), state.count("missing")) == (8, 2)


def test_hurried_taps_after_a_sweep_do_not_sign_off(scan_page: ScanPage, site: Site) -> None:
    for number in range(5):
        tag(site, number, epc(number))
        see(site, number, site.docks[0].id, clock.HOUR)
    page = scan_page(viewport=SMALL)
    page.click("#jobs")
    page.click("text=Start a stock-take")
    page.click("button:text-is('Start at Dock 1')")
    sweep(page, [epc(number) for number in range(4)])
    counted(page, 4)
    page.evaluate(HURRIED)
    page.locator("#sweep-save").evaluate("(one) => { one.click(); one.click(); }")
    expect(page.locator("#sheet-title")).to_have_text("Sign off the stock-take at Dock 1?")
    assert execute("SELECT count(*) FROM stock_take WHERE finished_at IS NOT NULL").fetchone() == (0,)
    page.locator("button:has-text('Sign off as')").dblclick()
    expect(page.locator("#sheet-title")).to_have_text("Signed off")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.locator("a:has-text('Open the report')").evaluate(
        "(one) => one.dispatchEvent(new MouseEvent('click', { bubbles: true, cancelable: true, detail: 2 }))"
    )
    page.evaluate("() => fetch('/healthz')")
    assert not [url for url in asked if url.endswith("/scan/state")]  # asked before a link is followed
    saved(page)
    assert execute("SELECT count(*) FROM stock_take WHERE finished_at IS NOT NULL").fetchone() == (1,)
    assert scans_by_people() == 4


def test_one_tap_signs_off_as_soon_as_the_server_has_answered(scan_page: ScanPage, site: Site) -> None:
    """The first question is never answered."""
    for number in range(4):
        tag(site, number, epc(number))
    page = scan_page(viewport=SMALL, expected=("ERR_FAILED",))
    page.click("#jobs")
    page.click("text=Start a stock-take")
    page.click("button:text-is('Start at Dock 1')")
    asked: list[Route] = []
    sweep(page, [epc(number) for number in range(4)])
    counted(page, 4)
    page.route("**/scan/stock-takes/*", lambda route: route.continue_() if asked else asked.append(route))
    page.click("#sweep-save")
    expect(page.locator("#take-head button.wide").first).to_have_text("Sign off …")
    page.locator("button:has-text('Sign off as')").wait_for()
    assert len(asked) == 1


def test_a_sweep_loads_a_carrier(scan_page: ScanPage, site: Site) -> None:
    for number in range(1, 11):
        tag(site, number, epc(number))
    page = scan_page(viewport=SMALL)
    page.click("#jobs")
    page.click("text=Put onto a carrier")
    scan(page, "BC-0001")
    outcome(page, "recorded", "Pallet 1")
    sweep(page, [epc(number) for number in (*range(1, 11), 99)])
    counted(page, 11)
    page.click("text=Save 10 tags")  # not the unmatched one
    outcome(page, "recorded", "Sweep of 10 tags")
    assert len(carriers.on(site.organization_id, site.assets[0].id)) == 10
    page.click("#undo")
    outcome(page, "undone", "Sweep of 10 tags")
    assert carriers.on(site.organization_id, site.assets[0].id) == []


def test_an_asset_is_found_by_its_exact_tag(scan_page: ScanPage, site: Site) -> None:
    short = epc(7)
    tag(site, 0, short)
    tag(site, 1, f"00000000{short}")  # 128 bits, the same number
    page = scan_page(viewport=SMALL)
    for name, own, other in (("Pallet 1", short, f"00000000{short}"), ("Pallet 2", f"00000000{short}", short)):
        page.click("#find")
        page.fill("#asked", name)
        page.keyboard.press("Enter")
        page.locator("#answer .choice-button", has_text=name).first.click()
        page.click("text=Find by sweep")
        sweep(page, [other, *(epc(number) for number in range(100, 119))])
        expect(page.locator("#seek-others")).to_have_text("20 other tags read")
        expect(page.locator("#seek-state")).to_have_text("Not yet")
        sweep(page, [other, own])
        expect(page.locator("#seek-state")).to_have_text("Found")
        shot(page, "found")
        page.click("#sheet-close")
    expect(page.locator("#sweep")).to_be_hidden()
    assert recorded() == []


def test_one_unmatched_tag_in_front_of_the_antenna_is_one_scan_to_attach(scan_page: ScanPage) -> None:
    page = scan_page("ed", viewport=SMALL)
    sweep(page, [epc(5)] * 60, 20)  # three seconds
    outcome(page, "unknown", epc(5))
    asked: list[str] = []
    page.on("request", lambda request: "/scan/find" in request.url and asked.append(request.url))
    page.click("text=Assign …")
    page.fill("#asked", "Pallet 7")
    page.keyboard.press("Enter")
    expect(page.locator("#sheet .choice-button").first).to_contain_text("Pallet 7")
    sweep(page, [epc(5)] * 20, 20)  # the tag is still in front of the antenna
    assert len(asked) == 1
    page.click("#sheet-close")
    page.click("text=New asset")
    sweep(page, [epc(5)] * 20, 20)
    page.click("#sheet button:text-is('Save')")
    outcome(page, "recorded", f"Asset {epc(5)[-8:]}")
    assert recorded() == [epc(5)]
