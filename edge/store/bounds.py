"""How much is kept of what nobody asked for.

Bounded for each reader by itself: none can fill the disk, make a sweep take long, or push out what another one sent.
"""

from __future__ import annotations

from typing import NamedTuple


class Bounds(NamedTuple):
    """What is kept of one reader's; of topics, of one organization's. What comes beyond is counted in the ledger."""

    unknown_tags: int = 5_000
    dead_letters: int = 1_000
    dead_letter_bytes: int = 4 * 1024 * 1024
    unassigned_topics: int = 1_000


DEFAULT = Bounds()
MOST_PORTS = 256  # antennas of one reader that are shown


def until_swept(keep: int) -> int:
    """What may gather between two sweeps: when the bound itself was the end, a new tag would find no room."""
    return keep + keep // 4
