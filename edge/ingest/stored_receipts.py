"""Receipts of the last committed messages on disk, to recognize redeliveries after a restart."""

from __future__ import annotations

from edge.database.connection import execute

PACKET_IDS = 65_535  # number of packet IDs in MQTT


def keep(number: int, entries: bytes) -> None:
    """Store receipts in the caller's transaction. `number`: running number of the last message."""
    execute("INSERT INTO receipt (number, entries) VALUES (?, ?)", (number, entries))
    execute("DELETE FROM receipt WHERE number <= ?", (number - PACKET_IDS,))


def load() -> list[tuple[int, bytes]]:
    """Return (number, entries), oldest first."""
    return list(execute("SELECT number, entries FROM receipt ORDER BY number"))
