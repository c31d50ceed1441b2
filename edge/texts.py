"""Marks texts for translation where they are written; who shows one translates it, see `edge/pages/languages.py`."""

from __future__ import annotations


def N_(message: str) -> str:  # gettext's own name for it
    return message
