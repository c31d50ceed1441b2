"""Assets marked as lost. The mark ends with the next sighting."""

from __future__ import annotations

from edge.audit.actors import Actor
from edge.audit.audit import Subject, acting
from edge.database.connection import execute, find_scalar
from edge.tracking.shown_positions import SHOWN


def mark_lost(sender: Actor, asset_id: int, at: int, *, is_lost: bool) -> bool:
    """Mark an asset as lost until it is seen after `at`, or remove the mark. Returns False if it does not exist."""
    with acting(sender) as act:
        sql = "SELECT name, external_key FROM asset WHERE id = ? AND organization_id = ? AND deleted_at IS NULL"
        row = execute(sql, (asset_id, sender.organization_id)).fetchone()
        if row is None:
            return False
        execute("DELETE FROM lost_asset WHERE asset_id = ?", (asset_id,))
        if is_lost:
            values = (asset_id, sender.organization_id, at, sender.person_id)
            execute(
                "INSERT INTO lost_asset (asset_id, organization_id, marked_at, marked_by) VALUES (?, ?, ?, ?)", values
            )
        action = "asset.marked_lost" if is_lost else "asset.unmarked_lost"
        act.note(action, Subject("asset", asset_id, f"{row[0]} ({row[1]})"))
    return True


def lost_since(organization_id: int, asset_id: int) -> int | None:
    """Return the time of the mark if the asset has not been seen since, as far as this request may show it."""
    sql = (
        f"SELECT lost.marked_at FROM lost_asset lost LEFT JOIN {SHOWN} position ON position.asset_id = lost.asset_id "
        "WHERE lost.organization_id = ? AND lost.asset_id = ? AND ifnull(position.last_seen_at, 0) < lost.marked_at"
    )
    return find_scalar(sql, (organization_id, asset_id))
