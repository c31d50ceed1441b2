"""A note, a photo and a label from the scan page, without a connection, on a device that is full, in a hurry."""

from __future__ import annotations

import io
from collections.abc import Callable

import pytest
from PIL import Image
from playwright.sync_api import Page, expect

from edge.audit.actors import shell
from edge.database.connection import execute
from edge.labels import printers
from edge.labels.printers import LabelPrinter
from edge.records import assets
from tests.browser.accessibility import faults
from tests.browser.conftest import Server, Site, outcome, scan
from tests.browser.full import fill_storage, limit_storage
from tests.browser.test_sweeps import BROKEN, SMALL, recorded, saved, shot

pytestmark = pytest.mark.browser
ScanPage = Callable[..., Page]


FULL = "its storage is full. Delete files or apps"

FILL_FIRST = """() => {
  let text = "x".repeat(1 << 20);
  for (let no = 0; text; no++) {
    try { localStorage.setItem(`junk${no}`, text); } catch { text = text.slice(1 + text.length / 2); }
  }
}"""


def picture(width: int = 3000, height: int = 2000) -> bytes:
    out = io.BytesIO()
    notes = Image.Exif()
    notes[0x010F] = "SECRETMAKER"
    Image.linear_gradient("L").resize((width, height)).convert("RGB").save(out, "JPEG", exif=notes.tobytes())
    return out.getvalue()


def open_about(page: Page) -> None:
    page.click("#jobs")
    page.click("text=Note, photo or label")
    expect(page.locator("#sheet-title")).to_have_text("Pallet 1")


def take_photo(page: Page, content: bytes, name: str = "photo.jpg") -> None:
    open_about(page)
    page.set_input_files("#photo-file", {"name": name, "mimeType": "image/jpeg", "buffer": content})


def test_a_note_a_photo_and_a_label_wait_for_the_connection(
    scan_page: ScanPage, site: Site, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    printed: list[str] = []
    monkeypatch.setattr("edge.labels.printers.send", lambda address, *_: printed.append(address))
    hall = execute("SELECT id FROM location WHERE external_key = 'HALL-1'").fetchone()[0]
    printers.set_printer(shell(site.organization_id), LabelPrinter("10.0.0.2:9100", "roll-102x51", 8), hall)
    page = scan_page(viewport=SMALL, expected=BROKEN)
    page.evaluate("() => navigator.serviceWorker.ready")
    page.reload()
    page.wait_for_selector("body[data-copied]")
    scan(page, "BC-0001")
    outcome(page, "recorded", "Pallet 1")
    page.context.set_offline(True)
    open_about(page)
    page.fill("#note-text", "Wheel broken\nsince Monday")
    shot(page, "about")
    assert not faults(page)
    page.locator("text=Save the note").dblclick()  # in a hurry
    expect(page.locator("#said")).to_have_text("Note saved")
    take_photo(page, picture())
    expect(page.locator("#said")).to_have_text("Photo saved")
    open_about(page)
    page.locator("text=Print its label").dblclick()
    expect(page.locator("#link")).to_contain_text("3 kept")
    page.reload()  # the page is closed before anything is sent
    page.wait_for_selector("body[data-ready]")
    expect(page.locator("#link")).to_contain_text("3 kept")
    page.context.set_offline(False)
    page.evaluate("() => dispatchEvent(new Event('online'))")
    saved(page)
    assert printed == ["10.0.0.2:9100"]
    assert execute("SELECT text FROM asset_note").fetchall() == [("Wheel broken\nsince Monday",)]
    [(width, height, content)] = execute("SELECT width, height, content FROM asset_photo").fetchall()
    assert (width, height, b"SECRET" in content) == (1280, 853, False)
    page.goto(f"/assets/{site.assets[0].id}")
    photo = page.locator(".photos img")
    photo.scroll_into_view_if_needed()
    page.wait_for_function("() => document.querySelector('.photos img').naturalWidth === 1280")
    expect(page.locator(".notes")).to_contain_text("Wheel broken")
    shot(page, "notes-of-asset")
    assert not faults(page)


def test_what_is_not_a_photo_is_refused(scan_page: ScanPage, site: Site) -> None:
    page = scan_page(viewport=SMALL)
    scan(page, "BC-0001")
    outcome(page, "recorded", "Pallet 1")
    take_photo(page, b"not an image")
    expect(page.locator("#said")).to_have_text("This is not a photo")


def test_a_full_device_says_at_once_what_was_not_saved(enter: Callable[..., Page], site: Site) -> None:
    page = enter("olga", "/", viewport=SMALL, expected=BROKEN)
    limit_storage(page)
    page.goto("/scan")
    page.wait_for_selector("body[data-copied]")
    scan(page, "DOCK-1")
    expect(page.locator("#location-name")).to_have_text("Dock 1")
    scan(page, "BC-0001")
    outcome(page, "recorded", "Pallet 1")
    saved(page)
    fill_storage(page)
    scan(page, "BC-0002")
    outcome(page, "refused", "BC-0002")
    expect(page.locator("#detail")).to_have_text(f"This device cannot store the scan: {FULL}")
    shot(page, "full-scan")
    scan(page, "RACK-A")
    outcome(page, "refused", "Error on this page")
    expect(page.locator("#detail")).to_have_text(FULL)
    expect(page.locator("#location-name")).to_have_text("Dock 1")
    take_photo(page, picture())
    expect(page.get_by_role("alert")).to_have_text(f"Not saved. This device cannot store it: {FULL}")
    expect(page.get_by_role("alert")).to_be_in_viewport()
    page.fill("#note-text", "Wheel broken")
    page.click("text=Save the note")
    expect(page.get_by_role("alert")).to_have_count(1)
    assert page.input_value("#note-text") == "Wheel broken"
    shot(page, "full-note")
    page.reload()
    page.wait_for_selector("body[data-copied]")  # works with what the server sends
    expect(page.locator("#link")).to_have_text("All saved")
    assert recorded() == ["BC-0001"]
    for table in ("asset_photo", "asset_note"):
        assert execute(f"SELECT count(*) FROM {table}").fetchone() == (0,)


def test_a_scan_is_recorded_if_only_the_first_place_for_it_is_full(scan_page: ScanPage, site: Site) -> None:
    page = scan_page(viewport=SMALL)
    page.evaluate(FILL_FIRST)
    scan(page, "BC-0002")
    outcome(page, "recorded", "Pallet 2")
    assert recorded() == ["BC-0002"]


def test_a_full_device_sends_what_it_stored_before(enter: Callable[..., Page], site: Site) -> None:
    page = enter("olga", "/", viewport=SMALL, expected=BROKEN)
    limit_storage(page)
    page.goto("/scan")
    page.wait_for_selector("body[data-copied]")
    page.evaluate("() => navigator.serviceWorker.ready")
    scan(page, "DOCK-1")
    expect(page.locator("#location-name")).to_have_text("Dock 1")
    page.context.set_offline(True)
    scan(page, "BC-0001")
    outcome(page, "queued", "Pallet 1")
    fill_storage(page)
    page.reload()
    page.wait_for_selector("body[data-ready]")
    page.context.set_offline(False)
    page.evaluate("() => dispatchEvent(new Event('online'))")
    expect(page.locator("#link")).to_have_text("Device full · 1 kept")  # the answer could not be stored
    shot(page, "full-link")
    assert recorded() == ["BC-0001"]


def test_a_refused_photo_stays_in_the_list(scan_page: ScanPage, site: Site) -> None:
    page = scan_page(viewport=SMALL, expected=BROKEN)
    scan(page, "BC-0001")
    outcome(page, "recorded", "Pallet 1")
    page.context.set_offline(True)
    take_photo(page, picture())
    expect(page.locator("#said")).to_have_text("Photo saved")
    assets.delete(shell(site.organization_id), site.assets[0].id)
    page.context.set_offline(False)
    page.evaluate("() => dispatchEvent(new Event('online'))")
    line = page.locator("#log li").first
    expect(line).to_have_attribute("data-outcome", "refused")
    expect(line).to_contain_text("Photo of Pallet 1")
    expect(line).to_contain_text("This asset is retired")
    saved(page)
    page.reload()
    page.wait_for_selector("body[data-ready]")
    expect(page.locator("#log li").first).to_contain_text("This asset is retired")
    shot(page, "refused-photo")
    scan(page, "BC-0002")  # newer
    outcome(page, "recorded", "Pallet 2")
    expect(page.locator("#log li").first).to_contain_text("Pallet 2")
