"""The camera as a scanner: Chromium films a code that was drawn for it; without https a photo is read instead."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import segno
from PIL import Image
from playwright.sync_api import Browser as Chromium
from playwright.sync_api import Page, expect

from edge.database.connection import execute
from tests.browser.accessibility import faults
from tests.browser.conftest import ARGS, CHROMIUM, PHONE, Server, Site, new_context, outcome
from tests.observed import scans_by_people

pytestmark = pytest.mark.browser
ScanPage = Callable[..., Page]
WIDTH, HEIGHT = 640, 480


def picture(code: str) -> Image.Image:
    """The code as a QR code in the middle of a white picture."""
    drawn = io.BytesIO()
    segno.make(code, micro=False).save(drawn, kind="png", scale=8)
    image = Image.new("L", (WIDTH, HEIGHT), 255)
    with Image.open(drawn) as symbol:
        image.paste(symbol.convert("L"), ((WIDTH - symbol.width) // 2, (HEIGHT - symbol.height) // 2))
    return image


@pytest.fixture
def filming(chromium: Chromium, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Chromium]:
    """A browser with a camera that sees the codes of pallets in turn, each for two seconds."""
    film = tmp_path / "film.y4m"
    colour = bytes([128]) * (WIDTH * HEIGHT // 2)
    with film.open("wb") as file:
        file.write(f"YUV4MPEG2 W{WIDTH} H{HEIGHT} F5:1 Ip A1:1 C420\n".encode())
        for number in (1, 2):
            frame = b"FRAME\n" + picture(f"BC-{number:04}").tobytes() + colour
            file.write(frame * 10)
    options = (
        "--use-fake-device-for-media-stream",
        "--use-fake-ui-for-media-stream",
        f"--use-file-for-fake-video-capture={film}",
    )
    browser = chromium.browser_type.launch(executable_path=CHROMIUM, args=[*ARGS, *options])
    yield browser
    browser.close()


@pytest.fixture
def film_page(filming: Chromium, server: Server, scan_page: ScanPage) -> Iterator[Page]:
    """The scan page at Dock 1 in that browser."""
    state = scan_page(viewport=PHONE).context.storage_state()
    context = new_context(filming, base_url=server.url, storage_state=state, viewport=PHONE)
    page = context.new_page()
    page.goto("/scan")
    page.wait_for_selector("body[data-copied]")
    page.click("#location")
    page.click(".choice-button:has-text('Dock 1')")
    yield page
    context.close()


def test_codes_before_the_camera_are_scanned_one_after_the_other(film_page: Page, site: Site) -> None:
    page, loaded = film_page, []
    page.on("request", lambda request: loaded.append(request.url))
    page.click("#camera")
    for name in ("Pallet 1", "Pallet 2"):  # in the log: the large result is soon another one
        saved = page.locator("#log li:is([data-outcome=recorded], [data-outcome=again])", has_text=name)
        expect(saved.first).to_be_attached()
    assert [url for url in loaded if url.endswith(".wasm")]
    assert faults(page) == []
    page.click("text=Stop camera")
    expect(page.locator(".camera")).to_have_count(0)
    expect(page.locator("#link")).to_have_text("All saved")
    codes = execute("SELECT DISTINCT code FROM handheld_scan ORDER BY code").fetchall()
    assert codes == [("BC-0001",), ("BC-0002",)]


def test_the_reader_of_pictures_is_not_loaded_before_it_is_used(scan_page: ScanPage) -> None:
    page = scan_page()
    names = page.evaluate("() => performance.getEntriesByType('resource').map((one) => one.name)")
    assert [name for name in names if "vendor" in name] == []


def test_the_browsers_own_reader_is_used_where_there_is_one(film_page: Page) -> None:
    page, loaded = film_page, []
    page.on("request", lambda request: loaded.append(request.url))
    page.evaluate(
        """() => { window.BarcodeDetector = class {
          static async getSupportedFormats() { return ["qr_code"]; }
          async detect() { return [{ rawValue: "BC-0009" }]; }
        } }"""
    )
    page.click("#camera")
    outcome(page, "recorded", "Pallet 9")
    page.click("#camera")
    assert [url for url in loaded if "vendor" in url] == []
    assert scans_by_people() == 1


def test_a_camera_that_is_not_allowed_is_told(scan_page: ScanPage) -> None:
    page = scan_page()
    page.evaluate(
        """() => { navigator.mediaDevices.getUserMedia = () => Promise.reject(
          Object.assign(new Error(), { name: "NotAllowedError" })); }"""
    )
    page.click("#camera")
    expect(page.locator("#said")).to_contain_text("Camera access denied")
    expect(page.locator(".camera")).to_have_count(0)


def test_on_plain_http_a_photo_is_read(scan_page: ScanPage, server: Server, tmp_path: Path) -> None:
    page = scan_page(base_url=server.url.replace("localhost", "box.lan"), viewport=PHONE)
    photo = tmp_path / "photo.jpg"
    picture("BC-0007").save(photo)
    with page.expect_file_chooser() as chosen:
        page.click("#camera")
    chosen.value.set_files(photo)
    outcome(page, "recorded", "Pallet 7")
    Image.new("L", (WIDTH, HEIGHT), 255).save(photo)
    with page.expect_file_chooser() as chosen:
        page.click("#camera")
    chosen.value.set_files(photo)
    expect(page.locator("#said")).to_contain_text("No code in the photo")
