"""Scanners that type, insert or paste, and keyboards of another country."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from edge.audit.actors import shell
from edge.database.connection import execute
from edge.pages.handhelds.scan import TEST_CODE
from edge.records import assets
from edge.records.tags import NewTag
from tests.browser.conftest import ACCEPTS, PHONE, Site, outcome, scan
from tests.observed import scans_by_people

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
    assert scans_by_people() == 1


def test_keys_and_inserted_text_keep_their_order(scan_page: ScanPage) -> None:
    page = scan_page()
    page.keyboard.type("T:\u00fcmlaut-\u00e41")  # letters without a key on this keyboard are inserted
    page.keyboard.press("Enter")
    outcome(page, "unknown", "T:\u00fcmlaut-\u00e41")


@pytest.mark.parametrize("stall", [400, 900])
def test_a_stall_does_not_divide_the_first_code_after_a_reload(scan_page: ScanPage, site: Site, stall: int) -> None:
    page = scan_page()
    page.reload(wait_until="commit")
    page.wait_for_function(ACCEPTS)
    for first, rest in (("RAC", "K-A"), ("BC-0", "002")):
        page.keyboard.type(first)
        page.wait_for_timeout(stall)  # the scanner hangs
        page.keyboard.type(rest)
        page.keyboard.press("Enter")
    outcome(page, "recorded", "Pallet 2")
    expect(page.locator("#link")).to_have_text("All saved")
    rows = execute("SELECT code, external_key FROM handheld_scan JOIN location ON location.id = location_id").fetchall()
    assert rows == [("BC-0002", "RACK-A")]


def test_a_code_that_does_not_arrive_whole_is_refused(scan_page: ScanPage) -> None:
    page = scan_page()
    page.keyboard.type("BC-0")
    outcome(page, "refused", "BC-0")
    expect(page.locator("#detail")).to_contain_text("Incomplete code")
    scan(page, "002")
    outcome(page, "refused", "002")
    scan(page, "BC-0002")
    outcome(page, "recorded", "Pallet 2")
    assert scans_by_people() == 1


def test_after_a_part_of_a_label_nothing_is_saved_at_the_location_before(scan_page: ScanPage) -> None:
    page = scan_page()
    page.keyboard.type("RACK-")
    outcome(page, "refused", "RACK-")
    scan(page, "B")
    expect(page.locator("#location-name")).to_have_text("No location yet")
    scan(page, "BC-0002")
    outcome(page, "refused", "Scan a location first")
    scan(page, "RACK-B")
    scan(page, "BC-0002")
    outcome(page, "recorded", "Pallet 2")
    expect(page.locator("#link")).to_have_text("All saved")
    rows = execute("SELECT code, external_key FROM handheld_scan JOIN location ON location.id = location_id").fetchall()
    assert rows == [("BC-0002", "RACK-B")]


def type_quickly(page: Page, text: str, end: str = "Enter") -> None:
    """Press keys 5 ms apart, independent of the load of the machine."""
    session, moment = page.context.new_cdp_session(page), time.time()
    for at, key in enumerate([*text, *([end] if end else [])]):
        content = {"text": "\r"} if key == "Enter" else {"text": key}
        for kind in ("keyDown", "keyUp"):
            event = {"type": kind, "key": key, "timestamp": moment + at * 0.005}
            session.send("Input.dispatchKeyEvent", {**event, **(content if kind == "keyDown" else {})})


def test_a_scan_into_a_field_is_a_scan(scan_page: ScanPage) -> None:
    page = scan_page("ed")
    scan(page, "NEW-LABEL-1")
    outcome(page, "unknown", "NEW-LABEL-1")
    page.click("#acts button:text-is('New asset')")
    page.focus("#asked")
    type_quickly(page, "BC-0005")
    outcome(page, "recorded", "Pallet 5")
    expect(page.locator("#sheet")).not_to_be_visible()
    page.click("#location")
    page.focus("#asked")
    type_quickly(page, "http://box.local/l/RACK-B")
    expect(page.locator("#location-name")).to_have_text("Rack B")
    page.click("#location")
    page.focus("#asked")
    type_quickly(page, "BC-0006", end="")
    outcome(page, "recorded", "Pallet 6")
    page.click("#menu summary")
    page.focus("#language")
    scan(page, "DOCK-1")
    expect(page.locator("#location-name")).to_have_text("Dock 1")
    assert execute("SELECT count(*) FROM asset").fetchone() == (200,)


def test_a_paste_is_a_scan(scan_page: ScanPage) -> None:
    page = scan_page(permissions=["clipboard-read", "clipboard-write"])
    page.evaluate("() => navigator.clipboard.writeText('BC-0001\\nBC-0002')")
    page.keyboard.press("Control+V")
    outcome(page, "recorded", "Pallet 2")
    expect(page.locator("#count-total")).to_have_text("2")


NUMBERS = """([text, isInserted]) => {
  const catcher = document.getElementById("catcher");
  const press = (type, key, code, altKey) =>
    catcher.dispatchEvent(new KeyboardEvent(type, { key, code, altKey, bubbles: true, cancelable: true }));
  for (const letter of text) {
    press("keydown", "Alt", "AltLeft", true);
    for (const digit of String(letter.charCodeAt(0)).padStart(4, "0")) press("keydown", digit, `Numpad${digit}`, true);
    press("keyup", "Alt", "AltLeft", false);
    if (!isInserted || letter < " ") continue;
    catcher.value += letter;
    catcher.dispatchEvent(new InputEvent("input", { inputType: "insertText", data: letter, bubbles: true }));
  }
  press("keydown", "Enter", "Enter", false);
}"""


# Keys without a pause, which a busy machine would make so long that they are a person's.
AT_ONCE = """(keys) => {
  const target = document.activeElement;
  for (const key of keys) {
    const [name, ctrlKey] = key === "Control+]" ? ["]", true] : [key, false];
    target.dispatchEvent(new KeyboardEvent("keydown", { key: name, ctrlKey, bubbles: true, cancelable: true }));
  }
}"""


def numbers(page: Page, text: str, *, is_inserted: bool) -> None:
    """A scanner in ALT mode. Windows inserts the characters, other systems do not."""
    page.evaluate(NUMBERS, [text, is_inserted])


def marked(site: Site) -> None:
    tag = NewTag("barcode", "(01)09506000134352(21)ABC")
    assets.attach_tag(shell(site.organization_id), site.assets[0].id, tag)


@pytest.mark.parametrize("is_inserted", [True, False])
def test_a_scanner_in_alt_mode(scan_page: ScanPage, site: Site, is_inserted: bool) -> None:
    marked(site)
    page = scan_page()
    numbers(page, "BC-0002", is_inserted=is_inserted)
    outcome(page, "recorded", "Pallet 2")
    numbers(page, "]C1010950600013435210LOT\x1d21ABC", is_inserted=is_inserted)
    outcome(page, "recorded", "Pallet 1")


@pytest.mark.parametrize("is_in_field", [False, True])
@pytest.mark.parametrize("separator", ["Control+]", "F8", "<GS>", "{GS}", "^]", "|", "~"])
def test_every_separator_of_a_gs1_code(scan_page: ScanPage, site: Site, separator: str, is_in_field: bool) -> None:
    marked(site)
    page = scan_page()
    if is_in_field:
        page.click("#location")
        page.focus("#asked")
    keys = [separator] if separator in ("Control+]", "F8") else list(separator)
    page.evaluate(AT_ONCE, [*"]C1010950600013435210LOT", *keys, *"21ABC", "Enter"])
    outcome(page, "recorded", "Pallet 1")


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
    page.wait_for_selector("#raw", state="attached")
    german(page, f"ZZ-{TEST_CODE}-Y")
    expect(page.locator("#profile")).to_contain_text("prefix “ZZ-” is removed")
    expect(page.locator("#profile")).to_contain_text("as a US keyboard")
    page.click("#sheet-close")
    page.reload()
    page.wait_for_selector("body[data-ready]")
    page.wait_for_function(ACCEPTS)
    german(page, "ZZ-BC-0001-Y")
    outcome(page, "recorded", "Pallet 1")


def test_the_test_code_is_shown_to_scan(enter: Enter) -> None:
    page = enter("olga", "/scan/test-code")
    expect(page.locator(".label-sheet svg")).to_be_visible()
    expect(page.locator("code")).to_have_text(TEST_CODE)


def test_a_known_code_teaches_the_layout_of_the_scanner(scan_page: ScanPage) -> None:
    page = scan_page()
    german(page, "BC-0001")
    outcome(page, "recorded", "Pallet 1")
    german(page, "NEW-YZ")
    outcome(page, "unknown", "NEW-YZ")


def test_a_known_code_teaches_the_layout_though_longer_codes_begin_with_it(scan_page: ScanPage, site: Site) -> None:
    for asset, value in zip(site.assets, ("YZ-1", "YZ-12"), strict=False):
        assets.attach_tag(shell(site.organization_id), asset.id, NewTag("barcode", value))
    page = scan_page()
    german(page, "YZ-1")
    outcome(page, "recorded", "Pallet 1")


def test_a_first_code_that_the_keyboard_may_have_changed_says_what_to_do(scan_page: ScanPage) -> None:
    page = scan_page()
    page.evaluate("() => localStorage.removeItem('edge-scanner')")
    page.reload()
    page.wait_for_selector("body[data-ready]")
    page.wait_for_function(ACCEPTS)
    german(page, "NEW-YZ")
    outcome(page, "unknown", "NEWßZY")
    expect(page.locator("#said")).to_have_text("If the printed code is different, tap Menu, then “Test my scanner”")


def test_caps_lock_is_named_with_an_unknown_code(scan_page: ScanPage) -> None:
    page = scan_page()
    page.evaluate(
        """() => {
          for (const key of [..."new-77", "Enter"]) {
            document.body.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, modifierCapsLock: true }));
          }
        }"""
    )
    outcome(page, "unknown", "new-77")
    expect(page.locator("#said")).to_have_text("Caps Lock is on and may have changed this code")


def test_digits_of_alt_are_forgotten_if_its_end_goes_to_another_window(scan_page: ScanPage) -> None:
    page = scan_page()
    page.evaluate(
        """() => {
          const key = { key: "7", code: "Numpad7", altKey: true, bubbles: true };
          document.body.dispatchEvent(new KeyboardEvent("keydown", key));
          dispatchEvent(new Event("blur"));
        }"""
    )
    numbers(page, "BC-0002", is_inserted=False)
    outcome(page, "recorded", "Pallet 2")
