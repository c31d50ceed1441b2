"""The handheld in other languages: nothing stays English, plurals are right, the choice is kept, also offline."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from edge.audit.actors import shell
from edge.pages import translation
from edge.people import devices
from tests.browser.conftest import PHONE, Server, Site, outcome, scan

pytestmark = pytest.mark.browser
ScanPage = Callable[..., Page]
OFFLINE = ("ERR_INTERNET_DISCONNECTED", "ERR_CONNECTION_REFUSED")

# Allowed without translation: names, keys, codes, numbers and times, and the names of languages.
DATA = r"""/^(?:[\d\s·.,:;%✓=?✕↑◆≠◇↶()+-]|ago|min|h|d|s|edge|olga|otto|vic|ed|Pallet|Dock|Rack|Hall|HALL-1|[ABC]|
BC-\d+|ASSET-\d+|NOBODY-KNOWS|NO-SUCH|http|box|local|\/|l|Scanner|Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec|
English|Deutsch|Español|Français|Polski)*$/""".replace("\n", "")
UNTRANSLATED = (
    "() => { const found = []; const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);"
    "while (walk.nextNode()) { const node = walk.currentNode; const parent = node.parentElement;"
    "if (parent.closest('script, style, noscript') || !node.data.trim()) continue;"
    "let text = node.data; for (let i = 0; i < 5; i++) text = text.replace(/⟦[^⟦⟧]*⟧/g, '');"
    f"if (!{DATA}.test(text)) found.push(node.data); }}"
    "for (const one of document.querySelectorAll('[aria-label]')) {"
    "if (!one.getAttribute('aria-label').includes('⟦')) found.push(one.getAttribute('aria-label')); }"
    "return found; }"
)


class Bracketed:
    """A language with each text in brackets. A text without brackets is not translated."""

    def gettext(self, text: str) -> str:
        return f"⟦{text}⟧"

    def ngettext(self, one: str, many: str, number: int) -> str:
        return f"⟦{one if number == 1 else many}⟧"


@pytest.fixture
def bracketed(monkeypatch: pytest.MonkeyPatch) -> None:
    real = translation.texts_of_scripts

    def texts_of_scripts(_language: str) -> dict[str, Any]:
        return {
            key: f"⟦{key}⟧" if isinstance(value, str) else [f"⟦{key}⟧", f"⟦{key}⟧"] for key, value in real("de").items()
        }

    monkeypatch.setattr(translation, "catalog", lambda _language: Bracketed())
    monkeypatch.setattr(translation, "texts_of_scripts", texts_of_scripts)


class Eyes:
    """Looks at a page again and again, and notes by the name of the moment which texts were forgotten."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.forgotten: dict[str, list[str]] = {}

    def look(self, moment: str) -> None:
        if texts := self.page.evaluate(UNTRANSLATED):
            self.forgotten[moment] = texts


def test_every_text_of_the_handheld_is_translated(
    bracketed: None, server: Server, site: Site, open_context: Callable[..., BrowserContext]
) -> None:
    server.stop()
    server.start()  # with those texts
    _, code = devices.invite(shell(site.organization_id), "Scanner 1")
    eyes = Eyes(open_context(viewport=PHONE, expected=(*OFFLINE, "403")).new_page())
    sign_in(eyes, code)
    scan_whatever_there_is(eyes)
    open_every_sheet(eyes)
    do_every_job(eyes)
    take_stock_and_take_back(eyes)
    lose_the_connection(eyes)
    eyes.page.goto("/scan/test-code")
    assert eyes.page.inner_text("main h1") == "⟦Test code for scanners⟧"
    assert eyes.forgotten == {}


def sign_in(eyes: Eyes, code: str) -> None:
    page = eyes.page
    page.goto("/sign-in")
    eyes.look("sign-in")
    page.goto(f"/enrol/{code}")
    eyes.look("enrol")
    page.click("button")
    page.wait_for_selector("#badge")
    eyes.look("badge")
    scan(page, "NOBODY-KNOWS")
    page.wait_for_selector("[role=alert]")
    eyes.look("refused")
    page.goto("/sign-in?password=1&next=/scan")
    page.fill("#email", "ed@nord.example")
    page.fill("#password", "correct horse battery")
    page.keyboard.press("Enter")
    page.wait_for_selector("body[data-copied]")
    eyes.look("ready")


def scan_whatever_there_is(eyes: Eyes) -> None:
    scan(eyes.page, "BC-0001")
    eyes.look("no location")
    for code in ("DOCK-1", "BC-0001", "NOBODY-KNOWS", "http://box.local/l/NO-SUCH", "BC-0002"):
        scan(eyes.page, code)
        eyes.page.wait_for_timeout(300)
        eyes.look(code)


def open_every_sheet(eyes: Eyes) -> None:
    page = eyes.page
    for opener, item in (
        *(("#find", ""), ("#location", ""), ("#held", ""), ("#jobs", "")),
        ("#menu summary", "⟦Test my scanner⟧"),
    ):
        page.click(opener)
        if item:
            page.click(f"text={item}")
        page.wait_for_selector("#sheet[open]")
        page.wait_for_timeout(300)
        eyes.look(opener + item)
        page.click("#sheet-close")


def do_every_job(eyes: Eyes) -> None:
    """The last one begins to check a location."""
    page = eyes.page
    scan(page, "DOCK-1")
    for item in ("What is here?", "Move everything", "Empty a carrier", "Start a stock-take"):
        page.click("#jobs")
        page.click(f"text=⟦{item}⟧")
        page.wait_for_timeout(500)
        eyes.look(item)
        if item != "Start a stock-take":
            page.click("#sheet-close")
    page.click("#sheet button.wide:has-text('Start at')")


def take_stock_and_take_back(eyes: Eyes) -> None:
    page = eyes.page
    scan(page, "BC-0003")
    page.click("#take")
    eyes.look("take")
    page.click("#sheet button:has-text('Sign off')")
    eyes.look("sign-off")
    page.click("#sheet-close")
    page.click("#count")
    eyes.look("count")
    page.click("#sheet-close")
    page.click("#undo")
    page.wait_for_timeout(300)
    eyes.look("undo")


def lose_the_connection(eyes: Eyes) -> None:
    page = eyes.page
    page.context.set_offline(True)
    page.wait_for_timeout(300)
    eyes.look("offline")
    page.context.set_offline(False)


def test_polish_counts_as_poles_do(scan_page: ScanPage, site: Site) -> None:
    page = scan_page(locale="pl", viewport=PHONE)
    told = []
    for number in range(1, 6):
        scan(page, f"BC-{number:04}")
        outcome(page, "recorded", f"Pallet {number}")
        expect(page.locator("#count-total")).to_have_text(str(number))
        told.append(page.inner_text("#count-detail"))
    assert told == ["skan", "skany", "skany", "skany", "skanów"]
    expect(page.locator("#link")).to_have_text("Wszystko zapisane")
    expect(page.locator("#detail")).to_have_text("Nigdy wcześniej nie widziane")


def test_a_person_chooses_a_language_that_stays_also_without_a_connection(scan_page: ScanPage, server: Server) -> None:
    page = scan_page(viewport=PHONE, expected=OFFLINE)
    page.evaluate("() => navigator.serviceWorker.ready")
    page.reload()
    page.wait_for_function("() => navigator.serviceWorker.controller")
    page.wait_for_selector("body[data-ready]")
    page.click("#menu summary")
    page.select_option("#language", "de")
    expect(page.locator("#undo")).to_have_text("Rückgängig")
    page.wait_for_selector("body[data-ready]")
    server.stop()
    page.reload()
    page.wait_for_selector("body[data-ready]")
    expect(page.locator("#undo")).to_have_text("Rückgängig")
    scan(page, "BC-0001")
    outcome(page, "queued", "Pallet 1")
    expect(page.locator("#link")).to_have_text("Offline · 1 gemerkt")
    page.click("#menu summary")
    page.select_option("#language", "fr")
    expect(page.locator("#said")).to_contain_text("Keine Verbindung")


def test_the_sign_in_page_offers_the_languages(open_context: Callable[..., BrowserContext], site: Site) -> None:
    page = open_context(viewport=PHONE, locale="es").new_page()
    page.goto("/sign-in?next=/scan")
    expect(page.locator("h1")).to_have_text("Iniciar sesión")
    page.click("text=Polski")
    expect(page.locator("h1")).to_have_text("Zaloguj się")
    assert page.url.endswith("/sign-in?next=/scan")
