"""Moves to a location that are not decided yet: the asset was read there, and the read is held back."""

from __future__ import annotations

import json

from edge import clock
from edge.database.connection import execute
from edge.errors import Conflict
from edge.tracking.held_back import UNSTORED
from edge.tracking.recent_reads import newest_first


def check_none_to(location_id: int) -> None:
    """Raise Conflict while a live asset may be about to move to a location."""
    held = _count(location_id)
    if held:
        raise Conflict(
            f"location has {held} live asset(s) of which a read there is not decided yet; it is as soon as the "
            "reader where they were before is heard again without them"
        )


def _count(location_id: int) -> int:
    """Return the number of live assets with a held read at a location, on disk or too recent to be there."""
    held = {asset_id for (asset_id,) in execute(_AT, (location_id,))}
    at: dict[int, tuple[int, int]] = {}
    for asset_id, observed_at, source_no, _ in newest_first(clock.now() - UNSTORED):
        at[asset_id] = max(at.get(asset_id, (0, 0)), (observed_at, source_no))
    recent = [(asset_id, *one) for asset_id, one in at.items()]
    held |= {asset_id for (asset_id,) in execute(_RECENT_AT, (json.dumps(recent), location_id))}
    return len(held)


_LIVE = "JOIN asset a ON a.id = t.asset_id AND a.deleted_at IS NULL"
_AT = (
    f"SELECT h.asset_id FROM held_back h JOIN track t ON t.asset_id = h.asset_id AND t.site_no IS NULL {_LIVE} "
    "WHERE h.location_id = ? AND h.observed_at > t.last_seen_at AND h.location_id <> t.location_id"
)
_RECENT_AT = (
    "SELECT t.asset_id FROM json_each(?1) r JOIN track t ON t.asset_id = r.value ->> 0 AND t.site_no IS NULL "
    f"{_LIVE} JOIN source s ON s.no = r.value ->> 2 "
    "WHERE s.location_id = ?2 AND t.location_id <> ?2 AND r.value ->> 1 > t.last_seen_at"
)
