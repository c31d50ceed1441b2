"""Labels in ZPL II, the language of Zebra's label printers that most other makes also support."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import NamedTuple

from edge.labels.label_content import QUIET_ZONE, Code, Label, code_128_bars, wrap
from edge.labels.papers import Paper

DOTS_PER_MM = (8, 12, 24)  # 203, 300 and 600 dpi
MARGIN = 2  # mm
SMALLEST_LETTER = 1.25  # mm, barely readable
LEADING = 1.15
KEY_SHARE = 0.4  # of the height for text, as long as the key fits in it

# Letter widths relative to the letter height, for the printers' scalable font. Rounded up: a line that is too long
# would run over the edge of the label, and printers that break lines print the surplus lines on top of each other.
_NARROW, _NORMAL, _CAPITAL, _WIDE, _FULL = 0.36, 0.58, 0.72, 0.92, 1.0
_NARROW_LETTERS = frozenset(" !'()*,-./:;I[]`fijlrt|")
_WIDE_LETTERS = frozenset("%@MWmw&—…")
_LAST_LATIN = 0x24F


class _Box(NamedTuple):
    """A rectangle for text, in dots."""

    left: int
    top: int
    width: int
    height: int


class _Lines(NamedTuple):
    """Wrapped text: letter height in dots, and lines."""

    size: int
    lines: Sequence[str]

    @property
    def height(self) -> int:
        return round(len(self.lines) * self.size * LEADING)


def labels_zpl(
    labels: Iterable[Label],
    paper: Paper,
    code: Code,
    dots_per_mm: int = 8,
    progress: Callable[[int], None] = lambda _made: None,
) -> bytes:
    """Return one ZPL format for each label. `progress` gets the number made.

    Texts are hexadecimal UTF-8, so none of them can contain a command.
    """
    formats = []
    for number, label in enumerate(labels, 1):
        formats.append(_format(label, paper, code, dots_per_mm))
        progress(number)
    return "".join(formats).encode("ascii")


def _format(label: Label, paper: Paper, code: Code, dots: int) -> str:
    width, height = round(paper.width * dots), round(paper.height * dots)
    symbol, box = _symbol(label.content(code), code, width, height, dots)
    return f"^XA^CI28^PW{width}^LL{height}{symbol}{_texts(label, box, dots)}^XZ\n"


def _symbol(content: str, code: Code, width: int, height: int, dots: int) -> tuple[str, _Box]:
    """Return the code, and the space it leaves for text: below a bar code, to the right of a square code."""
    margin, data = MARGIN * dots, _hexadecimal(content)
    if code is Code.CODE_128:
        bars = height * 2 // 5
        module = max((width - 2 * margin) // (code_128_bars(content) + 2 * QUIET_ZONE), 1)
        top = margin + bars + dots
        symbol = f"^FO{margin + 10 * module},{margin}^BY{module}^BCN,{bars},N,N,N^FH^FD{data}^FS"
        return symbol, _Box(margin, top, width - 2 * margin, height - top - margin)
    side = min(height - 2 * margin, width // 2 - margin)
    modules = _qr_modules(content) if code is Code.QR else _matrix_modules(content)
    module = max(side // modules, 2)
    if code is Code.QR:
        module = min(module, 10)
        symbol = f"^FO{margin},{margin}^BQN,2,{module}^FH^FDMA,{data}^FS"
    else:
        symbol = f"^FO{margin},{margin}^BXN,{module},200^FH^FD{data}^FS"
    left = margin + max(side, module * modules) + 2 * dots
    return symbol, _Box(left, margin, width - left - margin, height - 2 * margin)


def _texts(label: Label, box: _Box, dots: int) -> str:
    """Place the name at the top and the key at the bottom, each in the largest size that fits."""
    largest, smallest = max(min(box.height // 6, 5 * dots), 2 * dots), round(SMALLEST_LETTER * dots)
    line = round(smallest * LEADING)
    key = _fit(label.external_key, largest * 4 // 5, smallest, box.width, round(box.height * KEY_SHARE))
    if key.height > box.height * KEY_SHARE:
        key = _fit(label.external_key, smallest, smallest, box.width, box.height - line)
    room = box.height - key.height - line // 2
    name = _cut(_fit(label.name, largest, smallest, box.width, room), room)
    return _print_lines(name, box.left, box.top) + _print_lines(key, box.left, box.top + box.height - key.height)


def _print_lines(text: _Lines, left: int, top: int) -> str:
    """Print each line in its own field, because printers break lines differently."""
    tops = (top + round(number * text.size * LEADING) for number in range(len(text.lines)))
    return "".join(
        f"^FO{left},{line_top}^A0N,{text.size},{text.size}^FH^FD{_hexadecimal(line)}^FS"
        for line_top, line in zip(tops, text.lines, strict=True)
    )


def _fit(text: str, largest: int, smallest: int, width: int, height: int) -> _Lines:
    """Wrap a text in the largest size that fits, else in the smallest."""

    def lines(size: int) -> _Lines:
        return _Lines(size, wrap(text, width, partial(text_width, size=size)))

    fits, too_large = smallest, largest + 1  # bisection: trying all 100 sizes would take 0.15 s for 255 letters
    while too_large - fits > 1:
        size = (fits + too_large) // 2
        if lines(size).height <= height:
            fits = size
        else:
            too_large = size
    return lines(fits)


def _cut(text: _Lines, height: int) -> _Lines:
    """Drop the lines that do not fit, and end the last one with an ellipsis."""
    most = max(int(height / (text.size * LEADING)), 1)
    if len(text.lines) <= most:
        return text
    return _Lines(text.size, [*text.lines[: most - 1], text.lines[most - 1][:-2] + "…"])


def text_width(text: str, size: int) -> float:
    """Return the largest width in dots that a line can take at this letter height."""
    return sum(map(_letter_width, text)) * size


def _letter_width(letter: str) -> float:
    if letter in _NARROW_LETTERS:
        return _NARROW
    if letter in _WIDE_LETTERS:
        return _WIDE
    if ord(letter) > _LAST_LATIN:
        return _FULL
    return _CAPITAL if letter.isupper() else _NORMAL


def _hexadecimal(text: str) -> str:
    return "".join(f"_{octet:02X}" for octet in text.encode("utf-8"))


# Bytes that each version of a QR code holds with error correction M, starting with version 1.
_QR_BYTES = (14, 26, 42, 62, 84, 106, 122, 152, 180, 213, 251, 287, 331, 362, 412, 450, 504, 560, 624, 666)
# Side and codewords of square Data Matrix symbols; a character takes at most one codeword.
_MATRIX_SIDES = (10, 12, 14, 16, 18, 20, 22, 24, 26, 32, 36, 40, 44, 48, 52, 64, 72)
_MATRIX_CODEWORDS = (3, 5, 8, 12, 18, 22, 30, 36, 44, 62, 86, 114, 144, 174, 204, 280, 368)


def _qr_modules(content: str) -> int:
    """Return the side of the smallest version that holds the content, with its quiet zone."""
    version = 1 + min(bisect_left(_QR_BYTES, len(content.encode())), len(_QR_BYTES) - 1)
    return 17 + 4 * version + 8


def _matrix_modules(content: str) -> int:
    """Return the side of the smallest square symbol that holds the content, with its quiet zone."""
    number = min(bisect_left(_MATRIX_CODEWORDS, len(content)), len(_MATRIX_SIDES) - 1)
    return _MATRIX_SIDES[number] + 2
