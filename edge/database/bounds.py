"""Limits for unsolicited data.

Each reader has its own limits: none can fill the disk, slow down a sweep, or displace another reader's data.
"""

from __future__ import annotations

from typing import NamedTuple


class Bounds(NamedTuple):
    """Limits per reader; `unassigned_topics` per organization. Excess data is only counted, in the ledger."""

    unknown_tags: int = 5_000
    dead_letters: int = 1_000
    dead_letter_bytes: int = 4 * 1024 * 1024
    unassigned_topics: int = 1_000


DEFAULT = Bounds()
MOST_PORTS = 256  # displayed antennas per reader


def hard_limit(keep: int) -> int:
    """Return the limit between sweeps: 25 % above `keep`, so that new rows fit until the next sweep."""
    return keep + keep // 4
