"""The change feed: which rows changed, in the order of the commits.

It is filled by triggers, so that no write can pass it by, whichever part or process makes it; and the triggers exist
only while somebody wants the feed, so that a box without sync pays nothing. Only keys are kept: what a row is now is
read when it is sent, so the feed can be lost, or sent twice, and nothing is wrong.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

from edge.store.database import execute, writing


class Kind(IntEnum):
    """What changed; the letters are the columns of `change`."""

    STAY = 1  # the history rows of track `a` at the time `b`
    ASSET = 2  # asset `a`, or its tags
    LOCATION = 3
    READER = 4  # the name of reader `a`
    PERSON = 5
    TRACK = 6  # track `a` is new or gone, or its last sighting changed in a way that asking for the newest misses
    RANGE = 7  # all history rows of track `a` that begin from `b` to `c`: a repair or a first copy


class Change(NamedTuple):
    seq: int
    kind: int
    a: int
    b: int | None
    c: int | None


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
    # Retention moves the horizon first, and what it drops then is no news.
    "change_stay_removed": (
        "DELETE ON history WHEN old.observed_at + old.seen_for >= (SELECT horizon FROM target)",
        "1, old.position_no, old.observed_at",
    ),
    # The row of history may stay when one of the people who made it takes his scan back.
    "change_scan_undone": (
        "UPDATE OF undone_at ON handheld_scan WHEN new.asset_id IS NOT NULL",
        "1, ifnull((SELECT no FROM track WHERE asset_id = new.asset_id AND site_no IS NULL), 0), new.observed_at",
    ),
    "change_track_added": ("INSERT ON track", "6, new.no, NULL"),
    "change_track_removed": ("DELETE ON track", "6, old.no, NULL"),
    # Nearly all sightings are newer than all that was sent, and are found by asking for the newest.
    "change_track_back": (
        "UPDATE OF last_seen_at ON track "
        "WHEN new.last_seen_at <> old.last_seen_at AND new.last_seen_at <= (SELECT now_at FROM target)",
        "6, new.no, NULL",
    ),
    "change_reader_renamed": ("UPDATE OF name ON reader WHEN new.name <> old.name", "4, new.id, NULL"),
    "change_person_renamed": ("UPDATE OF name ON person WHEN new.name <> old.name", "5, new.id, NULL"),
}


def start(*, tracking: bool) -> None:
    """Fill the feed from now on. A site tells also what it tracks; a hub tells its sites master data only."""
    with writing():
        for name, (event, values) in {**_MASTER, **(_TRACKING if tracking else {})}.items():
            body = f"BEGIN INSERT INTO change (kind, a, b) VALUES ({values}); END"  # noqa: S608  all of it is ours
            execute(f"CREATE TRIGGER IF NOT EXISTS {name} AFTER {event} {body}")


def stop() -> None:
    """Nobody wants the feed any more."""
    with writing():
        for name in (*_MASTER, *_TRACKING):
            execute(f"DROP TRIGGER IF EXISTS {name}")
        execute("DELETE FROM change")


def after(seq: int, limit: int) -> list[Change]:
    found = execute("SELECT seq, kind, a, b, c FROM change WHERE seq > ? ORDER BY seq LIMIT ?", (seq, limit))
    return [Change(*row) for row in found]


def newest() -> int:
    """The last number that was given out, also when its row was dropped since."""
    row = execute("SELECT seq FROM sqlite_sequence WHERE name = 'change'").fetchone()
    return row[0] if row else 0


def oldest_kept() -> int:
    """All changes from this number on are there."""
    row = execute("SELECT min(seq) FROM change").fetchone()
    return newest() + 1 if row[0] is None else row[0]


def count_after(seq: int) -> int:
    return newest() - max(seq, oldest_kept() - 1)


def add_range(track: int, since: int, until: int) -> None:
    """Have the history of a track sent as it is now."""
    execute("INSERT INTO change (kind, a, b, c) VALUES (?, ?, ?, ?)", (Kind.RANGE, track, since, until))


def add_everything(organization_id: int) -> None:
    """Have everything sent as it is now, what is named before what names it: a first copy."""
    with writing():
        add_names(organization_id)
        execute(
            "INSERT INTO change (kind, a, b, c) SELECT 7, no, -(1 << 61), 1 << 61 FROM track "
            "WHERE organization_id = ? AND site_no IS NULL ORDER BY no",
            (organization_id,),
        )


def add_names(organization_id: int) -> None:
    """Have all records and tracks sent as they are now, but no history."""
    with writing():
        for sql in (
            "INSERT INTO change (kind, a) SELECT 3, id FROM location WHERE organization_id = ? ORDER BY id",
            "INSERT INTO change (kind, a) SELECT 2, id FROM asset WHERE organization_id = ? ORDER BY id",
            "INSERT INTO change (kind, a) SELECT 6, no FROM track WHERE organization_id = ? AND site_no IS NULL "
            "ORDER BY no",
        ):
            execute(sql, (organization_id,))


def keys_after(kind: Kind, seq: int, limit: int) -> list[int]:
    """Of one kind, wherever they are in the feed."""
    found = execute("SELECT DISTINCT a FROM change WHERE seq > ? AND kind = ? LIMIT ?", (seq, kind, limit))
    return [row[0] for row in found]


def trim(until_seq: int, limit: int) -> int:
    """Forget the oldest changes up to a number; how many went."""
    with writing():
        return execute(
            "DELETE FROM change WHERE seq IN (SELECT seq FROM change WHERE seq <= ? ORDER BY seq LIMIT ?)",
            (until_seq, limit),
        ).rowcount
