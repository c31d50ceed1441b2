"""Content of a label, and whether its code is large enough to be scanned."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import NamedTuple

from edge.errors import Invalid
from edge.labels.papers import Paper
from edge.texts import N_, fill

NARROWEST_BAR = 0.19  # mm, Code 128: office printers blur finer bars
QUIET_ZONE = 10  # modules beside a Code 128
MARGIN = 2.5  # mm inside the label, for the tolerance of printers

_EAST_ASIAN = re.compile("[\u1100-\u11ff\u2e80-\ua4cf\uac00-\ud7ff\uf900-\ufaff\uff00-\uffef]")


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


def code_128_bars(content: str) -> int:
    """Return the width in modules, without quiet zones: 11 per character, 35 for start, check and stop."""
    return 11 * len(content) + 35


def code_128_module(content: str, width: float) -> float:
    """Return the width of the narrowest bar on a label of `width`, both in mm.

    The quiet zones of 10 modules may use the margins of the label, which are white.
    """
    bars = code_128_bars(content)
    return min((width - 2 * MARGIN) / bars, width / (bars + 2 * QUIET_ZONE))


def check_fit(labels: Sequence[Label], paper: Paper, code: Code, dots_per_mm: int | None = None) -> None:
    """Raise Invalid if a code would be too fine to scan. Bars of a label printer are whole dots wide."""
    if code is not Code.CODE_128:
        return
    for label in labels:
        bar = code_128_module(label.external_key, paper.width)
        if dots_per_mm:
            modules = code_128_bars(label.external_key) + 2 * QUIET_ZONE
            bar = (paper.width - 2 * MARGIN) * dots_per_mm // modules / dots_per_mm
        if bar < NARROWEST_BAR:
            message = N_("The bars of %(key)s would be too fine to read: choose larger labels or a Data Matrix")
            raise Invalid.one("code", "too_long", fill(message, key=label.external_key))


def needs_east_asian_font(labels: Sequence[Label]) -> bool:
    """True if names or keys have letters of Chinese, Japanese or Korean."""
    return any(_EAST_ASIAN.search(label.name) or _EAST_ASIAN.search(label.external_key) for label in labels)


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
