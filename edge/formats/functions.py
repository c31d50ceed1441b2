"""Functions of expressions in mappings, beyond those of JMESPath.

The work and the result of each are bounded by the size of its arguments, which the caller has counted. `cost_of_match`
bounds regular expressions, which can take exponential time.
"""

from __future__ import annotations

import binascii
import re
from base64 import b64decode
from functools import lru_cache
from typing import Any

from jmespath.functions import Functions, signature

from edge.formats.fields import Unreadable, number
from edge.formats.framing import bare
from edge.validation import json_text

LONGEST_PATTERN = 200
_ESCAPED = re.compile(r"\\(?![1-9]).", re.DOTALL)
_REFUSED = re.compile(r"\(\?(?!:)|\\[1-9]|\)[*+?{]")  # look-around and flags, back-references, repeated groups
_REPEATED = re.compile(r"[*+]|\{[0-9]*,[0-9]*\}")
# A fixed number of characters, or digits up to another character that must follow: only one length can match.
_OF_ONE_LENGTH = re.compile(
    r"\{[0-9]+\}|(?<!\\)(?:\\d|\[0-9\])(?:[*+]|\{[0-9]*,[0-9]*\})"
    r"(?=\)?(?:\\[^\w]|[A-Za-z _:;,/=@<>~%&'\"!#-])(?![?*{]))"
)
_DOUBLING = re.compile(r"[?|]")


class MappingFunctions(Functions):  # type: ignore[misc, unused-ignore]
    """The functions of JMESPath, and `base64`, `hex`, `items`, `json`, `match`, `number`, `scale`, `split`, `zip`."""

    @signature({"types": ["string", "null"]})
    def _func_base64(self, text: str | None) -> str | None:
        """Return the text that is encoded; bytes that are no text become hexadecimal."""
        data = _bytes_of(text)
        if data is None:
            return None
        try:
            return data.decode()
        except UnicodeDecodeError:
            return data.hex().upper()

    @signature({"types": ["string", "null"]})
    def _func_hex(self, text: str | None) -> str | None:
        """Return base64 as hexadecimal."""
        data = _bytes_of(text)
        return None if data is None else data.hex().upper()

    @signature({"types": ["object", "null"]})
    def _func_items(self, entry: dict[str, Any] | None) -> list[Any] | None:
        """Return the fields of an object as a list of `key` and `value`."""
        return None if entry is None else [{"key": key, "value": value} for key, value in entry.items()]

    @signature({"types": ["string", "null"]})
    def _func_json(self, text: str | None) -> Any:
        """Return the value of a JSON text."""
        return None if text is None else json_text.decode(bare(text.encode()))

    @signature({"types": ["string", "null"]}, {"types": ["string"]})
    def _func_match(self, text: str | None, pattern: str) -> str | None:
        """Return the part of a text that matches, or its first group."""
        match = _compiled(pattern).search(text) if text is not None else None
        return None if match is None else match[1] if match.re.groups else match[0]

    @signature({"types": ["string", "number", "null"]}, {"types": ["number"], "variadic": True})
    def _func_scale(self, value: object, *factors: float) -> float | None:
        """Return the value times a factor, plus an offset if there is a third argument."""
        try:
            counted = number(value, "the value")
        except Unreadable as error:
            raise ValueError(str(error)) from None
        factor, offset = (*factors, 0.0)[:2]
        return None if counted is None else round(counted * factor + offset, 9)

    @signature({"types": ["string", "null"]}, {"types": ["string"]})
    def _func_split(self, text: str | None, separator: str) -> list[str] | None:
        return None if text is None else text.split(separator)

    @signature({"types": ["string", "null"]}, {"types": ["number"]}, {"types": ["number"]})
    def _func_part(self, text: str | None, start: int, end: int) -> str | None:
        """Return some characters of a text. Negative positions count from the end; 0 as `end` is the end."""
        return None if text is None else text[int(start) : int(end) or None]

    @signature({"types": ["string", "null"]})
    def _func_hex_number(self, text: str | None) -> int | None:
        """Return the whole number that is written in hexadecimal."""
        return None if text is None else int(text[:16], 16)

    @signature({"types": ["array", "null"], "variadic": True})
    def _func_zip(self, *lists: list[Any] | None) -> list[list[Any]]:
        """Return entries with one value from each list. Lists end with the first; missing values are null."""
        length = len(lists[0] or ())
        return [[one[at] if one and at < len(one) else None for one in lists] for at in range(length)]


def cost_of_match(text: str, pattern: str) -> int:
    """Return an upper bound of the characters that a search compares.

    Each repetition may try all lengths of the text, each option and alternative two ways, from each character of it.
    """
    pattern, of_one_length = _OF_ONE_LENGTH.subn("", pattern)
    bare_pattern = _ESCAPED.sub("x", pattern)
    repeated, doubling = len(_REPEATED.findall(bare_pattern)), len(_DOUBLING.findall(bare_pattern))
    length: int = len(text) + 1
    return int(min(float(length) ** (repeated + 1 + bool(of_one_length)) * 2.0**doubling, 1e12))


@lru_cache(maxsize=256)
def _compiled(pattern: str) -> re.Pattern[str]:
    """Raise ValueError for a pattern that is not allowed."""
    if len(pattern) > LONGEST_PATTERN:
        raise ValueError(f"the pattern is longer than {LONGEST_PATTERN} characters")
    if match := _REFUSED.search(_ESCAPED.sub("x", pattern)):
        raise ValueError(f"{match[0]} is not allowed in a pattern")
    try:
        return re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(f"{pattern} is not a pattern: {error}") from None


def _bytes_of(text: str | None) -> bytes | None:
    if text is None:
        return None
    stripped = text.strip()
    try:
        return b64decode(stripped + "=" * (-len(stripped) % 4), altchars="-_" if set(stripped) & {"-", "_"} else None)
    except (binascii.Error, ValueError):
        raise ValueError("the text is not base64") from None
