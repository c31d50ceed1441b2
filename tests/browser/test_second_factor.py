"""Two-factor authentication by keyboard alone, on a phone and on a desk."""

from __future__ import annotations

import io
from collections.abc import Callable
from urllib.parse import parse_qs, urlsplit

import pytest
import zxingcpp
from PIL import Image
from playwright.sync_api import BrowserContext, Page, expect

from edge import clock
from tests.browser.accessibility import faults
from tests.browser.conftest import PASSWORD
from tests.browser.test_accessibility import TOO_WIDE
from tests.people.test_second_factor import STEP, Phone

pytestmark = pytest.mark.browser
DESK = {"width": 1280, "height": 800}
REFUSED = ("400", "403")  # the console names answers to wrong codes


def is_good(page: Page) -> bool:
    """Nothing is cut off at the sides, and nobody is shut out."""
    assert faults(page) == []
    return not page.evaluate(TOO_WIDE)


@pytest.mark.parametrize(("viewport", "scheme"), [({"width": 320, "height": 640}, "light"), (DESK, "dark")])
def test_from_the_setup_to_the_sign_in(
    enter: Callable[..., Page],
    open_context: Callable[..., BrowserContext],
    viewport: dict[str, int],
    scheme: str,
) -> None:
    looks = {"viewport": viewport, "color_scheme": scheme, "expected": REFUSED}
    page = enter("ada", "/account/second-factor", **looks)
    assert is_good(page)
    page.focus("#present")
    page.keyboard.type(PASSWORD)
    page.keyboard.press("Enter")
    secret = page.inner_text("#secret")
    [read] = zxingcpp.read_barcodes(Image.open(io.BytesIO(page.locator("svg.qr").screenshot())))
    assert parse_qs(urlsplit(read.text).query)["secret"] == [secret]
    assert is_good(page)
    phone = Phone(secret)

    page.fill("#code", "000000")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("Compare it with your phone")
    expect(page.locator("#code")).to_be_focused()
    assert is_good(page)
    page.keyboard.type(phone.code(clock.now()))
    page.keyboard.press("Enter")
    codes = page.inner_text("#codes").split()
    assert len(codes) == 10
    assert is_good(page)

    door = open_context(**looks).new_page()
    door.goto("/sign-in?next=/people")
    door.wait_for_selector("#email:focus")
    door.keyboard.type("ada@nord.example")
    door.keyboard.press("Tab")
    door.keyboard.type(PASSWORD)
    door.keyboard.press("Enter")
    door.wait_for_selector("#code")
    expect(door.locator("#code")).to_be_focused()
    assert is_good(door)
    door.keyboard.type("000000")
    door.keyboard.press("Enter")
    expect(door.get_by_role("alert")).to_be_visible()
    assert is_good(door)
    door.keyboard.type(phone.code(clock.now() + STEP))  # that of now confirmed the setup, and counts once
    door.keyboard.press("Enter")
    door.wait_for_url("**/people")
    expect(door.get_by_text("authenticator app")).to_be_visible()

    lost = open_context(**looks).new_page()
    lost.goto("/sign-in")
    lost.fill("#email", "ada@nord.example")
    lost.fill("#password", PASSWORD)
    lost.keyboard.press("Enter")
    lost.wait_for_selector("#code")
    for _ in range(2):  # past the button
        lost.keyboard.press("Tab")
    lost.keyboard.press("Enter")
    lost.keyboard.press("Tab")
    expect(lost.locator("#recovery")).to_be_focused()
    assert is_good(lost)
    lost.keyboard.type(codes[0])
    lost.keyboard.press("Enter")
    lost.wait_for_url("**/home")
