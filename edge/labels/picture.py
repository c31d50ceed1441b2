"""A label as SVG, drawn by the same steps as in the PDF."""

from __future__ import annotations

import re
from html import escape

from reportlab.lib.units import mm
from reportlab.pdfbase import pdfmetrics

from edge.labels.label_content import Code, Label
from edge.labels.papers import Paper
from edge.labels.pdf import draw_label, register_fonts

# Family and weight by the names of the fonts. The width of each text is given, so that another font fits, too.
_FONTS = {"Label-Bold": ("DejaVu Sans, Verdana, sans-serif", "bold")}
_OTHERWISE = ("DejaVu Sans, Verdana, sans-serif", "normal")
_RECTANGLE = re.compile(r"(\S+) (\S+) (\S+) (\S+) re")


class SvgCanvas:
    """The part of reportlab's canvas that labels need. Its units are points, from the lower left corner."""

    def __init__(self, width: float, height: float) -> None:
        self._size = (width, height)
        self._parts: list[str] = []
        self._open = [0]  # groups of each saved state
        self._font = ("", 0.0)

    def svg(self) -> str:
        width, height = self._size
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width / mm:g}mm" height="{height / mm:g}mm" '
            f'viewBox="0 0 {width:g} {height:g}"><rect width="100%" height="100%" fill="#fff"/>'
            f'<g transform="matrix(1 0 0 -1 0 {height:g})">{"".join(self._parts)}</g></svg>'
        )

    def saveState(self) -> None:
        self._open.append(0)

    def restoreState(self) -> None:
        self._parts.append("</g>" * self._open.pop())

    def transform(self, a: float, b: float, c: float, d: float, e: float, f: float) -> None:
        self._open[-1] += 1
        self._parts.append(f'<g transform="matrix({a:g} {b:g} {c:g} {d:g} {e:g} {f:g})">')

    def translate(self, x: float, y: float) -> None:
        self.transform(1, 0, 0, 1, x, y)

    def scale(self, x: float, y: float) -> None:
        self.transform(x, 0, 0, y, 0, 0)

    def rect(self, x: float, y: float, width: float, height: float, **_: object) -> None:
        self._parts.append(f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}"/>')

    def addLiteral(self, operators: str) -> None:
        """Draw rectangles that are given as operators of PDF."""
        drawn = "".join(f"M{x} {y}h{width}v{height}h-{width}z" for x, y, width, height in _RECTANGLE.findall(operators))
        self._parts.append(f'<path d="{drawn}" shape-rendering="crispEdges"/>')

    def setFont(self, name: str, size: float) -> None:
        self._font = (name, size)

    def drawString(self, x: float, y: float, text: str) -> None:
        name, size = self._font
        family, weight = _FONTS.get(name, _OTHERWISE)
        self._parts.append(
            f'<text transform="matrix(1 0 0 -1 {x:g} {y:g})" font-family="{family}" font-weight="{weight}" '
            f'font-size="{size:g}" textLength="{pdfmetrics.stringWidth(text, name, size):g}" '
            f'lengthAdjust="spacingAndGlyphs">{escape(text)}</text>'
        )


def label_svg(label: Label, paper: Paper, code: Code) -> str:
    """Return the picture of one label in its real size."""
    register_fonts()
    canvas = SvgCanvas(paper.width * mm, paper.height * mm)
    draw_label(canvas, label, code, 0, 0, paper, None)
    return canvas.svg()
