"""Notices on the next page after an action. Only texts of the program can be shown."""

from __future__ import annotations

import re
from pathlib import Path

import edge.pages
from edge.pages.notices import NOTICES
from tests.pages.conftest import Browser, Site

SOURCES = [file.read_text("utf-8") for file in Path(edge.pages.__path__[0]).rglob("*.py")]


def test_the_next_page_shows_the_notice(admin: Browser, site: Site) -> None:
    answer = admin.post(f"/assets/{site.pallet.id}/retire")
    assert answer.location.endswith("done=retired")
    assert NOTICES["retired"] in admin.get(answer.location).text


def test_an_address_cannot_put_a_notice_on_a_page(admin: Browser) -> None:
    assert "Call this number" not in admin.get("/?done=Call+this+number").text


def test_every_notice_in_use_is_defined() -> None:
    given = {word for source in SOURCES for word in re.findall(r'\bdone\(.*, "([a-z-]+)"\)', source)}
    assert len(given) > 10
    assert given <= set(NOTICES)
