"""Pages that follow the site: their notice while the server is away, and consistent content."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, Route, expect

from edge import clock
from edge.audit.actors import shell
from edge.readers import readers
from edge.readers.status import ReaderStatus, record_readers
from edge.tracking import positions
from edge.tracking.stays import Quality, Scan
from tests.browser.conftest import Server, Site

pytestmark = pytest.mark.browser
Enter = Callable[..., Page]
AWAY = ("ERR_CONNECTION", "ERR_EMPTY", "ERR_ABORTED")
LONGER_THAN_A_TICK = 6_000  # ms; clocks that run are drawn every 5 s


def see(site: Site, number: int, dock: int = 0) -> None:
    now, row = clock.now(), site.assets[number - 1]
    positions.record(
        [Scan(site.organization_id, row.id, site.docks[dock].id, None, None, now, now, Quality.HANDHELD)], 0
    )


def let_pass(page: Page, milliseconds: int) -> None:
    page.wait_for_function(
        "until => performance.now() > until",
        arg=page.evaluate("() => performance.now()") + milliseconds,
        polling=100,  # by default it asks at every frame
    )


@pytest.mark.long
@pytest.mark.parametrize("path", ["/", "/assets/{asset}", "/locations/{dock}"])
def test_a_page_says_since_when_its_data_is_old_and_stops_its_clocks(
    enter: Enter, site: Site, server: Server, path: str
) -> None:
    see(site, 1)
    page = enter("vic", path.format(asset=site.assets[0].id, dock=site.docks[0].id), expected=AWAY)
    notice, counting = page.locator("[data-live-state]"), page.locator("time[data-lasting]").first
    expect(notice).to_be_hidden()
    server.stop()
    expect(notice).to_be_visible()
    expect(notice).to_contain_text(re.compile(r"as of \d\d:\d\d:\d\d"))
    stopped_at = counting.inner_text()
    let_pass(page, LONGER_THAN_A_TICK)
    assert counting.inner_text() == stopped_at
    server.start()
    expect(notice).to_be_hidden()
    expect(counting).not_to_have_text(stopped_at)


def test_a_server_that_takes_requests_and_never_answers_is_away_too(enter: Enter, site: Site) -> None:
    page = enter("vic", expected=(*AWAY, "ERR_FAILED"))
    waiting: list[Route] = []
    page.route("**/board/**", lambda route: waiting.append(route))  # neither answered nor refused
    expect(page.locator("[data-live-state]")).to_be_visible()
    for route in waiting:
        route.abort()
    page.unroute("**/board/**")
    expect(page.locator("[data-live-state]")).to_be_hidden()


@pytest.mark.parametrize("path", ["/readers", "/readers/{reader}"])
def test_the_pages_of_readers_follow_them(enter: Enter, site: Site, path: str) -> None:
    reader = readers.add_reader(shell(site.organization_id), name="Gate", topic="gate/1", format="plain")
    page = enter("ed", path.format(reader=reader.id))
    expect(page.locator("main")).not_to_contain_text("working")
    record_readers([ReaderStatus(reader.id, clock.now(), clock.now(), 0, 1, None, False)])
    expect(page.locator("main")).to_contain_text("working")
    expect(page.locator("main")).to_contain_text(re.compile(r"just now|\d+ s ago"))  # on a busy machine it comes late


def test_on_the_way_back_the_filter_and_the_rows_go_together(enter: Enter, site: Site) -> None:
    see(site, 7, dock=1)
    page = enter("vic")
    page.select_option("#location", label="\u2003Dock 2")
    expect(page.locator("tbody tr")).to_have_count(1)
    page.go_back()
    expect(page.locator("tbody tr")).to_have_count(50)
    expect(page.locator("#location")).to_have_value("")
    page.go_forward()
    expect(page.locator("tbody tr")).to_have_count(1)
    expect(page.locator("#location option:checked")).to_have_text("\u2003Dock 2")
