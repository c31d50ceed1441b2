"""The triggers of outbound events, which a database has only while there is a destination for them.

They belong to the schema, and a backup with any other trigger is refused, as with those of `sync_triggers`. None of
them fires for a sighting that only changes when an asset was last seen: those are nearly all writes of an ingest batch.
"""

from __future__ import annotations

_EVENTS = {
    "event_stay_added": ("INSERT ON history", "1, new.position_no"),
    "event_moved": (
        "UPDATE OF location_id, asset_id, is_newest ON track WHEN new.location_id <> old.location_id "
        "OR new.asset_id <> old.asset_id OR new.is_newest <> old.is_newest",
        "1, new.no",
    ),
    "event_track_removed": ("DELETE ON track", "2, old.asset_id"),
    "event_asset_added": ("INSERT ON asset", "3, new.id"),
    "event_asset_changed": ("UPDATE ON asset", "3, new.id"),
    "event_tag_added": ("INSERT ON tag WHEN new.asset_id IS NOT NULL", "3, new.asset_id"),
    "event_tag_changed": ("UPDATE ON tag WHEN new.asset_id IS NOT NULL", "3, new.asset_id"),
}

TRIGGERS = {
    name: f"CREATE TRIGGER IF NOT EXISTS {name} AFTER {event} "
    f"BEGIN INSERT INTO event_candidate (kind, key) VALUES ({values}); END"
    for name, (event, values) in _EVENTS.items()
}
