"""Retention of expected lists."""

from __future__ import annotations

from edge.database.connection import execute
from edge.database.deletes import delete_whole

ROWS = 2_000


def drop_expected_lists(before: int, limit: int = ROWS) -> int:
    """Delete up to `limit` rows of one list signed off, or else created, before a time. Returns the number of rows."""
    old = execute("SELECT id FROM expected_list WHERE ifnull(signed_at, created_at) < ? LIMIT 1", (before,)).fetchone()
    details = {"expected_line": "no", "expected_item": "asset_id"}
    return delete_whole("expected_list", "list_id", details, old[0], limit) if old else 0
