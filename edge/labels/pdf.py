"""Labels as PDF, for office printers and for drivers of label printers.

A square code is at the left of the text, a bar code above it. Name and key use the largest font size that fits.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from functools import cache, partial
from itertools import groupby
from pathlib import Path

import reportlab
import segno
from ppf.datamatrix import DataMatrix
from reportlab.graphics.barcode import createBarcodeDrawing
from reportlab.lib.units import mm
from reportlab.pdfbase import pdfmetrics
from reportlab.pdfbase.ttfonts import TTFont
from reportlab.pdfgen.canvas import Canvas

from edge.labels.label_content import MARGIN, Code, Label, wrap
from edge.labels.papers import Paper

NAME_SIZES = (16, 14, 12, 11, 10, 9, 8, 7, 6, 5)  # points, tried in this order
KEY_SIZES = (11, 10, 9, 8, 7, 6, 5, 4)
LEADING = 1.15
MATRIX_QUIET_ZONE = 2  # modules; the margin of the label and the gap to the text add at least two
GAP = 1.5  # mm between code and text, at least

# Debian's fonts cover more characters than those of reportlab.
_FONTS = {
    "Label": ("/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf", "Vera.ttf"),
    "Label-Bold": ("/usr/share/fonts/truetype/dejavu/DejaVuSans-Bold.ttf", "VeraBd.ttf"),
}


def labels_pdf(labels: Sequence[Label], paper: Paper, code: Code, *, skip: int = 0) -> bytes:
    """Return the PDF. `skip` leaves out labels already used on the first sheet."""
    _fonts()
    out = io.BytesIO()
    canvas = Canvas(out, pagesize=(paper.page[0] * mm, paper.page[1] * mm), pageCompression=1)
    canvas.setTitle("Labels")
    for number, label in enumerate(labels, skip):
        position = number % paper.per_page
        if position == 0 and number > skip:
            canvas.showPage()
        row, column = divmod(position, paper.columns)
        left = (paper.left + column * paper.across) * mm
        bottom = (paper.page[1] - paper.top - row * paper.down - paper.height) * mm
        _draw(canvas, label, code, left, bottom, paper)
    canvas.save()
    return out.getvalue()


def _draw(canvas: Canvas, label: Label, code: Code, left: float, bottom: float, paper: Paper) -> None:
    width, height = (paper.width - 2 * MARGIN) * mm, (paper.height - 2 * MARGIN) * mm
    left, bottom = left + MARGIN * mm, bottom + MARGIN * mm
    if code is Code.CODE_128:
        bars = height * 0.45
        drawing = createBarcodeDrawing(
            "Code128", value=label.content(code), width=width, height=bars, humanReadable=False, quiet=True
        )
        drawing.drawOn(canvas, left, bottom + height - bars)
        _write(canvas, label, left, bottom, width, height - bars - 1 * mm)
        return
    side = min(height, width * 0.5)
    matrix = _matrix(label.content(code), code)
    module = side / (len(matrix) + 2 * MATRIX_QUIET_ZONE)
    _draw_matrix(canvas, matrix, left, bottom + (height - side) / 2, module)
    beside = side + max(GAP * mm, MATRIX_QUIET_ZONE * module)
    _write(canvas, label, left + beside, bottom, width - beside, height)


def _matrix(content: str, code: Code) -> Sequence[Sequence[int]]:
    if code is Code.QR:
        return segno.make(content, error="m", micro=False).matrix
    return DataMatrix(content).matrix  # type: ignore[no-any-return]


def _draw_matrix(canvas: Canvas, matrix: Sequence[Sequence[int]], left: float, bottom: float, module: float) -> None:
    """Draw all dark modules as one path, with one rectangle for each run: fast to create and to print."""
    left, top = left + MATRIX_QUIET_ZONE * module, bottom + (len(matrix) + MATRIX_QUIET_ZONE) * module
    path = canvas.beginPath()
    for row, modules in enumerate(matrix, 1):
        column = 0
        for is_dark, run in groupby(modules):
            length = sum(1 for _ in run)
            if is_dark:
                path.rect(left + column * module, top - row * module, length * module, module)
            column += length
    canvas.drawPath(path, stroke=0, fill=1)


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
        canvas.setFont(font, size)
        for line in lines:
            top -= size * LEADING
            canvas.drawString(left, top + size * (LEADING - 1), line)


def _fit(text: str, font: str, sizes: Sequence[int], width: float, height: float) -> tuple[int, list[str]]:
    for size in sizes:
        lines = wrap(text, width, partial(pdfmetrics.stringWidth, fontName=font, fontSize=size))
        if len(lines) * size * LEADING <= height:
            return size, lines
    size = sizes[-1]
    most = max(int(height / (size * LEADING)), 1)
    lines = wrap(text, width, partial(pdfmetrics.stringWidth, fontName=font, fontSize=size))[:most]
    return size, [*lines[:-1], lines[-1][:-1] + "…"]


@cache
def _fonts() -> None:
    own = Path(reportlab.__file__).parent / "fonts"
    for name, (system, bundled) in _FONTS.items():
        pdfmetrics.registerFont(TTFont(name, system if Path(system).is_file() else str(own / bundled)))
