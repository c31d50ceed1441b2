"""How far a hub is in the data of each site."""

from __future__ import annotations

from edge import clock
from edge.database.connection import execute
from edge.sync.store.exchange import Cursor


def cursor_of(site_no: int) -> Cursor:
    """Return the hub's position in the site's data."""
    return Cursor(*execute("SELECT epoch, acked_seq, chain FROM site WHERE no = ?", (site_no,)).fetchone())


def move_cursor(site_no: int, done: Cursor, horizon: int) -> None:
    execute(
        "UPDATE site SET acked_seq = ?, chain = ?, horizon = max(horizon, ?), last_commit_at = ? WHERE no = ?",
        (done.acked_seq, done.chain, horizon, clock.now(), site_no),
    )
