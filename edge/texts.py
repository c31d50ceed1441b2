"""Marks texts for translation. They are translated when shown, see `edge/pages/translation.py`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any


def N_(message: str) -> str:  # gettext's own name for it
    return message


class Count(int):
    """A number in a text, grouped as usual in its language."""

    def __str__(self) -> str:
        return f"{int(self):,}"


class Measure(str):
    """A measure in a text, such as `63.5 mm`, shown with the decimal separator of its language."""


class Filled(str):
    """An English text whose values are filled in. A page translates `template` and fills in `values` again."""

    template: str
    values: dict[str, Any]


def fill(template: str, **values: Any) -> Filled:
    """Fill in the values of a marked text: `fill(N_("at most %(number)s"), number=5)`."""
    text = Filled(template % values if values else template)
    text.template, text.values = template, values
    return text


def refill(text: str, templates: Iterable[str]) -> str:
    """Return a stored text as it was made by `fill` from one of the templates, or else the text unchanged."""
    for template in templates:
        if match := _pattern(template).fullmatch(text):
            return fill(template, **match.groupdict())
    return text


@cache
def _pattern(template: str) -> re.Pattern[str]:
    parts = re.split(r"%\((\w+)\)s|(%%)", template)  # text, name, percent sign, text, ...
    texts, names = parts[::3], parts[1::3]
    values = [f"(?P<{name}>.+?)" if name else "%" for name in names]
    return re.compile("".join(re.escape(text) + value for text, value in zip(texts, [*values, ""], strict=True)), re.S)


def joined(messages: Iterable[str]) -> Filled:
    """Join messages with semicolons. Each is translated on its own."""
    parts = {f"part_{number}": one if isinstance(one, Filled) else fill(one) for number, one in enumerate(messages)}
    return fill("; ".join(f"%({name})s" for name in parts), **parts) if len(parts) != 1 else parts["part_0"]


def shortened(names: Sequence[str], most: int) -> str:
    """Join names with commas, and say how many there are beyond `most`."""
    listed, more = ", ".join(names[:most]), len(names) - most
    return fill(N_("%(names)s and %(number)s more"), names=listed, number=more) if more > 0 else listed
