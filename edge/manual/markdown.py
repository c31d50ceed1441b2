"""Renders a chapter. HTML in it is shown as text, and links between files become links between pages.

Import this module only when a chapter is asked for: the library takes 8 MB of memory.
"""

from __future__ import annotations

import posixpath
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from markdown_it import MarkdownIt
from markdown_it.token import Token

from edge.manual import ADDRESS, INDEX

_MARKERS = re.compile(r"(?m)^ *<!-- .* -->\n")  # for the tests and scripts that read the files
_SENTENCE_ENDS = re.compile(r"(?<=[.!?:]) +(?=[^a-z])")
_CARD_COLUMNS = 3  # on a phone, each row of a table with as many columns is a card


class Section(NamedTuple):
    """A heading, and the sentences, table rows and lines of code below it."""

    level: int
    heading: str
    anchor: str
    sentences: list[str]


class Rendered(NamedTuple):
    html: str
    sections: Sequence[Section]


def render(text: str, name: str) -> Rendered:
    """`name` is the path of the file in the manual's folder, without `.md`: its links are relative to it."""
    parser = MarkdownIt("commonmark", {"html": False}).enable("table")
    tokens = parser.parse(_MARKERS.sub("", text))
    folder, anchors = posixpath.dirname(name), Counter[str]()
    for place, token in enumerate(tokens):
        if token.type == "heading_open":
            base = anchor(plain(tokens[place + 1]))
            token.attrSet("id", f"{base}-{anchors[base]}" if anchors[base] else base)
            anchors[base] += 1
        elif token.type == "fence" and token.info == "text":
            token.attrSet("tabindex", "0")  # a drawing scrolls
        elif token.type == "table_open":
            _shape_table(tokens[place : _end(tokens, place)])
        for child in token.children or ():
            if child.type == "link_open":
                child.attrSet("href", address(str(child.attrGet("href")), folder))
    return Rendered(parser.renderer.render(tokens, parser.options, {}), list(_sections(tokens)))


def anchor(heading: str) -> str:
    """Return the anchor of a heading as GitHub makes it, since the chapters are read there, too."""
    return re.sub(r"[^\w\- ]", "", heading.casefold()).replace(" ", "-")


def plain(inline: Token) -> str:
    """Return the text of a paragraph, heading or cell, without emphasis and links."""
    return "".join(" " if one.type == "softbreak" else one.content for one in inline.children or ())


def address(link: str, folder: str = "") -> str:
    """Return the address of a link in a file of `folder`: a chapter is a page, everything else stays as it is."""
    path, mark, part = link.partition("#")
    if not path or path.startswith("/") or ":" in path:
        return link
    name = posixpath.normpath(posixpath.join(folder, path)).removesuffix(".md")
    return (ADDRESS if name == INDEX else f"{ADDRESS}/{name}") + mark + part


def _end(tokens: Sequence[Token], start: int) -> int:
    return next(place for place in range(start, len(tokens)) if tokens[place].type == "table_close")


def _shape_table(tokens: Sequence[Token]) -> None:
    """Add the name of its column to each cell, for the cards."""
    names = [plain(tokens[place + 1]) for place, token in enumerate(tokens) if token.type == "th_open"]
    tokens[0].attrSet("class", "cards" if len(names) >= _CARD_COLUMNS else "pairs")
    column = 0
    for place, token in enumerate(tokens):
        if token.type == "tr_open":
            column = 0
        elif token.type == "td_open":
            if column and tokens[place + 1].content:
                token.attrSet("data-name", names[column])
            column += 1


def _sections(tokens: Sequence[Token]) -> Iterator[Section]:
    section, cells, is_heading = Section(1, "", "", []), [], False
    for token in tokens:
        if token.type == "heading_open":
            if section.heading:
                yield section
            section, is_heading = Section(int(token.tag[1:]), "", str(token.attrGet("id")), []), True
        elif token.type == "inline" and is_heading:
            section, is_heading = section._replace(heading=plain(token)), False
        elif token.type in ("td_open", "th_open"):
            cells.append("")
        elif token.type == "inline" and cells:
            cells[-1] = plain(token)
        elif token.type == "tr_close":
            section.sentences.append(" · ".join(filter(None, cells)))
            cells = []
        elif token.type == "inline":
            section.sentences.extend(_SENTENCE_ENDS.split(plain(token)))
        elif token.type in ("fence", "code_block"):
            section.sentences.extend(line.strip() for line in token.content.splitlines() if line.strip())
    yield section
