"""What was done is told on the next page, in words of the program only."""

from __future__ import annotations

import re
from pathlib import Path

import edge.pages
from edge.pages.notices import NOTICES
from tests.pages.conftest import Browser, Site

SOURCES = [file.read_text("utf-8") for file in Path(edge.pages.__path__[0]).glob("*.py")]


def test_the_next_page_tells_what_was_done(admin: Browser, site: Site) -> None:
    answer = admin.post(f"/assets/{site.pallet.id}/retire")
    assert answer.location.endswith("done=retired")
    assert NOTICES["retired"] in admin.get(answer.location).text


def test_an_address_cannot_make_a_page_say_anything_else(admin: Browser) -> None:
    assert "Call this number" not in admin.get("/?done=Call+this+number").text


def test_every_notice_that_is_given_is_known() -> None:
    given = {word for source in SOURCES for word in re.findall(r'\bdone\(.*, "([a-z-]+)"\)', source)}
    assert len(given) > 10
    assert given <= set(NOTICES)
