"""The folded text of an asset or location by which a search finds it.

Search writes it, and the repair of a damaged file reads lost names and keys back from it.
"""

from __future__ import annotations

from collections.abc import Iterable

_DIVIDER = "\x1f"  # a control character, which no query may contain


def folded_text(name: str, external_key: str, tags: Iterable[str]) -> str:
    """Return the name, key and tag values of a record as one case-folded text."""
    return _DIVIDER.join([name, external_key, *tags]).casefold()


def split_text(text: str) -> list[str]:
    """Return the values that `folded_text` joined."""
    return text.split(_DIVIDER)
