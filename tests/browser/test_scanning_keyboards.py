"""Scanners that type, insert or paste, and keyboards of another country."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from edge.pages.scan import TEST_CODE
from edge.store.database import execute
from tests.browser.conftest import PHONE, outcome

pytestmark = pytest.mark.browser


ScanPage = Callable[..., Page]


Enter = Callable[..., Page]


def insert(page: Page, text: str) -> None:
    """As an Android input method does it: no keys, the text at once."""
    session = page.context.new_cdp_session(page)
    session.send("Input.insertText", {"text": text})


@pytest.mark.parametrize("end", ["", "\n"])
def test_text_that_is_inserted_at_once_is_a_scan(scan_page: ScanPage, end: str) -> None:
    page = scan_page()
    insert(page, f"BC-0001{end}")
    outcome(page, "recorded", "Pallet 1")
    page.click("#find")
    insert(page, f"BC-0001{end}")
    expect(page.locator("#answer h3")).to_have_text("Pallet 1")
    page.click("#sheet-close")
    insert(page, f"BC-0002{end}")
    outcome(page, "recorded", "Pallet 2")


def test_text_that_an_input_method_composes_is_a_scan(scan_page: ScanPage) -> None:
    page = scan_page()
    session = page.context.new_cdp_session(page)
    for text in ("BC", "BC-00", "BC-0003"):
        session.send("Input.imeSetComposition", {"text": text, "selectionStart": len(text), "selectionEnd": len(text)})
    session.send("Input.insertText", {"text": "BC-0003"})
    outcome(page, "recorded", "Pallet 3")
    assert execute("SELECT count(*) FROM handheld_scan").fetchone() == (1,)


def test_a_paste_is_a_scan(scan_page: ScanPage) -> None:
    page = scan_page(permissions=["clipboard-read", "clipboard-write"])
    page.evaluate("() => navigator.clipboard.writeText('BC-0001\\nBC-0002')")
    page.keyboard.press("Control+V")
    outcome(page, "recorded", "Pallet 2")
    expect(page.locator("#count-total")).to_have_text("2")


def german(page: Page, text: str) -> None:
    """A scanner that types for a US keyboard, on a system that is set to a German one."""
    page.evaluate(
        """(text) => {
          const keys = {"-": ["Minus", "ß", 0], ":": ["Semicolon", "Ö", 1], "/": ["Slash", "-", 0],
            "?": ["Slash", "_", 1],
            "_": ["Minus", "?", 1], "=": ["Equal", "Dead", 0], "&": ["Digit7", "/", 1], "%": ["Digit5", "%", 1],
            "+": ["Equal", "`", 1], "#": ["Digit3", "§", 1], "(": ["Digit9", ")", 1], ")": ["Digit0", "=", 1],
            ";": ["Semicolon", "ö", 0], ".": ["Period", ".", 0]};
          const swapped = {y: "z", z: "y", Y: "Z", Z: "Y"};
          const press = (code, key, shiftKey) => document.activeElement.dispatchEvent(
            new KeyboardEvent("keydown", {code, key, shiftKey, bubbles: true, cancelable: true}));
          for (const letter of text) {
            if (keys[letter]) press(keys[letter][0], keys[letter][1], Boolean(keys[letter][2]));
            else if (/[0-9]/.test(letter)) press(`Digit${letter}`, letter, false);
            else press(`Key${letter.toUpperCase()}`, swapped[letter] || letter, letter !== letter.toLowerCase());
          }
          press("Enter", "Enter", false);
        }""",
        text,
    )


def test_a_label_typed_for_another_keyboard_is_repaired(scan_page: ScanPage) -> None:
    page = scan_page()
    german(page, "http://box.local/l/RACK-A")
    expect(page.locator("#location-name")).to_have_text("Rack A")
    german(page, "ASSET-0001")
    outcome(page, "recorded", "Pallet 1")


def test_the_test_code_teaches_prefix_suffix_and_keyboard(scan_page: ScanPage) -> None:
    page = scan_page(viewport=PHONE)
    german(page, "ZZ-BC-0001-Y")
    page.wait_for_selector(".station[data-outcome=unknown]")
    page.click("#menu summary")
    page.click("#test")
    german(page, f"ZZ-{TEST_CODE}-Y")
    expect(page.locator("#profile")).to_contain_text("“ZZ-” in front is taken off")
    expect(page.locator("#profile")).to_contain_text("as on a US keyboard")
    page.click("#sheet-close")
    page.reload()
    page.wait_for_selector("body[data-ready]")
    german(page, "ZZ-BC-0001-Y")
    outcome(page, "recorded", "Pallet 1")


def test_the_test_code_is_shown_to_scan(enter: Enter) -> None:
    page = enter("olga", "/scan/test-code")
    expect(page.locator(".label-sheet svg")).to_be_visible()
    expect(page.locator("code")).to_have_text(TEST_CODE)
