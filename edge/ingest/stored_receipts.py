"""Receipts of the messages committed last, so that a redelivery is recognised after a restart."""

from __future__ import annotations

from edge.database.connection import execute

PACKET_IDS = 65_535  # how many MQTT has


def keep(number: int, entries: bytes) -> None:
    """For messages that are committed now and acknowledged afterwards; `number` counts them from the first one ever."""
    execute("INSERT INTO receipt (number, entries) VALUES (?, ?)", (number, entries))
    execute("DELETE FROM receipt WHERE number <= ?", (number - PACKET_IDS,))


def load() -> list[tuple[int, bytes]]:
    return list(execute("SELECT number, entries FROM receipt ORDER BY number"))
