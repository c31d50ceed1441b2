"""The settings chapter of the manual, generated from `Config` with defaults, not with the values of this site."""

from __future__ import annotations

from dataclasses import Field
from itertools import groupby
from typing import Any

from edge.config.live import CHANGEABLE, written
from edge.config.settings import SETTINGS
from edge.manual.generated import escape, table

HEAD = ("Setting", "Default", "Values", "Meaning")
_GENERAL = "General"


def markdown() -> str:
    """Return a table for each section of the settings file."""
    sections = []
    for section, names in groupby(SETTINGS, key=_section):
        rows = [_row(name, SETTINGS[name]) for name in names]
        sections.append(f"### {section}\n\n{table(HEAD, rows)}\n")
    return "\n".join(sections)


def _section(name: str) -> str:
    before, dot, _ = name.partition(".")
    return before if dot else _GENERAL


def _row(name: str, item: Field[Any]) -> tuple[str, ...]:
    meaning = escape(item.metadata["help"])
    if name in CHANGEABLE:
        meaning += " (can be changed while the service runs)"
    default = escape(written(item.default)) or "empty"
    return f"`{name}`", default, escape(_values(item)), meaning[0].upper() + meaning[1:] + "."


def _values(item: Field[Any]) -> str:
    """Return the accepted values: the error message for an impossible value."""
    try:
        item.metadata["cast"](object())
    except ValueError as error:
        return str(error)
    return ""
