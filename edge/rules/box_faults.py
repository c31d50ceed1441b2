"""Faults of the box, for rules about its health."""

from __future__ import annotations

from edge import clock
from edge.database.connection import execute, writing
from edge.rules.conditions import Condition

MAX_TEXT = 250


def is_needed() -> bool:
    """Return True if an enabled rule is about the health of the box."""
    sql = "SELECT 1 FROM rule WHERE kind = ? AND deleted_at IS NULL AND disabled_at IS NULL LIMIT 1"
    return execute(sql, (Condition.UNHEALTHY,)).fetchone() is not None


def record(text: str) -> None:
    """Store what is wrong now; an empty text if nothing is. Writes only changes."""
    text = text[:MAX_TEXT]
    row = execute("SELECT text FROM box_fault").fetchone()
    if (row[0] if row else "") == text:
        return
    with writing():
        if text:
            execute(
                "INSERT INTO box_fault (one, since, text) VALUES (1, ?, ?) "
                "ON CONFLICT DO UPDATE SET text = excluded.text",
                (clock.now(), text),
            )
        else:
            execute("DELETE FROM box_fault")
