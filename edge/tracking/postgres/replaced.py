"""Where and since when assets were, by the rows that a batch has replaced: webhooks with EPCIS send the differences.

They are stored with the cursor of each batch while there is such a webhook, about 10 bytes for each row.
"""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice

MOST = 50_000  # rows in one text
Key = tuple[int, int, int]  # of a row: track, observed_at, seq
Origin = tuple[int, int]  # source, delay
Row = tuple[int, int, int, int]  # track, observed_at, source, delay


class Replaced:
    """The rows that a batch has changed, with their origin before it and after it, if they existed."""

    def __init__(self) -> None:
        self._before: dict[Key, Origin | None] = {}
        self._after: dict[Key, Origin | None] = {}
        self._packed: list[str] = []

    def add(self, gone: Iterable[Key], new: Mapping[Key, Origin], there: Mapping[Key, Origin]) -> None:
        """Add rows that are deleted, and others that are written. `there`: those of both that exist."""
        for key in gone:
            self._change(key, there.get(key), None)
        for key, origin in new.items():
            self._change(key, there.get(key), origin)

    def _change(self, key: Key, before: Origin | None, after: Origin | None) -> None:
        self._before.setdefault(key, before)
        self._after[key] = after
        if len(self._after) >= MOST:
            self._pack()

    def _pack(self) -> None:
        gone, added = self._differences(self._before, self._after), self._differences(self._after, self._before)
        if gone or added:
            self._packed.append(pack([(len(gone),) * 4, *gone, *added]))
        self._before, self._after = {}, {}

    def _differences(self, some: Mapping[Key, Origin | None], others: Mapping[Key, Origin | None]) -> list[Row]:
        return sorted(
            (track, at, *origin)
            for (track, at, seq), origin in some.items()
            if origin is not None and origin != others[track, at, seq]
        )

    def texts(self) -> list[str]:
        """Return the rows as texts of at most `MOST` rows, in the order of the changes."""
        self._pack()
        return self._packed


def unpack(text: str) -> tuple[list[Row], list[Row]]:
    """Return the rows as they were before, and as they were afterwards."""
    rows = ((track, at, source, delay) for track, at, source, delay in unpack_rows(text, 4))
    count = next(rows)[0]
    return list(islice(rows, count)), list(rows)


def pack(rows: Sequence[tuple[int, ...]]) -> str:
    """Return a short text of rows of the same length. Sorted rows need less."""
    numbers = [number for column in zip(*rows, strict=True) for number in column]
    return base64.b85encode(zlib.compress(struct.pack(f"<{len(numbers)}q", *numbers), 1)).decode()


def unpack_rows(text: str, columns: int) -> list[tuple[int, ...]]:
    """Return the rows of a text of `pack`."""
    packed = zlib.decompress(base64.b85decode(text))
    numbers = struct.unpack(f"<{len(packed) // 8}q", packed)
    length = len(numbers) // columns
    return list(zip(*(numbers[start : start + length] for start in range(0, len(numbers), length or 1)), strict=True))
