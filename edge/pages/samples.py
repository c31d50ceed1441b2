"""Messages of readers, shown to a person."""

from __future__ import annotations

from typing import NamedTuple

SHOWN_BYTES = 2000


class Shown(NamedTuple):
    """Bytes as a person can read them: text where it is text, else hexadecimal."""

    text: str
    is_text: bool
    size: int


def to_edit(payload: bytes) -> tuple[str, bool]:
    """A message as it can be put into a form, and whether that is hexadecimal."""
    try:
        text = payload.decode()
    except UnicodeDecodeError:
        return payload.hex(" "), True
    return (text, False) if _is_printable(text) else (payload.hex(" "), True)


def readable(payload: bytes, size: int) -> Shown:
    """`size` is that of the whole, of which `payload` may be the beginning only."""
    start = payload[:SHOWN_BYTES]
    try:
        text = start.decode("utf-8", "strict" if size <= SHOWN_BYTES else "ignore")
    except UnicodeDecodeError:
        return Shown(start.hex(" "), is_text=False, size=size)
    if _is_printable(text):
        return Shown(text, is_text=True, size=size)
    return Shown(start.hex(" "), is_text=False, size=size)


def _is_printable(text: str) -> bool:
    return all(letter.isprintable() or letter in "\r\n\t" for letter in text)
