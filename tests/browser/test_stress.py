"""Many scans in a row while the connection, the page and the server come and go: afterwards each is there once.

A short run by default; `HANDHELD_SCANS=2000 pytest -n 0 -s tests/browser/test_stress.py` is the long one.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from edge.database.connection import execute
from tests.browser.conftest import Server, Site, queued, scan

pytestmark = pytest.mark.browser
SCANS = int(os.environ.get("HANDHELD_SCANS", "60"))
PER_SECOND = 20
BROKEN = (
    *("ERR_INTERNET_DISCONNECTED", "ERR_CONNECTION_REFUSED", "ERR_CONNECTION_RESET", "ERR_EMPTY_RESPONSE"),
    *("ERR_FAILED", "Failed to fetch", "Failed to update", "Sign in to keep", "sw.js", "An unknown error occurred"),
    *("Blocked call to navigator.vibrate", "AudioContext was not allowed"),  # until the page is touched
)


def test_every_scan_is_recorded_once_whatever_happens_meanwhile(
    scan_page: Callable[..., Page], site: Site, server: Server
) -> None:
    chance = random.Random(4711)
    page = scan_page(expected=BROKEN)
    page.evaluate("() => navigator.serviceWorker.ready")
    page.reload()
    page.wait_for_function("() => navigator.serviceWorker.controller")
    page.wait_for_selector("body[data-ready]")
    is_offline = is_down = False
    location, made, events = "DOCK-1", [], []
    due = begun = time.monotonic()
    for number in range(SCANS):
        if number % 10 == 9:
            event = chance.choice(("network", "reload", "server", "location"))
            events.append(event)
            if event == "network":
                is_offline = not is_offline
                page.context.set_offline(is_offline)
            elif event == "reload":
                page.reload(wait_until="commit")
                page.wait_for_selector("body[data-listening]")
            elif event == "server":
                server.start() if is_down else server.stop()
                is_down = not is_down
            else:
                location = chance.choice([one for one in ("DOCK-1", "RACK-A", "RACK-B") if one != location])
                scan(page, location, delay=0)
        code = f"BC-{number % 200 + 1:04}"
        scan(page, code, delay=0)
        made.append((code, location))
        due += 1 / PER_SECOND
        page.wait_for_timeout(max(0.0, due - time.monotonic()) * 1000)  # the pace of the scans
    seconds = time.monotonic() - begun
    if is_down:
        server.start()
    page.context.set_offline(False)
    page.evaluate("() => dispatchEvent(new Event('online'))")
    expect(page.locator("#link")).to_have_text("All saved")
    assert queued(page) == 0
    recorded = execute(
        "SELECT code, external_key FROM handheld_scan JOIN location ON location.id = location_id ORDER BY observed_at"
    ).fetchall()
    print(f"{len(recorded)} scans in {seconds:.0f} s, {len(events)} events: {', '.join(events)}")
    assert recorded == made
    assert execute("SELECT count(*) FROM history").fetchone() == (len(made),)
