"""Labels as PDF, for office printers and for drivers of label printers.

A square code is at the left of the text, a bar code above it. Name and key use the largest font size that fits.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Sequence
from functools import cache, lru_cache, partial
from pathlib import Path
from typing import Any

import reportlab
import segno
from ppf.datamatrix import DataMatrix
from reportlab.graphics.barcode.code128 import Code128
from reportlab.lib.units import mm
from reportlab.pdfbase import pdfmetrics
from reportlab.pdfbase.ttfonts import TTFont
from reportlab.pdfgen.canvas import Canvas

from edge.labels.label_content import MARGIN, Code, Label, code_128_module, wrap
from edge.labels.papers import Paper, east_asian_font

NAME_SIZES = (16, 14, 12, 11, 10, 9, 8, 7, 6, 5)  # points, tried in this order
KEY_SIZES = (11, 10, 9, 8, 7, 6, 5, 4)
LEADING = 1.15
MATRIX_QUIET_ZONE = 2  # modules; the margin of the label and the gap to the text add at least two
_DARK = re.compile(rb"\x01+")
GAP = 1.5  # mm between code and text, at least

# Debian's fonts cover more characters than those of reportlab.
_FONTS = {
    "Label": ("/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf", "Vera.ttf"),
    "Label-Bold": ("/usr/share/fonts/truetype/dejavu/DejaVuSans-Bold.ttf", "VeraBd.ttf"),
}
_EAST_ASIAN_FONT = "Label-East-Asian"
PLACEHOLDER = "\u25a1"  # for characters that no font has, such as emoji; drawn as a square where the font lacks it, too
_JOINERS = re.compile("[\u200d\ufe00-\ufe0f\U0001f3fb-\U0001f3ff\U000e0020-\U000e007f]")  # parts of one emoji


def labels_pdf(
    labels: Sequence[Label],
    paper: Paper,
    code: Code,
    *,
    skip: int = 0,
    progress: Callable[[int], None] = lambda _drawn: None,
) -> bytes:
    """Return the PDF. `skip` leaves out labels already used on the first sheet. `progress` gets the number drawn."""
    register_fonts()
    out = io.BytesIO()
    canvas = Canvas(out, pagesize=(paper.page[0] * mm, paper.page[1] * mm), pageCompression=1)
    canvas.setTitle("Labels")
    mask = None  # the best one of eight for the first link; trying all for each of them takes most of the time
    for number, label in enumerate(labels, skip):
        position = number % paper.per_page
        if position == 0 and number > skip:
            canvas.showPage()
        row, column = divmod(position, paper.columns)
        left = (paper.left + column * paper.across) * mm
        bottom = (paper.page[1] - paper.top - row * paper.down - paper.height) * mm
        mask = draw_label(canvas, label, code, left, bottom, paper, mask)
        progress(number - skip + 1)
    canvas.save()
    return out.getvalue()


def draw_label(
    canvas: Any, label: Label, code: Code, left: float, bottom: float, paper: Paper, mask: int | None
) -> int | None:
    """Draw a label on a canvas, or on one of `picture`. Return the mask of its QR code."""
    width, height = (paper.width - 2 * MARGIN) * mm, (paper.height - 2 * MARGIN) * mm
    left, bottom = left + MARGIN * mm, bottom + MARGIN * mm
    if code is Code.CODE_128:
        bars = height * 0.45
        _draw_bars(canvas, label.content(code), left + width / 2, bottom + height - bars, paper.width, bars)
        _write(canvas, label, left, bottom, width, height - bars - 1 * mm)
        return None
    side = min(height, width * 0.5)
    rows, mask = _matrix(label.content(code), code, mask)
    module = side / (len(rows) + 2 * MATRIX_QUIET_ZONE)
    _draw_matrix(canvas, rows, left, bottom + (height - side) / 2, module)
    beside = side + max(GAP * mm, MATRIX_QUIET_ZONE * module)
    _write(canvas, label, left + beside, bottom, width - beside, height)
    return mask


def _matrix(content: str, code: Code, mask: int | None) -> tuple[list[bytes], int | None]:
    """Return the rows of a square code, with 1 for dark, and the mask of a QR code."""
    if code is Code.DATA_MATRIX:
        return [bytes(row) for row in DataMatrix(content).matrix], None
    made = segno.make(content, error="m", micro=False, mask=mask)
    return [bytes(row) for row in made.matrix], made.mask


def _draw_matrix(canvas: Canvas, rows: Sequence[bytes], left: float, bottom: float, module: float) -> None:
    """Draw all dark modules as one path, with one rectangle for each run: fast to create and to print."""
    left, top = left + MATRIX_QUIET_ZONE * module, bottom + (len(rows) + MATRIX_QUIET_ZONE) * module
    rectangles = [
        f"{run.start()} {number} {run.end() - run.start()} 1 re"
        for number, row in enumerate(rows)
        for run in _DARK.finditer(row)
    ]
    canvas.saveState()
    canvas.transform(module, 0, 0, -module, left, top)  # modules as units, from the top
    canvas.addLiteral(" ".join([*rectangles, "f"]))
    canvas.restoreState()


def _draw_bars(canvas: Canvas, content: str, middle: float, bottom: float, label_width: float, height: float) -> None:
    code = Code128(content, quiet=False, humanReadable=False, barWidth=1)
    module = code_128_module(content, label_width) * mm
    canvas.saveState()
    canvas.translate(middle - code.width * module / 2, bottom)
    canvas.scale(module, height / code.height)
    code.drawOn(canvas, 0, 0)
    canvas.restoreState()


def _write(canvas: Canvas, label: Label, left: float, bottom: float, width: float, height: float) -> None:
    """Write the name above the key in the largest sizes that fit. A name too long for every size is cut."""
    key_size, key_lines = _fit(label.external_key, "Label", KEY_SIZES, width, height * 0.4)
    if "".join(key_lines) != label.external_key:  # a key is never cut; the name gets the remaining space
        least = NAME_SIZES[-1] * LEADING
        key_size, key_lines = _fit(label.external_key, "Label", KEY_SIZES[-1:], width, height - least)
    room = height - len(key_lines) * key_size * LEADING
    name_size, name_lines = _fit(label.name, "Label-Bold", NAME_SIZES, width, room)
    total = len(key_lines) * key_size * LEADING + len(name_lines) * name_size * LEADING
    top = bottom + (height + total) / 2
    for font, size, lines in (("Label-Bold", name_size, name_lines), ("Label", key_size, key_lines)):
        for line in lines:
            top -= size * LEADING
            _draw_line(canvas, line, font, size, left, top + size * (LEADING - 1))


def _draw_line(canvas: Canvas, line: str, font: str, size: int, left: float, baseline: float) -> None:
    for part, own_font in _parts(line, font):
        canvas.setFont(own_font, size)
        canvas.drawString(left, baseline, part)
        left += pdfmetrics.stringWidth(part, own_font, size)


def _width(line: str, font: str, size: int) -> float:
    return sum(pdfmetrics.stringWidth(part, own_font, size) for part, own_font in _parts(line, font))


@lru_cache(maxsize=4096)
def _parts(line: str, font: str) -> tuple[tuple[str, str], ...]:
    """Split a line into parts with their fonts. A character that no font has becomes the placeholder."""
    if line.isascii():
        return ((line, font),)
    segments: list[tuple[str, str]] = []
    for letter in _JOINERS.sub("", line):
        shown, own_font = next(
            ((letter, name) for name in (font, _EAST_ASIAN_FONT) if _has(name, letter)), (PLACEHOLDER, font)
        )
        if segments and segments[-1][1] == own_font:
            shown = segments.pop()[0] + shown
        segments.append((shown, own_font))
    return tuple(segments)


def _has(font: str, letter: str) -> bool:
    if font not in pdfmetrics.getRegisteredFontNames():
        return False
    registered = pdfmetrics.getFont(font)
    return isinstance(registered, TTFont) and ord(letter) in registered.face.charToGlyph


def _fit(text: str, font: str, sizes: Sequence[int], width: float, height: float) -> tuple[int, list[str]]:
    for size in sizes:
        lines = wrap(text, width, partial(_width, font=font, size=size))
        if len(lines) * size * LEADING <= height:
            return size, lines
    size = sizes[-1]
    most = max(int(height / (size * LEADING)), 1)
    lines = wrap(text, width, partial(_width, font=font, size=size))[:most]
    return size, [*lines[:-1], lines[-1][:-1] + "…"]


@cache
def register_fonts() -> None:
    own = Path(reportlab.__file__).parent / "fonts"
    for name, (system, bundled) in _FONTS.items():
        pdfmetrics.registerFont(TTFont(name, system if Path(system).is_file() else str(own / bundled)))
    if path := east_asian_font():
        pdfmetrics.registerFont(TTFont(_EAST_ASIAN_FONT, path))
