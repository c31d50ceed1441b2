"""Strict JSON parser and exact writer (interface: Fields)."""

from __future__ import annotations

import json
import math
import re
from json.encoder import encode_basestring
from typing import Any, NoReturn

from edge.errors import Unreadable

MAX_DEPTH = 64

_SURROGATE = re.compile("[\ud800-\udfff]")
_MAX_INTEGER_LENGTH = 40


class Number:
    """A number in its original text: a float would change it, and a huge integer would be slow."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text

    @property
    def is_integer(self) -> bool:
        """True if the text has no fraction and no exponent: 1.0 is not an integer."""
        return self.text.removeprefix("-").isdecimal()

    @property
    def is_finite(self) -> bool:
        """True for integers of any size, and for fractions that fit a double."""
        return self.is_integer or math.isfinite(float(self.text))


def parse(body: bytes) -> Any:
    """Return plain values; numbers other than integers of ordinary size are `Number`. Raises Unreadable."""
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Unreadable("The body is not UTF-8") from error
    if not text:
        raise Unreadable("The body is empty")
    if text.startswith("\ufeff"):
        raise Unreadable("The body begins with a byte order mark: send UTF-8 without one")
    try:
        value = _decoder.decode(text)
    except RecursionError as error:
        raise Unreadable(_TOO_DEEP) from error
    except json.JSONDecodeError as error:
        raise Unreadable(f"The body is not JSON: {error.msg} at character {error.pos}") from error
    if depth(value, MAX_DEPTH) > MAX_DEPTH:
        raise Unreadable(_TOO_DEEP)
    return value


def depth(value: Any, enough: int) -> int:
    """Return the nesting depth of objects and arrays; counting stops beyond `enough`."""
    level, level_values = 0, [value]
    while level_values and level <= enough:
        containers = [item for item in level_values if isinstance(item, dict | list)]
        if not containers:
            break
        level += 1
        level_values = [inner for item in containers for inner in (item.values() if isinstance(item, dict) else item)]
    return level


def compact(value: Any) -> str:
    """Return the shortest JSON text of a parsed value, with each number as it was written."""
    if isinstance(value, str):
        return encode_basestring(value)
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, dict):
        return "{" + ",".join(f"{encode_basestring(key)}:{compact(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(compact, value)) + "]"
    return value.text if isinstance(value, Number) else str(value)


def has_lone_surrogate(value: Any) -> bool:
    """True if any string or key has half of a surrogate pair, which cannot be encoded as UTF-8."""
    if isinstance(value, str):
        return not value.isascii() and _SURROGATE.search(value) is not None
    if isinstance(value, dict):
        return any(has_lone_surrogate(key) or has_lone_surrogate(inner) for key, inner in value.items())
    return isinstance(value, list) and any(map(has_lone_surrogate, value))


def has_infinite_number(value: Any) -> bool:
    if isinstance(value, Number):
        return not value.is_finite
    if isinstance(value, dict):
        return any(map(has_infinite_number, value.values()))
    return isinstance(value, list) and any(map(has_infinite_number, value))


def type_name(value: Any) -> str:
    """Return the JSON name of a parsed value's type."""
    for types, name in _TYPE_NAMES:
        if isinstance(value, types):
            return name
    return "null"


_TYPE_NAMES: tuple[tuple[Any, str], ...] = (
    (bool, "boolean"),
    ((int, Number), "number"),
    (str, "string"),
    (list, "array"),
    (dict, "object"),
)
_TOO_DEEP = f"The body is nested deeper than {MAX_DEPTH} levels"


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise Unreadable("The body has the same key twice in one object")
    return members


def _integer(text: str) -> int | Number:
    """Keep numbers far beyond int64 as text, because converting them is slow, and -0 because of its sign."""
    return int(text) if len(text) <= _MAX_INTEGER_LENGTH and text != "-0" else Number(text)


def _constant(name: str) -> NoReturn:
    raise Unreadable(f"The body is not JSON: {name}")


_decoder = json.JSONDecoder(object_pairs_hook=_object, parse_int=_integer, parse_float=Number, parse_constant=_constant)
