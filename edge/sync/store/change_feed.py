"""Change feed: keys of changed rows, in commit order.

Triggers fill it, so every write is recorded, whichever module or process makes it. They exist only on sites and hubs;
without sync the feed costs nothing. It stores keys only and rows are read when they are sent, so a lost or repeated
change does no harm.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

from edge.database.connection import execute, execute_many, writing
from edge.database.triggers import FEED_OF_HUB, FEED_OF_SITE
from edge.tracking import copies


class Kind(IntEnum):
    """Kinds of changes; the letters are columns of `change`."""

    STAY = 1  # history rows of track `a` at time `b`
    ASSET = 2  # asset `a` or its tags
    LOCATION = 3
    READER = 4  # the name of reader `a`
    PERSON = 5
    TRACK = 6  # track `a` was deleted
    RANGE = 7  # history rows of track `a` that begin from `b` to `c` (repair or first copy)


class Change(NamedTuple):
    seq: int
    kind: int
    a: int
    b: int | None
    c: int | None


def start(*, tracking: bool) -> None:
    """Install the triggers. With `tracking` (sites) the feed includes history; a hub feeds master data only."""
    with writing():
        for statement in (FEED_OF_SITE if tracking else FEED_OF_HUB).values():
            execute(statement)


def stop() -> None:
    """Remove the triggers and empty the feed."""
    with writing():
        for name in FEED_OF_SITE:
            execute(f"DROP TRIGGER IF EXISTS {name}")
        execute("DELETE FROM change")


def after(seq: int, limit: int) -> list[Change]:
    rows = execute("SELECT seq, kind, a, b, c FROM change WHERE seq > ? ORDER BY seq LIMIT ?", (seq, limit))
    return [Change(*row) for row in rows]


def newest() -> int:
    """Return the highest number ever assigned, even if its row was dropped."""
    row = execute("SELECT seq FROM sqlite_sequence WHERE name = 'change'").fetchone()
    return row[0] if row else 0


def claim(after_seq: int) -> int | None:
    """Assign a number to a batch without changes. Returns None if there are changes to send."""
    with writing():
        if newest() != after_seq:
            return None
        execute("UPDATE sqlite_sequence SET seq = seq + 1 WHERE name = 'change'")
        if newest() == after_seq:  # the table has never had a row
            execute("INSERT INTO sqlite_sequence (name, seq) VALUES ('change', ?)", (after_seq + 1,))
        return after_seq + 1


def oldest_kept() -> int:
    """Return the number from which on all changes are kept."""
    row = execute("SELECT min(seq) FROM change").fetchone()
    return newest() + 1 if row[0] is None else row[0]


def count_after(seq: int) -> int:
    return newest() - max(seq, oldest_kept() - 1)


def add_range(track: int, since: int, until: int) -> None:
    """Queue the history of a track in a time range."""
    execute("INSERT INTO change (kind, a, b, c) VALUES (?, ?, ?, ?)", (Kind.RANGE, track, since, until))


def add_asset(asset_id: int) -> None:
    """Queue an asset, for changes that do not write its row."""
    execute("INSERT INTO change (kind, a) VALUES (?, ?)", (Kind.ASSET, asset_id))


def add_everything(organization_id: int) -> None:
    """Queue all data for a first copy, records before the history that refers to them."""
    with writing():
        add_names(organization_id)
        execute_many(
            "INSERT INTO change (kind, a, b, c) VALUES (?, ?, -(1 << 61), 1 << 61)",
            [(Kind.RANGE, no) for no in copies.own_tracks(organization_id)],
        )


def add_names(organization_id: int) -> None:
    """Queue all records without history."""
    with writing():
        for sql in (
            "INSERT INTO change (kind, a) SELECT 3, id FROM location WHERE organization_id = ? ORDER BY id",
            "INSERT INTO change (kind, a) SELECT 2, id FROM asset WHERE organization_id = ? ORDER BY id",
        ):
            execute(sql, (organization_id,))


def tracks_after(seq: int) -> set[int]:
    """Return the tracks with history changes after `seq`."""
    kinds = (Kind.STAY, Kind.RANGE)
    return {row[0] for row in execute("SELECT DISTINCT a FROM change WHERE seq > ? AND kind IN (?, ?)", (seq, *kinds))}


def trim(until_seq: int, limit: int) -> int:
    """Drop the oldest changes up to a number. Returns how many."""
    with writing():
        return execute(
            "DELETE FROM change WHERE seq IN (SELECT seq FROM change WHERE seq <= ? ORDER BY seq LIMIT ?)",
            (until_seq, limit),
        ).rowcount
