"""No page shows a text in English to people of another language: templates mark their texts, and so does the code."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

TEMPLATES = Path(__file__).parents[2] / "web/templates"
ENGLISH = {"api-docs.html", "manual/chapter.html"}  # the manual and the reference of the API are in English only
NOT_YET: set[str] = set()  # folders
TEXT = re.compile(r"[^\W\d_]{2}")
SHOWN_ATTRIBUTES = {"title", "placeholder", "aria-label", "alt", "label", "data-confirm"}
UNTRANSLATED = {"code", "kbd", "pre", "samp", "script", "style"}  # commands, and what is not shown
OPEN, CLOSE = "⟦", "⟧"


class Texts(HTMLParser):
    """Texts of a page that are not between brackets."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []
        self._skipped: list[str] = []
        self._depth = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in UNTRANSLATED or (self._skipped and self._skipped[-1] == tag):
            self._skipped.append(tag)
        for name, value in attrs:
            if name in SHOWN_ATTRIBUTES and value:
                depth, self._depth = self._depth, 0
                self._read(value)
                self._depth = depth

    def handle_endtag(self, tag: str) -> None:
        if self._skipped and self._skipped[-1] == tag:
            self._skipped.pop()

    def handle_data(self, data: str) -> None:
        if not self._skipped:
            self._read(data)

    def _read(self, text: str) -> None:
        outside = ""
        for letter in text:
            self._depth += (letter == OPEN) - (letter == CLOSE)
            outside += letter if self._depth == 0 and letter != CLOSE else "\0"
        self.texts += [one.strip() for one in outside.split("\0") if TEXT.search(one)]


def template_texts(path: Path) -> list[str]:
    source = path.read_text("utf-8")
    source = re.sub(r"{#.*?#}|{% block width %}.*?{% endblock %}", "", source, flags=re.S)
    source = re.sub(r"{%.*?%}|{{.*?}}", "\0", source, flags=re.S)
    parser = Texts()
    parser.feed(source)
    return [text for text in parser.texts if text.strip(" ·") != "edge"]


@pytest.mark.parametrize("path", sorted(TEMPLATES.rglob("*.html")), ids=lambda path: str(path.relative_to(TEMPLATES)))
def test_a_template_contains_no_text_that_is_not_marked(path: Path) -> None:
    name = path.relative_to(TEMPLATES)
    if str(name) not in ENGLISH and name.parent.name not in NOT_YET:
        assert template_texts(path) == []
