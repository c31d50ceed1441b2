"""Compressed pages have the same content."""

from __future__ import annotations

import gzip

import pytest

from edge import clock
from edge.people.people import Role
from tests.pages.conftest import SignIn


def test_the_scan_page_is_compressed_for_a_browser_that_accepts_it(
    sign_in_as: SignIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    moment = clock.now()
    monkeypatch.setattr(clock, "now", lambda: moment)  # the page names it
    browser = sign_in_as(Role.OPERATOR)
    plain, small = browser.get("/scan"), browser.get("/scan", headers={"Accept-Encoding": "gzip"})
    assert "Content-Encoding" not in plain.headers
    assert small.headers["Content-Encoding"] == "gzip"
    assert gzip.decompress(small.data) == plain.data
    assert len(small.data) < len(plain.data) / 2
    assert all("Accept-Encoding" in answer.headers["Vary"] for answer in (plain, small))
