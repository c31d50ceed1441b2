"""How much is kept of what arrives without being asked for.

Each reader has bounds of its own: none can fill the disk, make a sweep slow, or push out what another one sent.
"""

from __future__ import annotations

from typing import NamedTuple


class Bounds(NamedTuple):
    """Per reader; `unassigned_topics` per organization. Whatever comes beyond is only counted, in the ledger."""

    unknown_tags: int = 5_000
    dead_letters: int = 1_000
    dead_letter_bytes: int = 4 * 1024 * 1024
    unassigned_topics: int = 1_000


DEFAULT = Bounds()
MOST_PORTS = 256  # antennas of one reader that are shown


def until_swept(keep: int) -> int:
    """How many may gather between two sweeps: with a hard limit at the bound, a new tag would find no room."""
    return keep + keep // 4
