"""Positions that the current request may show.

Assets can be people (`edge.tracking.tracked_people`). For requests that may not see where people are, lists treat them
like assets that were never seen. `hides_people()` is set for each request, see `edge.database.connection.hide_people`.
Decisions, retention and sync read all positions.
"""

from __future__ import annotations

from edge.database.connection import are_people_hidden, execute

# In place of the view `position`.
SHOWN = """(
    SELECT asset_id, organization_id, location_id, last_seen_at, dwell_started_at, is_retired
    FROM position WHERE NOT hides_people() OR is_person = 0
)"""


def is_shown(track: str) -> str:
    """Return the condition that a row of a track may be shown. `track` is its alias."""
    return f"(NOT hides_people() OR {track}.is_person = 0)"


def is_asset_shown(asset_id: str) -> str:
    """Return the condition that positions of an asset may be shown. `asset_id` is its column."""
    return f"(NOT hides_people() OR {asset_id} NOT IN (SELECT asset_id FROM tracked_person))"


def is_hidden(asset_id: int) -> bool:
    """Return True if this request may not show where this asset is, because it is a person."""
    if not are_people_hidden():
        return False
    return execute("SELECT 1 FROM tracked_person WHERE asset_id = ?", (asset_id,)).fetchone() is not None
