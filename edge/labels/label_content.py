"""Content of a label, and whether its code is large enough to be scanned."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import NamedTuple

from edge.errors import Invalid
from edge.labels.papers import Paper

NARROWEST_BAR = 0.19  # mm, Code 128: office printers blur finer bars
MARGIN = 2.5  # mm inside the label, for the tolerance of printers


class Code(StrEnum):
    """QR holds the link, which any phone opens. The others hold the key, for keyboard scanners."""

    QR = "qr"
    DATA_MATRIX = "datamatrix"
    CODE_128 = "code128"


class Label(NamedTuple):
    name: str
    external_key: str
    link: str

    def content(self, code: Code) -> str:
        return self.link if code is Code.QR else self.external_key


def code_128_modules(content: str) -> int:
    """Return the width in modules: 11 per character, 33 for start, check and stop, 22 for the quiet zones."""
    return 11 * (len(content) + 3) + 22


def check_fit(labels: Sequence[Label], paper: Paper, code: Code, dots_per_mm: int | None = None) -> None:
    """Raise Invalid if a code would be too fine to scan. Bars of a label printer are whole dots wide."""
    if code is not Code.CODE_128:
        return
    for label in labels:
        bar = (paper.width - 2 * MARGIN) / code_128_modules(label.external_key)
        if dots_per_mm:
            bar = int(bar * dots_per_mm) / dots_per_mm
        if bar < NARROWEST_BAR:
            message = (
                f"The bars of {label.external_key} would be too fine to read: choose larger labels or a Data Matrix"
            )
            raise Invalid.one("code", "too_long", message)


def wrap(text: str, width: float, measure: Callable[[str], float]) -> list[str]:
    """Break a text into lines of at most `width`, at spaces if possible, and inside words longer than a line."""
    lines: list[str] = []
    line = ""
    for word in text.split():
        tried = f"{line} {word}".strip()
        if measure(tried) <= width:
            line = tried
            continue
        if line:
            lines.append(line)
        line = ""
        for letter in word:
            if line and measure(line + letter) > width:
                lines.append(line)
                line = ""
            line += letter
    return [*lines, line]
