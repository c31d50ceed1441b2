"""The chapters in their order, and the search in them."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from edge.manual import INDEX, generated

MOST_RESULTS = 40
MOST_TERMS = 8
_LINKS = re.compile(r"\]\(([\w/-]+)\.md\)")
_GENERATED = re.compile(r"(?m)^<!-- generated: (\w+) -->\n")
_PHRASE_WORTH, _HEADING_WORTH, _CHAPTER_WORTH = 12, 8, 4  # times a word in the text
_SHOWN = 260  # characters of a sentence


class Entry(NamedTuple):
    """A heading in the table of contents."""

    level: int
    title: str
    anchor: str


class Chapter(NamedTuple):
    name: str
    title: str
    html: str
    entries: Sequence[Entry]


class Piece(NamedTuple):
    text: str
    is_match: bool


class Result(NamedTuple):
    chapter: str
    title: str
    heading: str
    anchor: str
    sentence: Sequence[Piece]


class _Section(NamedTuple):
    """A section as it is searched: with head and text in lower case."""

    chapter: str
    entry: Entry
    sentences: Sequence[str]
    title: str
    head: str
    text: str


class Manual:
    """Reads and renders a chapter when it is first asked for, and keeps it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._chapters: dict[str, Chapter] = {}
        self._sections: dict[str, list[_Section]] = {}
        self._rendering = threading.Lock()

    @cached_property
    def names(self) -> Sequence[str]:
        """All chapters in the order in which the index links to them; decisions follow their own list."""
        return [INDEX, *self._linked(INDEX)]

    @cached_property
    def titles(self) -> dict[str, str]:
        return {name: self._source(name).partition("\n")[0].removeprefix("# ") for name in self.names}

    def chapter(self, name: str) -> Chapter | None:
        """Return None if there is no such chapter."""
        if name not in self.names:
            return None
        with self._rendering:
            if name not in self._chapters:
                self._render(name)
            return self._chapters[name]

    def neighbors(self, name: str) -> tuple[str | None, str | None]:
        """Return the names of the chapters before and after this one."""
        place = self.names.index(name)
        before = self.names[place - 1] if place else None
        return before, self.names[place + 1] if place + 1 < len(self.names) else None

    def search(self, text: str) -> list[Result]:
        """Return the sections that contain every word, the best first. Headings count more than text."""
        terms = list(dict.fromkeys(text.casefold().split()))[:MOST_TERMS]
        if not terms:
            return []
        for name in self.names:
            self.chapter(name)
        sections = [section for name in self.names for section in self._sections[name]]
        ranked = [(worth, section) for section in sections if (worth := _worth(terms, section))]
        ranked.sort(key=lambda one: -one[0])  # of equal ones, the earlier chapter is first
        return [_result(terms, section, self.titles[section.chapter]) for _, section in ranked[:MOST_RESULTS]]

    def _linked(self, name: str) -> Iterator[str]:
        for link in _LINKS.findall(self._source(name)):
            if name == INDEX:
                yield link
                if (self._folder / link).is_dir():
                    yield from self._linked(link)
            elif link.startswith(f"{name}/"):
                yield link

    def _source(self, name: str) -> str:
        return (self._folder / f"{name}.md").read_text("utf-8")

    def _render(self, name: str) -> None:
        from edge.manual import markdown  # only when somebody reads the manual: it takes 8 MB

        text = _GENERATED.sub(lambda marker: generated.markdown(marker[1]), self._source(name))
        rendered = markdown.render(text, name)
        entries = [Entry(section.level, section.heading, section.anchor) for section in rendered.sections]
        title = entries[0].title
        self._sections[name] = [
            _Section(name, entry, one.sentences, title.casefold(), one.heading.casefold(), _folded(one.sentences))
            for entry, one in zip(entries, rendered.sections, strict=True)
        ]
        self._chapters[name] = Chapter(name, title, rendered.html, entries)


def _folded(sentences: Sequence[str]) -> str:
    return "\n".join(sentences).casefold()


def _worth(terms: Sequence[str], section: _Section) -> int:
    """Return 0 if a word is missing, or if all of them are in the chapter's title only."""
    head, title, text = section.head, section.title, section.text
    if not all(term in head or term in text or term in title for term in terms):
        return 0
    if not any(term in head or term in text for term in terms):
        return 0
    phrase = " ".join(terms)
    together = _PHRASE_WORTH * (len(terms) > 1 and phrase in f"{head}\n{text}")
    return together + sum(
        _HEADING_WORTH * (term in head) + _CHAPTER_WORTH * (term in title) + min(text.count(term), 3) for term in terms
    )


def _result(terms: Sequence[str], section: _Section, title: str) -> Result:
    pieces = list(_pieces(terms, _best(terms, section.sentences)))
    return Result(section.chapter, title, section.entry.title, section.entry.anchor, pieces)


def _best(terms: Sequence[str], sentences: Sequence[str]) -> str:
    """Return the first sentence with the most of the words; without one, the first sentence."""
    return max(sentences, key=lambda one: sum(term in one.casefold() for term in terms), default="")


def _pieces(terms: Sequence[str], sentence: str) -> Iterator[Piece]:
    pattern = re.compile("(" + "|".join(map(re.escape, sorted(terms, key=len, reverse=True))) + ")", re.IGNORECASE)
    match = pattern.search(sentence)
    start = max(0, match.start() - _SHOWN // 2) if match else 0
    if start:
        start = sentence.find(" ", start) + 1
    shown = sentence[start : start + _SHOWN]
    if start:
        yield Piece("… ", False)
    for number, text in enumerate(pattern.split(shown)):
        if text:
            yield Piece(text, number % 2 == 1)
    if start + _SHOWN < len(sentence):
        yield Piece(" …", False)
