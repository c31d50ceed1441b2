"""The triggers of sync, which a database has only while it needs them.

They belong to the schema, and a backup that contains any other trigger is refused. Change one only together with a new
step in `migrations/` that creates it anew.

The triggers of outbound events, which a database has only while there is a destination for them.

They belong to the schema, and a backup with any other trigger is refused, as with those of `sync_triggers`. None of
them fires for a sighting that only changes when an asset was last seen: those are nearly all writes of an ingest batch.
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
    # Retention moves the horizon first, so that what it drops then is not a change.
    "change_stay_removed": (
        "DELETE ON history WHEN old.observed_at + old.seen_for >= (SELECT horizon FROM target)",
        "1, old.position_no, old.observed_at",
    ),
    # When one of several people who made the same row of history undoes his scan, the row stays.
    "change_scan_undone": (
        "UPDATE OF undone_at ON handheld_scan WHEN new.asset_id IS NOT NULL",
        "1, ifnull((SELECT no FROM track WHERE asset_id = new.asset_id AND site_no IS NULL), 0), new.observed_at",
    ),
    # There is none for changes of a track: it would fire for every read. See the table `told`.
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


# By name, for `edge.sync.store.change_feed`. A site also sends what it tracks; a hub sends its sites master data only.
FEED_OF_HUB = _feed(_MASTER)
FEED_OF_SITE = _feed({**_MASTER, **_TRACKING})

_NEWEST = (
    "UPDATE track SET is_newest = (no = (SELECT no FROM track AS other WHERE other.asset_id = track.asset_id "
    "ORDER BY other.last_seen_at DESC, other.no LIMIT 1)) WHERE asset_id = {0}; "
)

# Only a hub has more than one track of an asset, so only there it has to be kept which is the newest.
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

TRIGGERS = {
    name: f"CREATE TRIGGER IF NOT EXISTS {name} AFTER {event} "
    f"BEGIN INSERT INTO event_candidate (kind, key) VALUES ({values}); END"
    for name, (event, values) in _EVENTS.items()
}
