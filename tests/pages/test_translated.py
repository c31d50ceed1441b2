"""No page shows a text in English to people of another language: templates mark their texts, and so does the code."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from gettext import NullTranslations
from html.parser import HTMLParser
from pathlib import Path

import pytest
from flask import Flask

from edge.epcis.places import DISPOSITIONS, STEPS
from edge.pages import translation
from edge.pages.translation import LANGUAGES
from edge.people.people import Role
from tests.conftest import Cast
from tests.every_record import add_records, path_of
from tests.pages.conftest import Browser

TEMPLATES = Path(__file__).parents[2] / "web/templates"
ENGLISH = {"api-docs.html", "manual/chapter.html"}  # the manual and the reference of the API are in English only
TEXT = re.compile(r"[^\W\d_]{2}")
SHOWN_ATTRIBUTES = {"title", "placeholder", "aria-label", "alt", "label", "data-confirm"}
UNTRANSLATED = {"code", "kbd", "pre", "samp", "script", "style"}  # commands, and what is not shown
LEFT_OUT = ("/manual", "/api/docs", "/scan", "/test-code")
CODE = re.compile(r"\w[./:@_-]\w")  # such as an address, a topic or a kind of event
# Names of the test, and words that are the same in all languages.
NAMES = ("Acme", "administrator 2", "boss", "edge", "name", "production", "dpi", "rfid")
DATA = re.compile(rf"\b({'|'.join((*NAMES, *LANGUAGES.values(), *STEPS, *DISPOSITIONS))})\b")
OPEN, CLOSE = "⟦", "⟧"


class Pseudo(NullTranslations):
    """A language that shows each text between brackets."""

    def gettext(self, message: str) -> str:
        return f"{OPEN}{message}{CLOSE}"

    def ngettext(self, msgid1: str, msgid2: str, n: int) -> str:
        return self.gettext(msgid1 if n == 1 else msgid2)


class Texts(HTMLParser):
    """Texts of a page that are not between brackets."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []
        self._skipped: list[str] = []
        self._depth = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        is_english = tag != "main" and dict(attrs).get("lang") == "en"  # on a page of another language
        if tag in UNTRANSLATED or is_english or (self._skipped and self._skipped[-1] == tag):
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
    if str(name) not in ENGLISH:
        assert template_texts(path) == []


def pages_of(app: Flask, known: dict[str, object]) -> Iterator[str]:
    """Yield the address of every page."""
    for rule in sorted(app.url_map.iter_rules(), key=str):
        if rule.endpoint.startswith("pages.") and "GET" in (rule.methods or ()) and not rule.rule.startswith(LEFT_OUT):
            yield path_of(rule, known)


def page_texts(page: str) -> list[str]:
    """Return the texts of a page that are not marked. Names of records are in capital letters."""
    parser = Texts()
    parser.feed(page)
    words = {word for text in parser.texts for word in DATA.sub("", text).split()}
    return sorted(word for word in words if re.search("[a-z]{2}", word) and not CODE.search(word))


def test_pages_contain_no_text_that_is_not_marked(
    app: Flask, cast: Cast, sign_in_as: Callable[..., Browser], monkeypatch: pytest.MonkeyPatch
) -> None:
    known = add_records(cast.acme)
    browser = sign_in_as(Role.ADMINISTRATOR)
    monkeypatch.setattr(translation, "catalog", lambda _of: Pseudo())
    texts = {}
    for path in pages_of(app, known):
        answer = browser.get(path, headers={"User-Agent": "Mozilla/5.0"})
        if answer.status_code == 200 and answer.mimetype == "text/html":
            texts[path] = page_texts(answer.text)
    assert {path: listed for path, listed in texts.items() if listed} == {}
    assert len(texts) > 60
