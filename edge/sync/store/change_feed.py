"""Change feed: keys of changed rows, in commit order.

Triggers fill it, so every write is recorded, whichever module or process makes it. They exist only on sites, on hubs,
and while programs read the open feed (`edge.feed`) or a service gets copies of the records (`edge.upstream`); otherwise
the feed costs nothing. It stores keys only and rows are read when they are sent, so a lost or repeated change does no
harm.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import NamedTuple

from edge.database.connection import execute, execute_many, writing
from edge.database.triggers import COPY_DIGESTS, DIGESTS, FEED_OF_HUB, FEED_OF_READERS, FEED_OF_SITE
from edge.doors import passage_copies
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
    PASSAGE = 8  # passage `a`
    # For readers of the open feed only; a hub has no use for them.
    DOOR = 9  # door `a`
    SITE = 10  # site number `a` of this hub
    WHOLE_TRACK = 11  # all history rows of track `a`, for example because its asset is another one


class Change(NamedTuple):
    seq: int
    kind: int
    a: int
    b: int | None
    c: int | None


def start(*, tracking: bool) -> None:
    """Install the triggers. With `tracking` (sites) the feed includes history; a hub feeds master data only.

    Call in a transaction.
    """
    for statement in (FEED_OF_SITE if tracking else FEED_OF_HUB).values():
        execute(statement)


def stop() -> None:
    """Remove the triggers, empty the feed and delete the stored digests. Keeps what others than sync need."""
    with writing():
        _drop_triggers({**(FEED_OF_HUB if has_upstream() else {}), **(FEED_OF_READERS if is_open() else {})})
        for name in (*DIGESTS, *COPY_DIGESTS):
            execute(f"DROP TRIGGER IF EXISTS {name}")
        execute("DELETE FROM history_digest")
        execute("DELETE FROM copy_digest")


def _drop_triggers(needed: Mapping[str, str]) -> None:
    """Remove the triggers of the feed that nobody needs, and its changes if nobody reads it."""
    for name in {**FEED_OF_SITE, **FEED_OF_READERS}:
        if name not in needed:
            execute(f"DROP TRIGGER IF EXISTS {name}")
    if not needed:
        execute("DELETE FROM change")


def is_open() -> bool:
    """Return True while programs read the open feed."""
    return execute("SELECT 1 FROM feed").fetchone() is not None


def open_for_readers() -> None:
    """Install the triggers of the open feed."""
    with writing():
        if not is_open():
            execute("INSERT INTO feed (one) VALUES (1)")
        for statement in FEED_OF_READERS.values():
            execute(statement)


def close_for_readers() -> None:
    """Remove the triggers of the open feed, except those that others need."""
    with writing():
        execute("DELETE FROM feed")
        is_site = execute("SELECT 1 FROM target").fetchone() is not None
        is_hub = execute("SELECT 1 FROM hub").fetchone() is not None
        _drop_triggers(FEED_OF_SITE if is_site else FEED_OF_HUB if is_hub or has_upstream() else {})


def has_upstream() -> bool:
    """Return True while a service with the v1 API gets the records of this box (`edge.upstream`)."""
    return execute("SELECT 1 FROM upstream").fetchone() is not None


def open_for_upstream() -> None:
    """Install the triggers that record changes of assets and locations. Call in a transaction."""
    for statement in FEED_OF_HUB.values():
        execute(statement)


def close_for_upstream() -> None:
    """Remove the triggers if nobody else needs them. Call in the transaction that removes an upstream."""
    is_in_sync = execute("SELECT 1 FROM target UNION ALL SELECT 1 FROM hub").fetchone() is not None
    if not (is_in_sync or is_open() or has_upstream()):
        _drop_triggers({})


def add_stays(instants: Iterable[tuple[int, int]] | None, tracks: Iterable[int]) -> None:
    """Record changed stays (track, begin) in PostgreSQL for the open feed, if it has readers.

    If they were not noted, because the feed was opened meanwhile, all stays of the tracks are sent. Call in the
    transaction that completes the batch.
    """
    if not is_open():
        return
    if instants is None:
        execute_many("INSERT INTO change (kind, a) VALUES (?, ?)", [(Kind.WHOLE_TRACK, no) for no in sorted(tracks)])
    else:
        rows = [(Kind.STAY, track, at) for track, at in sorted(instants)]
        execute_many("INSERT INTO change (kind, a, b) VALUES (?, ?, ?)", rows)


def end_cursors() -> None:
    """Let the readers of the open feed start again with a copy, since stays were lost. Call in a transaction."""
    execute("DELETE FROM feed_mark")


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


def newest_record() -> int:
    """Return the number that a hub reports to its sites as that of its newest change of records.

    With the open feed, the feed of a hub includes history, which must not make the sites ask for records.
    """
    if not is_open():
        return newest()
    row = execute("SELECT max(seq) FROM change INDEXED BY change_of_record WHERE kind IN (2, 3)").fetchone()
    return max(row[0] or 0, oldest_kept() - 1)


def records_listed(seq: int, limit: int) -> list[Change]:
    """Return the oldest changes of assets and locations after a number."""
    rows = execute(
        "SELECT seq, kind, a, b, c FROM change INDEXED BY change_of_record WHERE kind IN (2, 3) AND seq > ? "
        "ORDER BY seq LIMIT ?",
        (seq, limit),
    )
    return [Change(*row) for row in rows]


def oldest_kept() -> int:
    """Return the number from which on all changes are kept."""
    row = execute("SELECT min(seq) FROM change").fetchone()
    return newest() + 1 if row[0] is None else row[0]


def count_after(seq: int) -> int:
    return newest() - max(seq, oldest_kept() - 1)


def add_range(track: int, since: int, until: int) -> None:
    """Queue the history of a track in a time range."""
    execute("INSERT INTO change (kind, a, b, c) VALUES (?, ?, ?, ?)", (Kind.RANGE, track, since, until))


def add_record(kind: int, record_id: int) -> None:
    """Queue an asset, a location or a passage: to send it again, or for changes that do not write its row."""
    execute("INSERT INTO change (kind, a) VALUES (?, ?)", (kind, record_id))


def all_records_listed(seq: int, limit: int) -> list[Change]:
    """Like `records_listed`, with changes that a hub has refused."""
    rows = execute(
        "SELECT seq, abs(kind), a, b, c FROM change WHERE seq > ? AND kind IN (2, 3, -2, -3) ORDER BY seq LIMIT ?",
        (seq, limit),
    )
    return [Change(*row) for row in rows]


def changed_after(seq: int, *kinds: Kind) -> set[int]:
    """Return what has changes of these kinds after `seq`."""
    sql = "SELECT DISTINCT a FROM change WHERE seq > ? AND kind IN (SELECT value FROM json_each(?))"
    return {row[0] for row in execute(sql, (seq, json.dumps(kinds)))}


def assets_after(seq: int, limit: int) -> list[int] | None:
    """Return the assets with changes after `seq`; None if the feed no longer has all of them, or too many."""
    if seq < oldest_kept() - 1:
        return None
    rows = execute(
        "SELECT DISTINCT a FROM change WHERE seq > ? AND kind = ? LIMIT ?", (seq, Kind.ASSET, limit + 1)
    ).fetchall()
    return [asset_id for (asset_id,) in rows] if len(rows) <= limit else None


def add_homes(peer: int) -> None:
    """Queue the assets of a peer, whose home changes: other sites show it."""
    execute(
        "INSERT INTO change (kind, a) SELECT 2, record_id FROM mirror JOIN asset ON asset.id = record_id "
        "WHERE mirror.peer = ? AND deleted_at IS NULL ORDER BY record_id",
        (peer,),
    )


def add_everything(organization_id: int) -> None:
    """Queue all data for a first copy, records before the history that refers to them."""
    with writing():
        add_names(organization_id)
        execute_many(
            "INSERT INTO change (kind, a, b, c) VALUES (?, ?, -(1 << 61), 1 << 61)",
            [(Kind.RANGE, no) for no in copies.own_tracks(organization_id)],
        )
        passage_copies.queue_all(organization_id, Kind.PASSAGE)


def add_names(organization_id: int) -> None:
    """Queue all records without history, and the names of readers and people that history refers to.

    Nothing compares these names with the hub, so after a restore only this brings the hub back to the names of the box.
    """
    with writing():
        for sql in (
            "INSERT INTO change (kind, a) SELECT DISTINCT 4, reader_id FROM source "
            "WHERE organization_id = ? AND site_no IS NULL AND reader_id IS NOT NULL ORDER BY reader_id",
            "INSERT INTO change (kind, a) SELECT 5, id FROM person WHERE organization_id = ? "
            "AND EXISTS (SELECT 1 FROM handheld_scan WHERE person_id = person.id) ORDER BY id",
            "INSERT INTO change (kind, a) SELECT 3, id FROM location WHERE organization_id = ? ORDER BY id",
            "INSERT INTO change (kind, a) SELECT 2, id FROM asset WHERE organization_id = ? ORDER BY id",
        ):
            execute(sql, (organization_id,))


def skip(seq: int) -> None:
    """Leave out a change that the hub refuses. Others than the hub still get it: its kind is negative then."""
    if not execute(
        "UPDATE change SET kind = -kind WHERE seq = ? AND kind > 0 "
        "AND (EXISTS (SELECT 1 FROM feed) OR EXISTS (SELECT 1 FROM upstream))",
        (seq,),
    ).rowcount:
        execute("DELETE FROM change WHERE seq = ?", (seq,))


def trim(until_seq: int, limit: int) -> int:
    """Drop the oldest changes up to a number. Returns how many."""
    with writing():
        return execute(
            "DELETE FROM change WHERE seq IN (SELECT seq FROM change WHERE seq <= ? ORDER BY seq LIMIT ?)",
            (until_seq, limit),
        ).rowcount
