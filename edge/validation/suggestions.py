"""Suggestions for misspelled names in error messages."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

_LONGEST = 40
_LIKE = 0.75


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return a question to append to an error message, or an empty string if no name is similar."""
    if len(name) > _LONGEST:
        return ""
    names = {_bare(one): one for one in known}
    matches = get_close_matches(_bare(name), names, n=1, cutoff=_LIKE)
    return f"; did you mean `{names[matches[0]]}`?" if matches else ""


def _bare(name: str) -> str:
    """Normalize spellings such as externalKey, external-key and external_key."""
    return name.lower().replace("_", "").replace("-", "")
