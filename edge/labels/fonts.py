"""The font for Chinese, Japanese and Korean, which is installed on request: it has 3 MB."""

from __future__ import annotations

from pathlib import Path

EAST_ASIAN_PACKAGE = "fonts-droid-fallback"  # Debian; Apache License 2.0
_PATHS = (
    "/usr/share/fonts-droid-fallback/truetype/DroidSansFallback.ttf",  # with Korean
    "/usr/share/fonts/truetype/droid/DroidSansFallbackFull.ttf",
)


def east_asian_font() -> str | None:
    """Return the path of the font, None if it is not installed."""
    return next((path for path in _PATHS if Path(path).is_file()), None)
