"""The outcomes of a scan differ in lightness, too: in sunlight, and for people who see no colors."""

from __future__ import annotations

import re
from itertools import combinations
from pathlib import Path

CSS = (Path(__file__).parents[3] / "web" / "static" / "handhelds" / "scan.css").read_text("utf-8")
TINTS = re.findall(r"^(\.station\[data-outcome.*?) \{ --tint: (#\w+); --on-tint: (#\w+); \}", CSS, re.MULTILINE)


def luminance(color: str) -> float:
    digits = color[1:] if len(color) == 7 else "".join(digit * 2 for digit in color[1:])
    parts = [int(digits[at : at + 2], 16) / 255 for at in (0, 2, 4)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def test_outcomes_differ_in_lightness_and_their_text_can_be_read() -> None:
    assert len(TINTS) == 7
    for (outcome, tint, _), (other, second, _) in combinations(TINTS, 2):
        assert contrast(tint, second) > 1.4, f"{outcome}, {other}: {contrast(tint, second):.2f}"
    for outcome, tint, ink in TINTS:
        assert contrast(tint, ink) > 4.5, f"{outcome}: {contrast(tint, ink):.2f}"
