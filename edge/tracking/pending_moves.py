"""Moves to a location that are not decided yet: the asset was read there, and the read is held back."""

from __future__ import annotations

from edge import clock
from edge.database.connection import are_people_hidden
from edge.errors import Conflict
from edge.tracking import tracked_people
from edge.tracking.held_back import UNSTORED
from edge.tracking.recent_reads import newest_first
from edge.tracking.stays import held_at


def check_none_to(location_id: int) -> None:
    """Raise Conflict while a live asset may be about to move to a location."""
    held = _count(location_id)
    if held:
        raise Conflict(
            f"location has {held} live asset(s) with an undecided read there; it is decided when the "
            "reader at their previous location reports again without them"
        )


def _count(location_id: int) -> int:
    """Return the number of live assets with a held read at a location, on disk or too recent to be there.

    Hidden people are left out.
    """
    at: dict[int, tuple[int, int]] = {}
    for asset_id, observed_at, source_no, _ in newest_first(clock.now() - UNSTORED):
        at[asset_id] = max(at.get(asset_id, (0, 0)), (observed_at, source_no))
    held = held_at(location_id, [(asset_id, *one) for asset_id, one in at.items()])
    return len(held - tracked_people.among(held) if are_people_hidden() else held)
