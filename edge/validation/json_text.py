"""JSON texts of plain values, and plain values of JSON texts.

Request bodies of the API are read by `strict_json`, which also refuses double keys and keeps numbers as written.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from msgspec import Raw as Raw  # a JSON text that `encode` takes over as it is
from msgspec import Struct as Struct  # encoded in half the time of a dictionary


def _plain(value: Any) -> str:
    """Return a text that is a subclass of `str`, which msgspec does not know, as a plain one."""
    if isinstance(value, str):
        return str(value)
    raise TypeError(f"{type(value).__name__} is not JSON")


def struct(name: str, fields: Sequence[str]) -> type[Struct]:
    """Return a type of JSON objects with these keys, without cycles for the collector."""
    return msgspec.defstruct(name, [(field, Any) for field in fields], gc=False)


encode: Callable[[Any], bytes] = msgspec.json.Encoder(enc_hook=_plain).encode
_decode: Callable[[bytes | str], Any] = msgspec.json.Decoder().decode


class NotJson(ValueError):
    """A text is not JSON, or it is nested too deep."""


def text(value: Any) -> str:
    """Return the JSON text of a value as a string."""
    return encode(value).decode()


def indented(value: Any) -> bytes:
    """Return the JSON text of a value for people, with two spaces for each level."""
    return msgspec.json.format(encode(value), indent=2)


def decoder(kind: Any) -> Callable[[bytes | str], Any]:
    """Return a function that decodes JSON texts of one type. It raises NotJson if a text has another."""
    typed: Callable[[bytes | str], Any] = msgspec.json.Decoder(kind).decode

    def decode_typed(content: bytes | str) -> Any:
        try:
            return typed(content)
        except (msgspec.DecodeError, UnicodeError) as error:
            raise NotJson(str(error)) from None

    return decode_typed


raw: Callable[[str], Raw] = decoder(Raw)  # a JSON text to take over as it is; raises NotJson


def raw_or_none(content: str) -> Raw | None:
    """Return a stored JSON text to take over as it is, or None if it is damaged."""
    try:
        return raw(content)
    except NotJson:
        return None


def decode(content: bytes | str) -> Any:
    """Return the value of a JSON text. Integers may have any size. Raises NotJson."""
    try:
        return _decode(content)
    except RecursionError:
        raise NotJson("nested too deep") from None
    except (msgspec.DecodeError, UnicodeError) as error:
        raise NotJson(str(error)) from None
