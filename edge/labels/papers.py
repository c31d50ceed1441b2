"""Label papers: sheets by the makers' numbers, and rolls with one label a page; and the font for Chinese, Japanese
and Korean, which is installed on request: it has 3 MB.

All lengths in millimetres, as the makers print them on their boxes.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from edge.texts import N_, Measure, fill

A4 = (210.0, 297.0)
LETTER = (215.9, 279.4)


class Paper(NamedTuple):
    """Layout of one page: `columns` by `rows` labels of `width` by `height`.

    The first label begins at `left`, `top`; the next ones are `across` and `down` from it.
    """

    title: str
    page: tuple[float, float]
    columns: int
    rows: int
    width: float
    height: float
    left: float
    top: float
    across: float
    down: float

    @property
    def per_page(self) -> int:
        return self.columns * self.rows


def _sheet(name: str, size: str, page: tuple[float, float], columns: int, rows: int, *lengths: float) -> Paper:
    title = fill(N_("%(name)s, %(size)s, %(number)s a sheet"), name=name, size=Measure(size), number=columns * rows)
    return Paper(title, page, columns, rows, *lengths)


def _roll(width: float, height: float) -> Paper:
    title = fill(N_("Roll, %(size)s"), size=Measure(f"{width:g} × {height:g} mm"))
    return Paper(title, (width, height), 1, 1, width, height, 0, 0, width, height)


PAPERS = {
    "avery-l7159": _sheet("Avery L7159", "63.5 × 33.9 mm", A4, 3, 8, 63.5, 33.9, 7.2, 12.9, 66.0, 33.9),
    "avery-l7160": _sheet("Avery L7160", "63.5 × 38.1 mm", A4, 3, 7, 63.5, 38.1, 7.2, 15.1, 66.0, 38.1),
    "avery-l7163": _sheet("Avery L7163", "99.1 × 38.1 mm", A4, 2, 7, 99.1, 38.1, 4.7, 15.1, 101.6, 38.1),
    "avery-l7165": _sheet("Avery L7165", "99.1 × 67.7 mm", A4, 2, 4, 99.1, 67.7, 4.7, 13.1, 101.6, 67.7),
    "avery-l7651": _sheet("Avery L7651", "38.1 × 21.2 mm", A4, 5, 13, 38.1, 21.2, 4.7, 10.7, 40.6, 21.2),
    "avery-5160": _sheet("Avery 5160", "2⅝ × 1 in", LETTER, 3, 10, 66.7, 25.4, 4.8, 12.7, 69.9, 25.4),
    "avery-5163": _sheet("Avery 5163", "4 × 2 in", LETTER, 2, 5, 101.6, 50.8, 4.0, 12.7, 106.4, 50.8),
    "herma-4270": _sheet("Herma 4270", "38 × 21.2 mm", A4, 5, 13, 38.0, 21.2, 10.0, 10.7, 38.0, 21.2),
    "herma-4272": _sheet("Herma 4272", "48.3 × 25.4 mm", A4, 4, 11, 48.3, 25.4, 8.4, 8.8, 48.3, 25.4),
    "herma-4457": _sheet("Herma 4457", "105 × 48 mm", A4, 2, 6, 105.0, 48.0, 0, 4.5, 105.0, 48.0),
    "herma-4464": _sheet("Herma 4464", "70 × 37 mm", A4, 3, 8, 70.0, 37.1, 0, 0, 70.0, 37.1),
    "roll-102x51": _roll(102, 51),
    "roll-76x51": _roll(76, 51),
    "roll-57x32": _roll(57, 32),
    "roll-51x25": _roll(51, 25),
}
DEFAULT_PAPER = "avery-l7160"


EAST_ASIAN_PACKAGE = "fonts-droid-fallback"  # Debian; Apache License 2.0
_PATHS = (
    "/usr/share/fonts-droid-fallback/truetype/DroidSansFallback.ttf",  # with Korean
    "/usr/share/fonts/truetype/droid/DroidSansFallbackFull.ttf",
)


def east_asian_font() -> str | None:
    """Return the path of the font, None if it is not installed."""
    return next((path for path in _PATHS if Path(path).is_file()), None)
