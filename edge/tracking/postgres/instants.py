"""When the rows of a batch begin that it has changed, as the open feed names them.

They are stored with the cursor of each batch while the feed has readers, so they are packed: about 6 bytes for each.
"""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Collection, Iterable

MOST = 50_000  # of a batch; the feed then sends all rows of its tracks
Instant = tuple[int, int]  # track, observed_at


def more(known: set[Instant], *keys: Iterable[tuple[int, int, int]]) -> set[Instant] | None:
    """Add the instants of rows, or return None if they are too many."""
    for rows in keys:
        known.update((track, at) for track, at, _ in rows)
    return known if len(known) <= MOST else None


def pack(changed: Collection[Instant]) -> str:
    rows = sorted(changed)
    numbers = [*(track for track, _ in rows), *(at for _, at in rows)]
    return base64.b85encode(zlib.compress(struct.pack(f"<{len(numbers)}q", *numbers), 1)).decode()


def unpack(text: str) -> list[Instant]:
    packed = zlib.decompress(base64.b85decode(text))
    numbers = struct.unpack(f"<{len(packed) // 8}q", packed)
    half = len(numbers) // 2
    return list(zip(numbers[:half], numbers[half:], strict=True))
