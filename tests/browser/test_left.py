"""What waits on the page without HTTPS, after the box has changed to HTTPS, is taken over by one tap."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, Route, expect

from edge.database.connection import execute
from tests.browser.conftest import PHONE, Server, queued, scan

pytestmark = pytest.mark.browser


def test_scans_left_without_https_are_sent_by_one_tap(scan_page: Callable[..., Page], server: Server) -> None:
    plain = server.url.replace("localhost", "box.lan")
    page = scan_page("olga", viewport=PHONE, base_url=plain, expected=("ERR_INTERNET_DISCONNECTED",))
    cookies = page.context.cookies()
    page.context.set_offline(True)
    for number in (1, 2, 3):
        scan(page, f"BC-{number:04}")
        expect(page.locator("#link")).to_contain_text(f"{number} kept")
    page.goto("about:blank")
    page.context.set_offline(False)
    assert execute("SELECT count(*) FROM handheld_scan").fetchone() == (0,)

    def as_https(route: Route) -> None:
        """Answer for the proxy with HTTPS."""
        route.fulfill(response=route.fetch(url=route.request.url.replace("https://box.lan", server.url)))

    page.context.route("https://box.lan/**", as_https)
    page.context.add_cookies(
        [
            {"name": f"__Host-{one['name']}", "value": one["value"], "url": "https://box.lan", "secure": True}
            for one in cookies
            if one["name"] == "edge_who"
        ]
    )
    page.goto("https://box.lan/scan")
    page.click("#link a:text-is('3 kept on the page without HTTPS: send')")
    expect(page.locator("#link")).to_have_text("All saved")
    assert page.url == "https://box.lan/scan"
    assert execute("SELECT count(*) FROM handheld_scan").fetchone() == (3,)
    page.goto(f"{plain}/scan")
    assert queued(page) == 0
