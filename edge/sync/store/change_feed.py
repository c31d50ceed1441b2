"""The change feed: which rows changed, in the order of the commits.

It is filled by triggers, so that no write can bypass it, whichever part or process makes it. The triggers exist only
while somebody wants the feed, so that a box without sync pays nothing. Only keys are kept; the row is read when it is
sent, so no harm is done if the feed is lost or sent twice.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

from edge.database.connection import execute, writing
from edge.database.triggers import FEED_OF_HUB, FEED_OF_SITE


class Kind(IntEnum):
    """What changed; the letters are the columns of `change`."""

    STAY = 1  # the history rows of track `a` at the time `b`
    ASSET = 2  # asset `a`, or its tags
    LOCATION = 3
    READER = 4  # the name of reader `a`
    PERSON = 5
    TRACK = 6  # track `a` is gone
    RANGE = 7  # all history rows of track `a` that begin from `b` to `c`: a repair or a first copy


class Change(NamedTuple):
    seq: int
    kind: int
    a: int
    b: int | None
    c: int | None


def start(*, tracking: bool) -> None:
    """Fill the feed from now on. A site also sends what it tracks; a hub sends its sites master data only."""
    with writing():
        for statement in (FEED_OF_SITE if tracking else FEED_OF_HUB).values():
            execute(statement)


def stop() -> None:
    """Nobody wants the feed any more."""
    with writing():
        for name in FEED_OF_SITE:
            execute(f"DROP TRIGGER IF EXISTS {name}")
        execute("DELETE FROM change")


def after(seq: int, limit: int) -> list[Change]:
    found = execute("SELECT seq, kind, a, b, c FROM change WHERE seq > ? ORDER BY seq LIMIT ?", (seq, limit))
    return [Change(*row) for row in found]


def newest() -> int:
    """The last number that was given out, even if its row has been dropped since."""
    row = execute("SELECT seq FROM sqlite_sequence WHERE name = 'change'").fetchone()
    return row[0] if row else 0


def claim(after_seq: int) -> int | None:
    """A number for a batch without changes, so that every batch has a number; None when there is a change to send."""
    with writing():
        if newest() != after_seq:
            return None
        execute("UPDATE sqlite_sequence SET seq = seq + 1 WHERE name = 'change'")
        if newest() == after_seq:  # nothing was ever in it
            execute("INSERT INTO sqlite_sequence (name, seq) VALUES ('change', ?)", (after_seq + 1,))
        return after_seq + 1


def oldest_kept() -> int:
    """All changes from this number on are still in the feed."""
    row = execute("SELECT min(seq) FROM change").fetchone()
    return newest() + 1 if row[0] is None else row[0]


def count_after(seq: int) -> int:
    return newest() - max(seq, oldest_kept() - 1)


def add_range(track: int, since: int, until: int) -> None:
    """Queue the history of a track, to be sent as it is now."""
    execute("INSERT INTO change (kind, a, b, c) VALUES (?, ?, ?, ?)", (Kind.RANGE, track, since, until))


def add_asset(asset_id: int) -> None:
    """Queue an asset, to be sent as it is now; for what changes about it without a write of its row."""
    execute("INSERT INTO change (kind, a) VALUES (?, ?)", (Kind.ASSET, asset_id))


def add_everything(organization_id: int) -> None:
    """Queue everything for a first copy, records before the history that refers to them."""
    with writing():
        add_names(organization_id)
        execute(
            "INSERT INTO change (kind, a, b, c) SELECT 7, no, -(1 << 61), 1 << 61 FROM track "
            "WHERE organization_id = ? AND site_no IS NULL ORDER BY no",
            (organization_id,),
        )


def add_names(organization_id: int) -> None:
    """Queue all records, to be sent as they are now, but no history."""
    with writing():
        for sql in (
            "INSERT INTO change (kind, a) SELECT 3, id FROM location WHERE organization_id = ? ORDER BY id",
            "INSERT INTO change (kind, a) SELECT 2, id FROM asset WHERE organization_id = ? ORDER BY id",
        ):
            execute(sql, (organization_id,))


def tracks_after(seq: int) -> set[int]:
    """The tracks whose history changed."""
    kinds = (Kind.STAY, Kind.RANGE)
    return {row[0] for row in execute("SELECT DISTINCT a FROM change WHERE seq > ? AND kind IN (?, ?)", (seq, *kinds))}


def trim(until_seq: int, limit: int) -> int:
    """Drop the oldest changes up to a number; returns how many."""
    with writing():
        return execute(
            "DELETE FROM change WHERE seq IN (SELECT seq FROM change WHERE seq <= ? ORDER BY seq LIMIT ?)",
            (until_seq, limit),
        ).rowcount
