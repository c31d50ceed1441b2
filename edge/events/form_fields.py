"""Fields of a form that a kind of destination declares. Pages show them all in the same way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

# Of the input: addresses are neither completed nor corrected.
ADDRESS = {"autocomplete": "off", "spellcheck": "false"}
CODE = {**ADDRESS, "class": "mono"}


class Field(NamedTuple):
    """A field. Texts are marked for translation. `kept_hint`: the hint of a secret while one is saved.

    `choices`: value and text of each. `is_secret`: never shown again. `longest`: characters, 0 without a limit.
    """

    name: str
    label: str
    hint: str = ""
    kept_hint: str = ""
    choices: Sequence[tuple[str, str]] = ()
    is_required: bool = False
    is_secret: bool = False
    is_switch: bool = False
    longest: int = 0
    input: Mapping[str, str] = {}
