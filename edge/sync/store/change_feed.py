"""Changes for sites, the hub, readers of the open feed and a service, as queries of the log of changes."""

from __future__ import annotations

import json
from collections.abc import Iterable

from edge.database import change_log
from edge.database.change_log import Change, Kind
from edge.database.connection import column, execute, execute_many, writing
from edge.database.ids import skip_numbers
from edge.database.triggers import Follower
from edge.doors import passage_copies
from edge.tracking import copies

COUNTED = 10_000  # changes, exactly


def leave_sync() -> None:
    """Stop recording changes for other boxes, and delete the stored digests."""
    with writing():
        for follower in (Follower.SITE, Follower.HUB, Follower.DIGESTS):
            change_log.leave(follower)
        execute("DELETE FROM history_digest")


def is_open() -> bool:
    """Return True while programs read the open feed."""
    return execute("SELECT 1 FROM feed").fetchone() is not None


def open_for_readers() -> None:
    """Record changes for the open feed."""
    with writing():
        if not is_open():
            execute("INSERT INTO feed (one) VALUES (1)")
            change_log.begin(Follower.FEED)


def close_for_readers() -> None:
    """Stop recording changes for the open feed."""
    with writing():
        execute("DELETE FROM feed")
        change_log.leave(Follower.FEED)


def has_upstream() -> bool:
    """Return True while a service with the v1 API gets the records of this box (`edge.upstream`)."""
    return execute("SELECT 1 FROM upstream").fetchone() is not None


def add_stays(instants: Iterable[tuple[int, int]]) -> None:
    """Record changed stays (track, begin) in PostgreSQL for the open feed, if it has readers. Call in a transaction."""
    if is_open():
        rows = [(Kind.STAY, track, at) for track, at in sorted(instants)]
        execute_many("INSERT INTO change (kind, a, b) VALUES (?, ?, ?)", rows)


def add_whole_tracks(tracks: Iterable[int]) -> None:
    """Send all stays of these tracks to readers of the open feed, which was opened during the batch of the changes."""
    if is_open():
        execute_many("INSERT INTO change (kind, a) VALUES (?, ?)", [(Kind.WHOLE_TRACK, no) for no in sorted(tracks)])


def end_cursors() -> None:
    """Let the readers of the open feed start again with a copy, since stays were lost. Call in a transaction."""
    execute("DELETE FROM feed_mark")


def claim(after_seq: int) -> int | None:
    """Assign a number to a batch without changes. Returns None if there are changes to send."""
    with writing():
        if change_log.newest_after(after_seq) != after_seq:
            return None
        skip_numbers("change", 1)
        return change_log.newest()


def newest_record() -> int:
    """Return the number that a hub reports to its sites as that of its newest change of records.

    The log of a hub may include history, which must not make the sites ask for records.
    """
    row = execute("SELECT max(seq) FROM change INDEXED BY change_of_record WHERE kind IN (2, 3)").fetchone()
    return max(row[0] or 0, change_log.oldest_kept() - 1)


def record_before(most: int) -> int:
    """Return the number of the newest change of records that is not one of the `most` newest, or 0."""
    sql = "SELECT seq FROM change INDEXED BY change_of_record WHERE kind IN (2, 3) ORDER BY seq DESC LIMIT 1 OFFSET ?"
    row = execute(sql, (most,)).fetchone()
    return row[0] if row else 0


def records_listed(seq: int, limit: int) -> list[Change]:
    """Return the oldest changes of assets and locations after a number."""
    rows = execute(
        "SELECT seq, kind, a, b, c FROM change INDEXED BY change_of_record WHERE kind IN (2, 3) AND seq > ? "
        "ORDER BY seq LIMIT ?",
        (seq, limit),
    )
    return [Change(*row) for row in rows]


def count_after(seq: int) -> int:
    """Count the changes that others than events get. A number over 10,000 is an estimate, since some may be missing."""
    sql = f"SELECT count(*) FROM (SELECT 1 FROM change WHERE seq > ? AND kind <= {Kind.WHOLE_TRACK:d} LIMIT ?)"
    (number,) = execute(sql, (seq, COUNTED)).fetchone()
    if number < COUNTED:
        return int(number)
    return change_log.newest_after(seq) - max(seq, change_log.oldest_kept() - 1)


def add(kind: int, a: int, b: int | None = None, c: int | None = None) -> None:
    """Queue a change: to send a record, a passage or a range again, or for changes that do not write its row."""
    execute("INSERT INTO change (kind, a, b, c) VALUES (?, ?, ?, ?)", (kind, a, b, c))


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
    return set(column(sql, (seq, json.dumps(kinds))))


def assets_after(seq: int, limit: int) -> list[int] | None:
    """Return the assets with changes after `seq`; None if the feed no longer has all of them, or too many."""
    if seq < change_log.oldest_kept() - 1:
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
