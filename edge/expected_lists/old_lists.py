"""Retention of expected lists."""

from __future__ import annotations

from edge.database.connection import execute, writing

ROWS = 2_000

_DETAILS = (
    "DELETE FROM expected_line WHERE (list_id, no) IN "
    "(SELECT list_id, no FROM expected_line WHERE list_id = ? LIMIT ?)",
    "DELETE FROM expected_item WHERE (list_id, asset_id) IN "
    "(SELECT list_id, asset_id FROM expected_item WHERE list_id = ? LIMIT ?)",
)


def drop_expected_lists(before: int, limit: int = ROWS) -> int:
    """Delete up to `limit` rows of one list signed off, or else created, before a time. Returns the number of rows."""
    old = execute("SELECT id FROM expected_list WHERE ifnull(signed_at, created_at) < ? LIMIT 1", (before,)).fetchone()
    if old is None:
        return 0
    with writing():
        dropped = (execute(sql, (old[0], limit)).rowcount for sql in _DETAILS)
        return next(filter(None, dropped), 0) or execute("DELETE FROM expected_list WHERE id = ?", old).rowcount
