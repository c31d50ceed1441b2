"""Rows of numbers as a short text, stored with the cursor of a batch."""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Sequence


def pack(rows: Sequence[tuple[int, ...]]) -> str:
    """Return the text of rows of the same length. Sorted rows need less."""
    numbers = [number for column in zip(*rows, strict=True) for number in column]
    return base64.b85encode(zlib.compress(struct.pack(f"<{len(numbers)}q", *numbers), 1)).decode()


def unpack(text: str, columns: int) -> list[tuple[int, ...]]:
    packed = zlib.decompress(base64.b85decode(text))
    numbers = struct.unpack(f"<{len(packed) // 8}q", packed)
    length = len(numbers) // columns
    return list(zip(*(numbers[start : start + length] for start in range(0, len(numbers), length or 1)), strict=True))
