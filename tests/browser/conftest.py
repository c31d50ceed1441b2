"""The real thing: pages served by waitress, opened in Debian's Chromium."""

from __future__ import annotations

import contextlib
import secrets
import shutil
import threading
from collections.abc import Callable, Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser as Chromium
from playwright.sync_api import BrowserContext, Page, expect, sync_playwright
from waitress.server import create_server

from edge import clock
from edge.audit import actors
from edge.audit.actors import shell
from edge.database.connection import close_database, execute
from edge.pages import cookies
from edge.people import organizations, people, sessions
from edge.people.passwords import hash_password
from edge.people.people import Role
from edge.people.secrets import hash_secret, new_token
from edge.records import assets, locations
from edge.records.assets import AssetRow
from edge.records.locations import LocationRow
from edge.records.tags import NewTag
from tests.application import make_app
from tests.databases import Files, copy_files, files_of

# Debian's build of Chromium without windows, if it is installed: the same engine with a third less processor time.
CHROMIUM = shutil.which("chromium-headless-shell") or shutil.which("chromium") or ""
ARGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--host-resolver-rules=MAP box.lan 127.0.0.1",  # a name that is not localhost: no secure context on plain http
]
PASSWORD = "correct horse battery"
# Of every wait in these tests, in ms. The machine may be busy, so a wait measures nothing: no test sets a shorter one.
PATIENCE = 60_000
expect.set_options(timeout=PATIENCE)
PHONE = {"width": 360, "height": 740}


class Server:
    """The web app on a port of its own, that can be stopped and started again like after a restart of the box."""

    def __init__(self) -> None:
        self._port = 0
        self.start()

    def start(self) -> None:
        app = make_app(rate_per_second=10_000)
        self._server = create_server(app, host="127.0.0.1", port=self._port, threads=4, ident=None)
        self._port = self._server.effective_port
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):  # its sockets are closed under it, as by a restart
            self._server.run()

    def stop(self) -> None:
        self._server.close()
        self._server.task_dispatcher.shutdown(timeout=2)
        for channel in list(self._server._map.values()):
            channel.close()
        self._thread.join(5)

    @property
    def url(self) -> str:
        return f"http://localhost:{self._port}"


class Site:
    """A warehouse with six locations and two hundred assets; every asset has a barcode `BC-0001` and so on."""

    def __init__(self) -> None:
        self.organization_id = organizations.add_organization(shell(), "Nordhafen").id
        hall = self._location("Hall 1", "HALL-1", None)
        self.docks = [self._location(f"Dock {number}", f"DOCK-{number}", hall) for number in (1, 2)]
        self.racks = [self._location(f"Rack {letter}", f"RACK-{letter}", hall) for letter in "ABC"]
        self.assets: list[AssetRow] = [
            assets.create(
                shell(self.organization_id), name=f"Pallet {number}", tags=[NewTag("barcode", f"BC-{number:04}")]
            )
            for number in range(1, 201)
        ]
        hashed = hash_password(PASSWORD)
        for name, role in (
            ("ada", Role.ADMINISTRATOR),
            ("ed", Role.EDITOR),
            ("olga", Role.OPERATOR),
            ("otto", Role.OPERATOR),
            ("vic", Role.VIEWER),
        ):
            people.add_person(
                shell(self.organization_id), name, role, email=f"{name}@nord.example", password_hash=hashed
            )

    def _location(self, name: str, key: str, parent: LocationRow | None) -> LocationRow:
        above = parent.id if parent else None
        return locations.create(shell(self.organization_id), name=name, external_key=key, parent_id=above)


@pytest.fixture(scope="session")
def database_with_site(tmp_path_factory: pytest.TempPathFactory, new_database: Files) -> tuple[Files, Site]:
    """Making 200 assets takes longer than most tests, so each test gets a copy."""
    folder = tmp_path_factory.mktemp("site")
    copy_files(new_database, folder)
    site = Site()
    return files_of(folder), site


@pytest.fixture
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Server]:
    if "site" in request.fixturenames:
        files, _ = request.getfixturevalue("database_with_site")
    else:
        files = request.getfixturevalue("new_database")
    copy_files(files, tmp_path)
    running = Server()
    yield running
    running.stop()
    close_database()


@pytest.fixture
def site(server: Server, database_with_site: tuple[Files, Site]) -> Site:
    """A warehouse that is in the database from the start."""
    return deepcopy(database_with_site[1])


@pytest.fixture(scope="session")
def chromium() -> Iterator[Chromium]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGS)
        yield browser
        browser.close()


def new_context(browser: Chromium, **options: Any) -> BrowserContext:
    """Open a separate browser whose waits are as patient as all others."""
    context = browser.new_context(**options)
    context.set_default_timeout(PATIENCE)
    return context


@pytest.fixture
def open_context(chromium: Chromium, server: Server) -> Iterator[Callable[..., BrowserContext]]:
    """Open a separate browser for each person. Errors and warnings in its console fail the test."""
    opened: list[BrowserContext] = []
    complaints: list[str] = []

    def make(**options: Any) -> BrowserContext:
        expected = tuple(options.pop("expected", ()))
        context = new_context(chromium, **{"base_url": server.url, **options})

        def hear(text: str) -> None:
            if not any(part in text for part in expected):
                complaints.append(text)

        context.on("console", lambda message: message.type in ("error", "warning") and hear(message.text))
        context.on("weberror", lambda error: hear(str(error.error)))
        opened.append(context)
        return context

    yield make
    for context in opened:
        context.close()
    assert complaints == []


def session(site: Site, name: str) -> dict[str, str]:
    """Sign in without the form, which takes as long as many tests. Returns the cookies."""
    [(person_id,)] = execute("SELECT id FROM person WHERE email = ?", (f"{name}@nord.example",)).fetchall()
    token = new_token()
    person = actors.person(site.organization_id, person_id, name)
    ref = sessions.add_session(person, hash_secret(token), clock.now() + 12 * clock.HOUR)
    return {cookies.SESSION: token, cookies.WHO: f"{ref}.{person_id}.{site.organization_id}"}


@pytest.fixture
def enter(open_context: Callable[..., BrowserContext], server: Server, site: Site) -> Callable[..., Page]:
    """Open a page as somebody of the site. Tests of the sign-in page itself fill in its form."""

    def sign_in(name: str, path: str = "/", **options: Any) -> Page:
        context = open_context(**options)
        address = options.get("base_url", server.url)
        context.add_cookies(
            [{"name": key, "value": value, "url": address} for key, value in session(site, name).items()]
        )
        page = context.new_page()
        page.goto(path)
        return page

    return sign_in


@pytest.fixture
def scan_page(enter: Callable[..., Page]) -> Callable[..., Page]:
    """The scan page, ready, at Dock 1."""

    def make(name: str = "olga", **options: Any) -> Page:
        page = enter(name, "/scan", **options)
        page.wait_for_selector("body[data-copied]")
        # On a busy machine the keys may come so slowly that the page takes a pause for the end of a code. Once it has
        # seen one that ended with Enter, it waits longer.
        for _ in range(5):
            scan(page, "DOCK-1")
            page.wait_for_function("() => document.getElementById('station').dataset.outcome !== 'none'")
            if page.inner_text("#location-name") == "Dock 1":
                break
        expect(page.locator("#location-name")).to_have_text("Dock 1")
        return page

    return make


# Keys that follow the load of the scan page at once may be the rest of a code, and are refused: for twice the slowest
# pause between two keys that this device has seen. On a busy machine any code may have a slow one.
ACCEPTS = """() => {
  const { slowest } = JSON.parse(localStorage.getItem("edge-scanner") || "{}");
  const pause = slowest ? Math.max(150, 2 * slowest) : 300;
  return !document.getElementById("catcher")
    || performance.now() - Number(document.body.dataset.listening || Infinity) > pause;
}"""


def scan(page: Page, code: str, end: str = "Enter", delay: float = 5) -> None:
    """As a hardware scanner does it: keys, 5 ms apart. Not at once after the page was loaded: see `assembly.js`."""
    page.wait_for_function(ACCEPTS)
    page.keyboard.type(code, delay=delay)
    if end:
        page.keyboard.press(end)


def outcome(page: Page, name: str, thing: str) -> None:
    """Wait until the large result says so."""
    expect(page.locator(f".station[data-outcome={name}] #thing")).to_have_text(thing)


def queued(page: Page) -> int:
    """How many scans the device still keeps."""
    found: int = page.evaluate(
        """() => new Promise((done) => { const r = indexedDB.open("edge-scan"); r.onsuccess = () => {
        const c = r.result.transaction("queue").objectStore("queue").count();
        c.onsuccess = () => { done(c.result); r.result.close(); } } })"""
    )
    return found


def unused() -> str:
    return secrets.token_hex(8)
