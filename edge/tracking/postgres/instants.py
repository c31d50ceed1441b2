"""When the rows of a batch begin that it has changed, as the open feed names them.

They are stored with the cursor of each batch while the feed has readers, so they are packed: about 6 bytes for each.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from edge.tracking.postgres import packed

MOST = 50_000  # of a batch; the feed then sends all rows of its tracks
Instant = tuple[int, int]  # track, observed_at


def more(known: set[Instant], *keys: Iterable[tuple[int, int, int]]) -> set[Instant] | None:
    """Add the instants of rows, or return None if they are too many."""
    for rows in keys:
        known.update((track, at) for track, at, _ in rows)
    return known if len(known) <= MOST else None


def pack(changed: Collection[Instant]) -> str:
    return packed.pack(sorted(changed))


def unpack(text: str) -> list[Instant]:
    return [(track, at) for track, at in packed.unpack(text, 2)]
