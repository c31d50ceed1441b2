"""Marks texts for translation. They are translated when shown, see `edge/pages/translation.py`."""

from __future__ import annotations

from typing import Any


def N_(message: str) -> str:  # gettext's own name for it
    return message


class Filled(str):
    """An English text whose values are filled in. A page translates `template` and fills in `values` again."""

    template: str
    values: dict[str, Any]


def fill(template: str, **values: Any) -> Filled:
    """Fill in the values of a marked text: `fill(N_("at most %(number)s"), number=5)`."""
    text = Filled(template % values)
    text.template, text.values = template, values
    return text
