"""Real handhelds: small screens, old browsers, the Back button, reloads, and attaching tags."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, Page, Route, expect

from edge.audit.actors import shell
from edge.database.connection import execute
from edge.expected_lists import expected_lists
from edge.pages import static_files
from edge.pages.static_files import File
from edge.people import devices, passwords, people
from edge.people.people import Role
from edge.records import assets
from tests.browser.conftest import PASSWORD, PHONE, Server, Site, outcome, scan
from tests.observed import scanned_assets, scans_by_people

pytestmark = pytest.mark.browser
ScanPage = Callable[..., Page]
Enter = Callable[..., Page]
OFFLINE = ("ERR_INTERNET_DISCONNECTED", "ERR_CONNECTION_REFUSED", "ERR_CONNECTION_RESET", "ERR_EMPTY_RESPONSE")

# Functions that Chrome and WebView 80 do not have.
NEWER = """() => {
  for (const name of ["at", "findLast", "findLastIndex", "toSorted", "toReversed"]) delete Array.prototype[name];
  for (const name of ["at", "replaceAll"]) delete String.prototype[name];
  for (const name of ["replaceChildren"]) { delete Element.prototype[name]; delete Document.prototype[name]; }
  for (const name of ["hasOwn", "groupBy"]) delete Object[name];
  for (const name of ["timeout", "any"]) delete AbortSignal[name];
  for (const name of ["any", "withResolvers"]) delete Promise[name];
  delete Crypto.prototype.randomUUID;
  delete window.structuredClone;
  delete window.BarcodeDetector;
  delete Navigator.prototype.wakeLock;
}"""

# Presses keys on the focused element at chosen moments, in ms. A machine that is busy cannot move them.
SEND_KEYS = """keys => {
  const began = performance.now();
  for (const [key, after] of keys) {
    const event = new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true });
    Object.defineProperty(event, "timeStamp", { value: began + after });
    document.activeElement.dispatchEvent(event);
  }
}"""


@pytest.mark.parametrize("size", [(320, 640), (360, 640), (480, 800), (640, 360)])
def test_the_longest_names_leave_everything_in_reach(scan_page: ScanPage, site: Site, size: tuple[int, int]) -> None:
    execute("UPDATE person SET name = ? WHERE name = 'olga'", ("O" * 255,))
    assets.patch(shell(site.organization_id), site.assets[0].id, {"name": "P" * 255})
    page = scan_page(viewport={"width": size[0], "height": size[1]}, has_touch=True)
    execute("UPDATE location SET name = ? WHERE external_key = 'RACK-A'", ("Rack-" * 51,))
    page.reload()
    page.wait_for_selector("body[data-ready]")
    scan(page, "RACK-A")
    scan(page, "BC-0001")
    outcome(page, "recorded", "P" * 255)
    for name in ("#location", "#count", "#undo", "#find", "#menu summary", "#sign-out button"):
        box = page.locator(name).bounding_box()
        assert box
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= size[0], name
        assert box["y"] + box["height"] <= size[1], name
        page.click(name, trial=True)
    assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")


def test_the_very_first_visit_is_kept_for_the_time_without_a_connection(enter: Enter, server: Server) -> None:
    page = enter("olga", "/scan", expected=OFFLINE)
    page.wait_for_selector("body[data-copied]")
    page.evaluate("() => navigator.serviceWorker.ready")
    server.stop()
    page.reload()
    page.wait_for_selector("body[data-ready]")
    scan(page, "BC-0001")
    outcome(page, "refused", "Scan a location first")
    scan(page, "DOCK-1")
    scan(page, "BC-0001")
    outcome(page, "queued", "Pallet 1")


def test_after_an_upgrade_the_kept_page_fits_its_files(
    scan_page: ScanPage, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first page of the new version comes from the server; without a connection each version is whole."""
    page = scan_page(expected=(*OFFLINE, "404", "ERR_FAILED"))
    page.evaluate("() => navigator.serviceWorker.ready")
    page.route("**/sw.js", lambda route: route.abort())
    server.stop()
    monkeypatch.setattr("edge.pages.static_files.sha256", _other_hash)
    server.start()
    page.reload()  # the new page, by the old service worker
    page.wait_for_selector("body[data-ready]")
    server.stop()
    page.reload()
    page.wait_for_selector("body[data-ready]")
    scan(page, "BC-0001")
    outcome(page, "queued", "Pallet 1")


def install_another_release(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Restart the server with other scripts, whose modules fail in a page of the release before."""
    server.stop()
    read = static_files._read

    def other(path: Path) -> File:
        file = read(path)
        is_script = path.parent.name == "handhelds" and path.suffix == ".js" and path.name != "sw.js"
        return file._replace(kept=b'throw new Error("of another release");') if is_script else file

    monkeypatch.setattr(static_files, "_read", other)
    server.start()


# Install the service worker of the server and return the number of its caches.
UPDATE_WORKER = """async () => {
  const taken = new Promise((done) => navigator.serviceWorker.addEventListener("controllerchange", done));
  await (await navigator.serviceWorker.getRegistration()).update();
  await taken;
  return (await caches.keys()).length;
}"""


@pytest.mark.parametrize("has_worker", [True, False])
def test_a_page_that_is_open_during_an_upgrade_keeps_its_own_modules(
    enter: Enter, server: Server, monkeypatch: pytest.MonkeyPatch, has_worker: bool
) -> None:
    options = {} if has_worker else {"service_workers": "block"}  # as on plain http
    page = enter(
        "olga", "/scan", expected=(*OFFLINE, "404", "of another release", "ERR_FAILED", "blocked by"), **options
    )
    page.wait_for_selector("body[data-copied]")
    page.wait_for_selector("body[data-whole]")
    scan(page, "DOCK-1")
    expect(page.locator("#location-name")).to_have_text("Dock 1")
    install_another_release(server, monkeypatch)
    if has_worker:
        assert page.evaluate(UPDATE_WORKER) == 2, "the files of both releases"
    scan(page, "BC-0001")
    outcome(page, "recorded", "Pallet 1")
    page.click("#jobs")
    page.get_by_role("button", name="Expected list").click()
    expect(page.locator("#sheet")).to_contain_text("No list is waiting")
    page.click("#sheet-close")
    page.context.set_offline(True)
    scan(page, "BC-0003")
    outcome(page, "queued", "Pallet 3")
    page.click("#count")
    expect(page.locator("#sheet")).to_contain_text("Pallet 3")
    page.click("#sheet-close")
    page.context.set_offline(False)
    scan(page, "BC-0002")
    outcome(page, "recorded", "Pallet 2")


def in_module(name: str, call: str) -> str:
    """Return a function that calls one of a module of the page."""
    script = "document.querySelector('script[src*=main]').src"
    return f"async () => (await import({script}.replace('main', '{name}'))).{call}"


def test_a_page_that_nobody_uses_is_replaced_by_that_of_a_newer_release(
    scan_page: ScanPage, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = scan_page(expected=(*OFFLINE, "404"))
    page.wait_for_selector("body[data-whole]")
    scan(page, "BC-0001")
    outcome(page, "recorded", "Pallet 1")
    page.evaluate("() => { window.isOld = true; }")
    later = "() => { const now = performance.now.bind(performance); performance.now = () => now() + 301000; }"
    page.evaluate(later)
    page.evaluate(in_module("tools", "renew(false)"))
    server.stop()
    monkeypatch.setattr("edge.pages.static_files.sha256", _other_hash)
    server.start()
    page.evaluate(in_module("sync", "greet()"))
    page.evaluate(in_module("tools", "renew(true)"))  # in the middle of a sweep
    page.click("#find")
    page.evaluate(in_module("tools", "renew(false)"))  # somebody looks for something
    page.click("#sheet-close")
    page.evaluate(in_module("tools", "renew(false)"))  # used a moment ago
    assert page.evaluate("() => window.isOld")
    page.evaluate(later)
    with page.expect_navigation():
        page.evaluate(in_module("tools", "renew(false)"))
    page.wait_for_selector("body[data-ready]")
    assert page.evaluate("() => !window.isOld")
    expect(page.locator("#location-name")).to_have_text("Dock 1")
    scan(page, "BC-0002")
    outcome(page, "recorded", "Pallet 2")


def _other_hash(data: bytes = b"") -> object:
    from hashlib import sha256

    return sha256(b"another version" + data)


def test_back_closes_what_is_open_and_does_not_leave_without_a_connection(scan_page: ScanPage) -> None:
    page = scan_page(expected=OFFLINE)
    page.click("#find")
    expect(page.locator("#sheet")).to_be_visible()
    page.go_back()
    expect(page.locator("#sheet")).not_to_be_visible()
    page.go_back()
    expect(page.locator("#said")).to_contain_text("Back again")
    page.context.set_offline(True)
    page.click("#find")
    page.click("#sheet-close")
    scan(page, "BC-0001")
    outcome(page, "queued", "Pallet 1")
    for _ in range(3):
        page.go_back()
        expect(page.locator("#said")).to_contain_text("this page stays open")
    assert page.url.endswith("/scan")
    scan(page, "BC-0002")
    outcome(page, "queued", "Pallet 2")


def test_leaving_without_a_connection_says_so(scan_page: ScanPage) -> None:
    page = scan_page(expected=(*OFFLINE, "401"))  # of what the page asks for while it leaves
    page.context.set_offline(True)
    page.click("#sign-out button")
    expect(page.locator("#said")).to_contain_text("you stay signed in")
    page.click(".brand")
    expect(page.locator("#said")).to_contain_text("this page stays open")
    page.context.set_offline(False)
    page.click("#sign-out button")
    page.wait_for_url("**/sign-in*")


def test_attaching_tells_where_the_thing_was(scan_page: ScanPage) -> None:
    page = scan_page("ed")
    scan(page, "BC-0009")
    outcome(page, "recorded", "Pallet 9")
    scan(page, "RACK-A")
    scan(page, "NEW-LABEL-2")
    outcome(page, "unknown", "NEW-LABEL-2")
    page.click("#acts button:has-text('Assign')")
    page.keyboard.type("ASSET-0009")
    page.keyboard.press("Enter")
    page.click(".choice-button:has-text('Pallet 9')")
    outcome(page, "recorded", "Pallet 9")
    expect(page.locator("#detail")).to_contain_text("Was at Dock 1")


def test_an_unknown_tag_that_is_taken_back_claims_no_position(scan_page: ScanPage) -> None:
    page = scan_page()
    scan(page, "NOBODY-KNOWS")
    outcome(page, "unknown", "NOBODY-KNOWS")
    page.click("#undo")
    outcome(page, "undone", "NOBODY-KNOWS")
    expect(page.locator("#state")).to_have_text("No location changed")
    assert execute("SELECT count(*) FROM unknown_tag").fetchone() == (0,)


def test_a_badge_is_read_with_any_focus_and_submits_no_unfinished_form(
    enter: Enter, open_context: Callable[..., BrowserContext], site: Site
) -> None:
    admin = enter("ada", "/people/new")
    admin.fill("#name", "Pia")
    admin.focus("#badge")
    scan(admin, "BADGE-77")
    expect(admin.locator("#pin")).to_be_focused()
    assert admin.url.endswith("/people/new")
    expect(admin.locator("#badge")).to_have_value("BADGE-77")
    badge, pin = passwords.hash_badge("BADGE-78"), passwords.hash_pin("4711", Role.OPERATOR)
    people.add_person(shell(site.organization_id), "Paul", Role.OPERATOR, badge_hash=badge, pin_hash=pin)
    _, code = devices.invite(shell(site.organization_id), "Scanner 1")
    page = open_context(viewport=PHONE).new_page()
    page.goto(f"/enrol/{code}")
    page.click("button:has-text('Enroll')")
    page.wait_for_selector("#badge")
    page.focus("button:has-text('Continue')")
    scan(page, "BADGE-78")
    expect(page.locator("h1")).to_have_text("PIN of Paul")
    with page.expect_navigation():  # until its scripts run
        page.click("text=I am not Paul")
    page.focus("#person")
    page.evaluate(SEND_KEYS, [["B", 0], ["A", 150], ["D", 300], ["G", 310]])  # a busy handheld delays the first keys
    page.keyboard.type("E-78")
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_have_text("PIN of Paul")
    with page.expect_navigation():  # until its scripts run
        page.click("text=I am not Paul")
    page.focus("#person")
    page.keyboard.press("o")
    assert page.evaluate("() => document.activeElement.selectedOptions[0].textContent") == "olga"
    page.focus("button:has-text('Continue')")
    scan(page, "BADGE-78")
    expect(page.locator("h1")).to_have_text("PIN of Paul")
    page.evaluate("() => document.activeElement.blur()")
    page.keyboard.type("4711", delay=100)
    page.keyboard.press("Enter")
    page.wait_for_selector("body[data-ready]")


def test_an_enrollment_code_opens_from_any_field(open_context: Callable[..., BrowserContext], site: Site) -> None:
    _, code = devices.invite(shell(site.organization_id), "Scanner 1")
    page = open_context(viewport=PHONE).new_page()
    page.goto("/sign-in")
    expect(page.locator("#email")).to_be_focused()
    scan(page, f"http://box.lan:8080/enrol/{code}")
    page.click("button:has-text('Enroll')")
    expect(page.locator("#badge")).to_be_focused()
    _, other = devices.invite(shell(site.organization_id), "Scanner 2")
    scan(page, f"http://box.lan:8080/enrol/{other}")
    expect(page.locator("h1")).to_contain_text("Scanner 2")


def with_badges(open_context: Callable[..., BrowserContext], site: Site) -> Page:
    """Pia and Paul have badges, and Pia is signed in on an enrolled device at dock 1."""
    for name, badge in (("Pia", "BADGE-77"), ("Paul", "BADGE-78")):
        given = {"badge_hash": passwords.hash_badge(badge), "badge_mark": passwords.badge_mark(badge)}
        people.add_person(shell(site.organization_id), name, Role.OPERATOR, **given)
    _, code = devices.invite(shell(site.organization_id), "Scanner 1")
    page = open_context(viewport=PHONE, expected=OFFLINE).new_page()
    page.goto(f"/enrol/{code}")
    page.click("button:has-text('Enroll')")
    expect(page.locator("#badge")).to_be_focused()
    scan(page, "BADGE-77")
    page.wait_for_selector("body[data-copied]")
    scan(page, "DOCK-1")
    expect(page.locator("#who")).to_contain_text("Pia")
    return page


def test_a_badge_on_the_scan_page_switches_the_person_and_is_not_stored(
    open_context: Callable[..., BrowserContext], site: Site
) -> None:
    page = with_badges(open_context, site)
    page.evaluate(
        """() => {
          window.written = [];
          for (const [what, name] of [[Storage.prototype, "setItem"], [IDBObjectStore.prototype, "add"],
            [IDBObjectStore.prototype, "put"]]) {
            const write = what[name];
            what[name] = function (...given) { written.push(JSON.stringify(given)); return write.apply(this, given); };
          }
        }"""
    )
    page.context.set_offline(True)
    scan(page, "BADGE-78")
    outcome(page, "refused", "This may be a badge")
    scan(page, "NOBODY-KNOWS")
    outcome(page, "queued", "NOBODY-KNOWS")
    written = str(page.evaluate("written"))
    assert "NOBODY-KNOWS" in written
    assert "BADGE" not in written
    page.context.set_offline(False)
    expect(page.locator("#link")).to_have_text("All saved")
    scan(page, "BADGE-78")
    expect(page.locator("#who")).to_contain_text("Paul")
    assert "BADGE" not in str(page.evaluate("() => JSON.stringify(localStorage)"))
    assert execute("SELECT code FROM handheld_scan").fetchall() == [("NOBODY-KNOWS",)]
    assert execute("SELECT value FROM unknown_tag").fetchall() == [("NOBODY-KNOWS",)]


def test_what_follows_a_badge_belongs_to_its_owner(open_context: Callable[..., BrowserContext], site: Site) -> None:
    page = with_badges(open_context, site)
    asked: list[Route] = []
    page.route("**/scan/badge", lambda route: asked.append(route))
    scan(page, "BADGE-78")
    scan(page, "RACK-A")
    scan(page, "BC-0001")
    page.wait_for_function("() => JSON.parse(localStorage.getItem('edge-caught')).length === 2")
    signed_in: list[Route] = []
    page.route("**/sign-in?next=/scan", lambda route: signed_in.append(route))
    with page.expect_request("**/sign-in?next=/scan"):
        asked[0].continue_()
    page.keyboard.type("BC-0002", delay=5)  # the page that is left still takes it
    page.keyboard.press("Enter")
    signed_in[0].continue_()
    expect(page.locator("#who")).to_contain_text("Paul")
    expect(page.locator(".station[data-outcome=recorded] #thing")).to_have_text("Pallet 2")
    expect(page.locator("#link")).to_have_text("All saved")
    made = execute(
        "SELECT scan.code, person.name, location.name FROM handheld_scan scan JOIN person ON person.id = person_id "
        "JOIN location ON location.id = location_id ORDER BY scan.observed_at"
    )
    assert made.fetchall() == [("BC-0001", "Paul", "Rack A"), ("BC-0002", "Paul", "Rack A")]


def test_without_an_answer_about_a_badge_the_scans_after_it_wait_only_seconds(
    open_context: Callable[..., BrowserContext], site: Site
) -> None:
    page = with_badges(open_context, site)
    silent: list[Route] = []
    page.route("**/scan/badge", lambda route: silent.append(route))
    scan(page, "BADGE-78")
    scan(page, "BC-0002")
    expect(page.locator(".station[data-outcome=recorded] #thing")).to_have_text("Pallet 2")
    assert len(silent) == 1
    silent[0].fulfill(json={"badge": False})
    assert execute("SELECT code FROM handheld_scan").fetchall() == [("BC-0002",)]


def test_a_code_that_enrols_a_device_is_no_tag(scan_page: ScanPage, site: Site) -> None:
    page = scan_page()
    _, code = devices.invite(shell(site.organization_id), "Scanner 1")
    scan(page, f"http://box.lan:8080/enrol/{code}")
    expect(page.locator("h1")).to_contain_text("Scanner 1")
    page.goto("/scan")
    page.wait_for_selector("body[data-ready]")
    assert scans_by_people() == 0
    assert code not in str(page.evaluate("() => JSON.stringify(localStorage)"))


def test_a_browser_of_android_8_is_new_enough(open_context: Callable[..., BrowserContext], site: Site) -> None:
    context = open_context(viewport=PHONE)
    context.add_init_script(f"({NEWER})()")
    page = context.new_page()
    page.goto("/sign-in?next=/scan")
    page.fill("#email", "ed@nord.example")
    page.fill("#password", PASSWORD)
    page.click("button:has-text('Sign in')")
    page.wait_for_selector("body[data-ready]")
    scan(page, "DOCK-1")
    scan(page, "BC-0001")
    outcome(page, "recorded", "Pallet 1")
    scan(page, "http://box/l/NO-SUCH")
    scan(page, "BC-0002")
    page.click("#held")
    page.click("button:has-text('Choose the location')")
    page.click(".choice-button:has-text('Rack A')")
    scan(page, "NOBODY")
    page.click("#acts button:text-is('New asset')")
    page.click("#sheet button:text-is('Save')")
    outcome(page, "recorded", "Asset NOBODY")
    page.click("#find")
    scan(page, "BC-0001")
    expect(page.locator(".found-location")).to_have_text("Dock 1")
    page.click("#sheet-close")
    page.click("#undo")
    outcome(page, "undone", "Asset NOBODY")
    page.click("#count")
    expect(page.locator(".list-count")).to_contain_text("1 scan")


def test_without_scripts_the_page_says_so_in_a_sentence(
    enter: Enter, open_context: Callable[..., BrowserContext]
) -> None:
    state = enter("olga", "/scan").context.storage_state()
    page = open_context(java_script_enabled=False, storage_state=state).new_page()
    page.goto("/scan")
    expect(page.locator("text=This page cannot run here")).to_be_visible()


def test_a_reload_while_the_device_is_behind_loses_nothing(scan_page: ScanPage) -> None:
    """Codes that were caught and not kept yet come back, each once."""
    page = scan_page()
    page.evaluate(
        """() => {
          const press = (key) => document.body.dispatchEvent(
            new KeyboardEvent("keydown", {key, bubbles: true, cancelable: true}));
          for (let number = 1; number <= 60; number++) {
            for (const key of `BC-${String(number).padStart(4, "0")}`) press(key);
            press("Enter");
          }
          location.reload();
        }"""
    )
    expect(page.locator("#count-total")).to_have_text("60")
    expect(page.locator("#link")).to_have_text("All saved")
    assert (scans_by_people(), scanned_assets()) == (60, 60)


def test_what_is_scanned_while_the_page_still_loads_is_kept(scan_page: ScanPage, site: Site) -> None:
    page = scan_page(service_workers="block", expected=("Service Worker",))
    held: list[Route] = []
    page.route("**/main.js", lambda route: held.append(route))
    page.reload(wait_until="commit")
    page.wait_for_selector("body[data-listening]")
    for number in (1, 2, 3):
        scan(page, f"BC-{number:04}")
    held[0].continue_()
    outcome(page, "recorded", "Pallet 3")
    expect(page.locator("#count-total")).to_have_text("3")
    expect(page.locator("#link")).to_have_text("All saved")
    assert (scans_by_people(), scanned_assets()) == (3, 3)


def test_a_scan_that_is_not_on_the_open_list_says_so(scan_page: ScanPage, site: Site) -> None:
    """Regression: it was as green as one on the list."""
    codes = ["BC-0001", "BC-0002"]
    expected_lists.create(shell(site.organization_id), "Truck 12", codes, location_id=site.docks[0].id)
    page = scan_page()
    page.wait_for_selector("body[data-copied]")
    scan(page, "DOCK-1")
    page.click("#jobs")
    page.get_by_role("button", name="Expected list").click()
    page.click("text=Truck 12")
    expect(page.locator("#expected")).to_have_text("Truck 12: 0 of 2")
    scan(page, "BC-0001")
    outcome(page, "recorded", "Pallet 1")
    scan(page, "BC-0003")
    outcome(page, "surplus", "Pallet 3")
    expect(page.locator("#word")).to_have_text("Not on the list")
    expect(page.locator("#state")).to_have_text("Saved on the server")
