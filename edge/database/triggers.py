"""Optional triggers, which exist only while sync or outbound events need them.

They are part of the schema, and a backup with any other trigger is refused. To change one, add a migration that creates
it again. No event trigger fires for reads that only change a last-seen time, since those are nearly all writes of an
ingest batch.
"""

from __future__ import annotations

_MASTER = {
    "change_asset_added": ("INSERT ON asset", "2, new.id, NULL"),
    "change_asset_changed": ("UPDATE ON asset", "2, new.id, NULL"),
    "change_location_added": ("INSERT ON location", "3, new.id, NULL"),
    "change_location_changed": ("UPDATE ON location", "3, new.id, NULL"),
    "change_tag_added": (
        "INSERT ON tag",
        "iif(new.asset_id IS NULL, 3, 2), ifnull(new.asset_id, new.location_id), NULL",
    ),
    "change_tag_changed": (
        "UPDATE ON tag",
        "iif(new.asset_id IS NULL, 3, 2), ifnull(new.asset_id, new.location_id), NULL",
    ),
}
_TRACKING = {
    "change_stay_added": ("INSERT ON history", "1, new.position_no, new.observed_at"),
    "change_stay_changed": ("UPDATE ON history", "1, new.position_no, new.observed_at"),
    # Retention moves the horizon first, so its deletions are not changes.
    "change_stay_removed": (
        "DELETE ON history WHEN old.observed_at + old.seen_for >= (SELECT horizon FROM target)",
        "1, old.position_no, old.observed_at",
    ),
    # If several people scanned the same history row, one undo leaves the row.
    "change_scan_undone": (
        "UPDATE OF undone_at ON handheld_scan WHEN new.asset_id IS NOT NULL",
        "1, ifnull((SELECT no FROM track WHERE asset_id = new.asset_id AND site_no IS NULL), 0), new.observed_at",
    ),
    # No trigger for track updates: it would fire for every read. See the table `told`.
    "change_track_removed": ("DELETE ON track", "6, old.no, NULL"),
    "change_reader_renamed": ("UPDATE OF name ON reader WHEN new.name <> old.name", "4, new.id, NULL"),
    "change_person_renamed": ("UPDATE OF name ON person WHEN new.name <> old.name", "5, new.id, NULL"),
}


def _feed(events: dict[str, tuple[str, str]]) -> dict[str, str]:
    return {
        name: f"CREATE TRIGGER IF NOT EXISTS {name} AFTER {event} "
        f"BEGIN INSERT INTO change (kind, a, b) VALUES ({values}); END"
        for name, (event, values) in events.items()
    }


# Triggers by name. A site feeds tracking data too; a hub feeds master data only.
FEED_OF_HUB = _feed(_MASTER)
FEED_OF_SITE = _feed({**_MASTER, **_TRACKING})

_NEWEST = (
    "UPDATE track SET is_newest = (no = (SELECT no FROM track AS other WHERE other.asset_id = track.asset_id "
    "ORDER BY other.last_seen_at DESC, other.no LIMIT 1)) WHERE asset_id = {0}; "
)

# Only a hub has several tracks per asset, so only a hub marks the newest.
NEWEST_TRACK = {
    name: f"CREATE TRIGGER IF NOT EXISTS {name} AFTER {event} BEGIN {''.join(map(_NEWEST.format, assets))}END"
    for name, event, assets in (
        ("track_newest_added", "INSERT ON track", ("new.asset_id",)),
        ("track_newest_seen", "UPDATE OF last_seen_at ON track", ("new.asset_id",)),
        ("track_newest_moved", "UPDATE OF asset_id ON track", ("old.asset_id", "new.asset_id")),
        ("track_newest_removed", "DELETE ON track", ("old.asset_id",)),
    )
}

OPTIONAL = (*FEED_OF_SITE.values(), *NEWEST_TRACK.values())


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

EVENT_TRIGGERS = {
    name: f"CREATE TRIGGER IF NOT EXISTS {name} AFTER {event} "
    f"BEGIN INSERT INTO event_candidate (kind, key) VALUES ({values}); END"
    for name, (event, values) in _EVENTS.items()
}
