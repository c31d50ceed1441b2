"""The README and the chapters of the manual, as the tests read them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "web" / "manual"
DOCUMENTS = [ROOT / "README.md", *sorted(FOLDER.rglob("*.md"))]
_FENCE = re.compile(r"(?:^ *<!-- (?P<marker>.*?) -->\n)?^ *```(?P<language>\w*)\n(?P<code>.*?)^ *```$", re.M | re.S)


class Block(NamedTuple):
    """A block of code and the marker in the line before it, which says how it is tested."""

    document: Path
    language: str
    code: str
    marker: str

    @property
    def place(self) -> str:
        return f"{self.document.relative_to(ROOT)}: {self.code.strip().partition(chr(10))[0]}"

    @property
    def lines(self) -> list[str]:
        joined = self.code.replace("\\\n", " ")
        return [line.strip() for line in joined.splitlines() if line.strip()]


def blocks() -> Iterator[Block]:
    for document in DOCUMENTS:
        for match in _FENCE.finditer(document.read_text("utf-8")):
            yield Block(document, match["language"], dedent(match["code"]), match["marker"] or "")


def marked(marker: str) -> Block:
    """Return the only block with this marker."""
    [block] = [one for one in blocks() if one.marker == marker]
    return block
