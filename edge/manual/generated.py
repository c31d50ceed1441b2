"""Parts of the manual that are made from the code: a line `<!-- generated: NAME -->` in a chapter stands for one.

The settings and the commands belong to rooms above this one, so those rooms register a function for each part.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

CHANGES = Path(__file__).resolve().parent.parent / "CHANGELOG.md"


def _changes() -> str:
    """Return the versions in the changelog, without its title."""
    text = CHANGES.read_text("utf-8")
    return text[text.index("\n## ") + 1 :]


_MAKERS: dict[str, Callable[[], str]] = {"changes": _changes}


def register(name: str, make: Callable[[], str]) -> None:
    """`make` returns Markdown. It is called once, when the chapter is first asked for."""
    _MAKERS[name] = make


def markdown(name: str) -> str:
    """Return the part, or a sentence in its place if no function is registered."""
    return _MAKERS[name]() if name in _MAKERS else "This list is not available here.\n"


def escape(text: str) -> str:
    """Return text in which Markdown finds nothing but code in backticks."""
    return "".join("\\" + one if one in r"\*_[]<>|#" else one for one in text)


def table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    """Return a table. Cells are Markdown, without line breaks."""
    lines = [head, tuple("---" for _ in head), *rows]
    return "".join("| " + " | ".join(cells) + " |\n" for cells in lines)
