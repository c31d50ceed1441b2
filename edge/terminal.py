"""Text from outside, made safe for an administrator's terminal, to which some characters are commands."""

from __future__ import annotations

import io
from typing import TextIO


def printable(text: str) -> str:
    """Characters that cannot be printed, escape codes and line ends among them, as Python writes them: `\\x9b`."""
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in text)


class PrintableStream(io.TextIOBase):
    """In front of a terminal's stream. Only line ends pass as they are."""

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
