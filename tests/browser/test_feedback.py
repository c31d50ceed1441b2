"""What an operator hears and feels, as far as a browser tells: tones that are started, beats that are asked for."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page

from tests.browser.conftest import PHONE, outcome, scan

pytestmark = pytest.mark.browser

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
