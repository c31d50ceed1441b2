"""Escapes text from outside before it is printed to a terminal, which interprets some characters as commands."""

from __future__ import annotations

import io
from typing import TextIO


def printable(text: str) -> str:
    r"""Escape characters that cannot be printed, such as line breaks and escape codes, in Python's notation: `\x9b`."""
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in text)


class PrintableStream(io.TextIOBase):
    """Wraps a terminal's stream. Only line breaks pass unchanged."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        self._stream.write("\n".join(map(printable, text.split("\n"))))
        return len(text)

    def flush(self) -> None:
        self._stream.flush()

    def isatty(self) -> bool:
        return self._stream.isatty()

    def writable(self) -> bool:
        return True
