"""Data of another box that was refused, with the reason. People see it on the page Sync."""

from __future__ import annotations

from collections.abc import Mapping

from edge import clock
from edge.database.connection import execute, execute_many

MOST_ASIDE = 1000  # entries per peer
MOST_REASON = 1000  # characters


def set_aside(peer_no: int, item: str, reason: str) -> None:
    """Record refused data with the reason. Only the newest `MOST_ASIDE` entries per peer are kept."""
    set_all_aside(peer_no, {item: reason})


def set_all_aside(peer_no: int, reasons: Mapping[str, str]) -> None:
    """Record refused data by item. Of too many, the last ones."""
    if not reasons:
        return
    now = clock.now()
    execute_many(
        "INSERT INTO set_aside (peer, what, reason, since) VALUES (?, ?, ?, ?) "
        "ON CONFLICT DO UPDATE SET reason = excluded.reason WHERE reason <> excluded.reason",
        [(peer_no, item, reason[:MOST_REASON], now) for item, reason in list(reasons.items())[-MOST_ASIDE:]],
    )
    execute(
        "DELETE FROM set_aside WHERE peer = ?1 AND what IN (SELECT what FROM set_aside WHERE peer = ?1 "
        "ORDER BY since DESC LIMIT -1 OFFSET ?2)",
        (peer_no, MOST_ASIDE),
    )
