"""The log of changes: keys of changed rows in commit order, for all followers.

Triggers fill it (`edge.database.triggers.LOGGED`), so every write is recorded, whichever module or process makes it. A
trigger exists only while a follower needs it, so a box without followers pays nothing. The log stores keys only. Rows
are read when they are needed, so a lost or repeated change does no harm.

A follower has a row in `follower`. Events, EPCIS, the index of past positions and the digests of days move their
position in the transaction of their effect. The others (sites, the hub, readers of the open feed, a service) return
with a number of their own, and their position is the number up to which the log may have dropped changes.
Decision record: web/manual/decisions/one-log.md
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from enum import IntEnum
from typing import NamedTuple

from edge.database.connection import column, execute, execute_many, writing
from edge.database.triggers import LOGGED, Follower


class Kind(IntEnum):
    """Kinds of changes; the letters are columns of `change`.

    `c` is 1 for a record or a passage that is news for events. It is NULL if it is only sent again.
    """

    STAY = 1  # history rows of track `a` at time `b`
    ASSET = 2  # asset `a` or its tags
    LOCATION = 3
    READER = 4  # the name of reader `a`
    PERSON = 5
    TRACK = 6  # track `a` was deleted
    RANGE = 7  # history rows of track `a` that begin from `b` to `c` (repair or first copy)
    PASSAGE = 8  # passage `a`
    # For readers of the open feed only; a hub has no use for them.
    DOOR = 9  # door `a`
    SITE = 10  # site number `a` of this hub
    WHOLE_TRACK = 11  # all history rows of track `a`, for example because its asset is another one
    # For events only.
    POSITION = 12  # asset `a` is elsewhere, or has lost its track
    VALUES = 13  # sensor values of asset `a`
    # For webhooks with EPCIS only. `c` is the location, the carrier or the door. `before` is JSON: the kind of the
    # event as in `epcis_withdrawn`, 1 if it came, -1 if it went or 0, and when it was recorded.
    EPCIS = 14  # an event of asset `a` at time `b`
    # For the index of past positions and the digests of days only. Deletions by age are such changes, too.
    LEFT = 15  # a history row of track `a` at time `b` is no longer there, or not at source `c`
    NUMBERS = 16  # site `a` gave other numbers to tracks or locations of its history


class Change(NamedTuple):
    seq: int
    kind: int
    a: int
    b: int | None
    c: int | None
    before: str | None = None


_TAKES = "name IN ('events', 'epcis', 'past', 'digests')"  # the others return with a number of their own
_MOST_TAKEN = 500
_LAST_FOR_COPIES = Kind.WHOLE_TRACK
_COLUMNS = "SELECT seq, kind, a, b, c, before FROM change"


def begin(follower: Follower) -> None:
    """Follow the log from here on, with the triggers that this needs. Call in a transaction."""
    execute("INSERT OR IGNORE INTO follower (name, position) VALUES (?, ?)", (follower, newest()))
    install()


def leave(follower: Follower) -> None:
    """Stop following. Removes the changes that nobody else needs."""
    with writing():
        with _dropping_taken():
            execute("DELETE FROM follower WHERE name = ?", (follower,))
        if not _followers():
            execute("DELETE FROM change")
        install()


def install() -> None:
    """Create the triggers that the followers need, and drop all others."""
    followers = _followers()
    for name, one in LOGGED.items():
        execute(f"DROP TRIGGER IF EXISTS {name}" if followers.isdisjoint(one.followers) else one.statement(name))


def is_followed_by(follower: Follower) -> bool:
    return follower in _followers()


def _followers() -> set[str]:
    return set(column("SELECT name FROM follower"))


def after(seq: int, limit: int) -> list[Change]:
    """Return the oldest changes after a number, without those for events only."""
    sql = f"{_COLUMNS} WHERE seq > ? AND kind <= {_LAST_FOR_COPIES:d} ORDER BY seq LIMIT ?"
    return [Change(*row) for row in execute(sql, (seq, limit))]


def newest() -> int:
    """Return the highest number ever assigned, even if its row was dropped."""
    row = execute("SELECT seq FROM sqlite_sequence WHERE name = 'change'").fetchone()
    return row[0] if row else 0


def newest_after(seq: int) -> int:
    """Return the number of the newest change after a number, or that number. Leaves out those for events only."""
    sql = f"SELECT seq FROM change WHERE seq > ? AND kind <= {_LAST_FOR_COPIES:d} ORDER BY seq DESC LIMIT 1"
    row = execute(sql, (seq,)).fetchone()
    return row[0] if row else seq


def oldest_kept() -> int:
    """Return the number from which on all changes are kept for followers that return with a number of their own."""
    row = execute(f"SELECT min(position) FROM follower WHERE NOT {_TAKES}").fetchone()
    return (newest() if row[0] is None else int(row[0])) + 1


def trim(until_seq: int, limit: int) -> int:
    """Drop the oldest changes up to a number, but none that a follower has still to take. Returns how many."""
    with writing():
        until_seq = min(until_seq, _taken())
        oldest = execute("SELECT seq FROM change WHERE seq <= ? ORDER BY seq LIMIT ?", (until_seq, limit)).fetchall()
        if oldest:
            (last,) = oldest[-1]
            execute("DELETE FROM change WHERE seq <= ?", (last,))
            execute(f"UPDATE follower SET position = max(position, ?) WHERE NOT {_TAKES}", (last,))
        return len(oldest)


def has_news(follower: Follower) -> bool:
    """Return True if there are changes that a follower has not taken."""
    sql = "SELECT 1 FROM change WHERE seq > (SELECT position FROM follower WHERE name = ?) LIMIT 1"
    return execute(sql, (follower,)).fetchone() is not None


def take(follower: Follower, limit: int) -> list[Change]:
    """Return the next changes for a follower, and move its position. Call in the transaction of their effect."""
    changes = waiting(follower, "1 ORDER BY seq LIMIT :limit", {"limit": limit})
    if changes:
        with _dropping_taken():
            execute("UPDATE follower SET position = ? WHERE name = ?", (changes[-1].seq, follower))
    return changes


def catch_up(follower: Follower, follow: Callable[[Collection[Change]], object]) -> None:
    """Let a follower take all changes, some in each transaction."""
    while has_news(follower):
        with writing():
            follow(take(follower, _MOST_TAKEN))


def waiting(follower: Follower, condition: str, values: Mapping[str, int]) -> list[Change]:
    """Return the changes that a follower has not taken and that meet a condition in SQL."""
    sql = f"{_COLUMNS} WHERE seq > (SELECT position FROM follower WHERE name = :name) AND {condition}"
    return [Change(*row) for row in execute(sql, {"name": follower, **values})]


def _taken() -> int:
    """Return the number up to which the followers that take changes have all taken them."""
    row = execute(f"SELECT min(position) FROM follower WHERE {_TAKES}").fetchone()
    return newest() if row[0] is None else int(row[0])


@contextmanager
def _dropping_taken() -> Iterator[None]:
    """Drop the changes that are taken inside and that nobody else has a use for."""
    before, followers = _taken(), _followers()
    yield
    if followers & {Follower.SITE, Follower.FEED}:
        kept = f"kind <= {_LAST_FOR_COPIES:d}"
    else:
        kept = "abs(kind) IN (2, 3)" if followers & {Follower.HUB, Follower.UPSTREAM} else "false"
    execute(f"DELETE FROM change WHERE seq > ? AND seq <= ? AND NOT ({kept})", (before, _taken()))


def add_positions(asset_ids: Iterable[int]) -> None:
    """Let events look where these assets are. Call in a transaction."""
    if is_followed_by(Follower.EVENTS):
        execute_many("INSERT INTO change (kind, a) VALUES (?, ?)", [(Kind.POSITION, one) for one in asset_ids])
