"""Feedback to the operator: tones that are started and vibrations that are requested."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from edge.database.connection import execute
from tests.browser.conftest import PHONE, outcome, scan

pytestmark = pytest.mark.browser
ScanPage = Callable[..., Page]

LISTEN = """() => {
  window.heard = []; window.felt = [];
  const start = OscillatorNode.prototype.start;
  OscillatorNode.prototype.start = function (...at) { heard.push(this.frequency.value); return start.apply(this, at); };
  navigator.vibrate = (beat) => felt.push(beat);
}"""


def told(page: Page, code: str, name: str, thing: str) -> tuple[tuple[float, ...], tuple[int, ...]]:
    """The tones and the beat of a scan."""
    page.evaluate("() => { heard.length = felt.length = 0; }")
    scan(page, code)
    outcome(page, name, thing)
    page.wait_for_function("() => felt.length")
    return tuple(page.evaluate("heard")), tuple(page.evaluate("felt[0]"))


def test_each_outcome_sounds_and_feels_different_and_muted_is_only_felt(scan_page: Callable[..., Page]) -> None:
    page = scan_page(viewport=PHONE)
    page.evaluate(LISTEN)
    found = {
        told(page, "BC-0001", "recorded", "Pallet 1"),
        told(page, "ASSET-0001", "again", "Pallet 1"),
        told(page, "RACK-A", "location", "Rack A"),
        told(page, "NOBODY-KNOWS", "unknown", "NOBODY-KNOWS"),
    }
    tunes, beats = {tune for tune, _ in found}, {beat for _, beat in found}
    assert (len(tunes), len(beats)) == (4, 4)
    assert () not in tunes
    page.click("#menu summary")
    page.click("#mute")
    page.click("#menu summary")
    tune, beat = told(page, "BC-0002", "recorded", "Pallet 2")
    assert (tune, bool(beat)) == ((), True)
    page.reload()
    page.wait_for_selector("body[data-ready]")
    page.evaluate(LISTEN)
    assert told(page, "BC-0003", "recorded", "Pallet 3")[0] == (), "a device stays muted"


HOLD = """() => {
  const send = window.fetch;
  const go = new Promise((done) => { window.release = done; });
  const wait = (path) => (String(path).endsWith("/scan/batch") ? go : Promise.resolve());
  window.fetch = (path, ...more) => wait(path).then(() => send(path, ...more));
}"""


def test_a_scan_is_answered_from_the_copy_before_the_server_answers(scan_page: ScanPage) -> None:
    page = scan_page(viewport=PHONE)
    page.evaluate(LISTEN)
    page.evaluate(HOLD)
    for code in ("BC-0001", "NOBODY-KNOWS"):
        scan(page, code)
    page.wait_for_function("() => felt.length === 2")
    first, unknown = page.evaluate("felt")
    assert first != unknown
    page.evaluate("() => release()")
    outcome(page, "unknown", "NOBODY-KNOWS")
    expect(page.locator("#link")).to_have_text("All saved")
    scan(page, "ASSET-0001")
    outcome(page, "again", "Pallet 1")
    again = page.evaluate("felt")
    assert len(again) == 3, "the server agreed each time"
    assert again[2] not in (first, unknown)


def test_a_server_that_disagrees_sounds_different(scan_page: ScanPage) -> None:
    page = scan_page(viewport=PHONE)
    page.evaluate(LISTEN)
    tunes = {told(page, "BC-0001", "recorded", "Pallet 1"), told(page, "NOBODY-KNOWS", "unknown", "NOBODY-KNOWS")}
    execute("UPDATE tag SET deleted_at = created_at WHERE value = 'BC-0002'")  # the device does not know
    page.evaluate("() => { heard.length = felt.length = 0; }")
    scan(page, "BC-0002")
    outcome(page, "unknown", "BC-0002")
    page.wait_for_function("() => felt.length === 2")
    at_once, correction = page.evaluate("felt")
    assert tuple(at_once) in {beat for _, beat in tunes}
    assert tuple(correction) not in {beat for _, beat in tunes}
