"""Marks texts for translation. They are translated when shown, see `edge/pages/translation.py`."""

from __future__ import annotations


def N_(message: str) -> str:  # gettext's own name for it
    return message
