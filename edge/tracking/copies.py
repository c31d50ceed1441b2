"""History as a whole: its retention, and its exchange between a site and its hub."""

from __future__ import annotations

from edge.database.connection import execute

# Retention ------------------------------------------------------------------------------------------------------


def oldest_end() -> int | None:
    """Return when the oldest stay ended, among those that are not the newest of their asset."""
    oldest: int | None = execute(f"SELECT min({_FIRST_END}) FROM track WHERE history_rows > 1").fetchone()[0]
    return oldest


def tracks_ended_before(before: int, limit: int) -> list[int]:
    """Return tracks with a stay that ended before a time and is not the newest of its asset."""
    found = execute(f"SELECT no FROM track WHERE history_rows > 1 AND {_FIRST_END} < ? LIMIT ?", (before, limit))
    return [no for (no,) in found]


def delete_rows_before(track: int, before: int, limit: int) -> int:
    """Delete stays that ended before a time, oldest first, never the newest of the asset. Return their number."""
    count = execute(_DELETE_BEFORE, (track, before, track, limit)).rowcount
    execute("UPDATE track SET history_rows = history_rows - ? WHERE no = ?", (count, track))
    return count


_FIRST_END = "(SELECT observed_at + seen_for FROM history WHERE position_no = no ORDER BY observed_at, seq LIMIT 1)"
_DELETE_BEFORE = """
    DELETE FROM history WHERE (position_no, observed_at, seq) IN (
        SELECT position_no, observed_at, seq FROM history
        WHERE position_no = ? AND observed_at + seen_for < ?
          AND (observed_at, seq) < (SELECT observed_at, seq FROM history AS newest WHERE newest.position_no = ?
                                    ORDER BY observed_at DESC, seq DESC LIMIT 1)
        ORDER BY observed_at, seq LIMIT ?)
"""
