"""Epochs of sync. An epoch identifies one continuous database of a box; after a restore or a copy a new one begins.

A cursor is valid only within its epoch. The hub retires a site's former epochs, so an old copy of its disk cannot
report as the site. The hub also keeps its own former epochs and a random mark of each state, to recognize that its
files were copied back. `sites.begin_epoch` lets a site continue with a new epoch.
"""

from __future__ import annotations

import logging
import secrets

from edge import clock
from edge.database.connection import execute, writing
from edge.database.ids import Execute, skip_numbers
from edge.errors import Conflict, Unavailable
from edge.sync.store import change_feed
from edge.sync.store.exchange import HubState
from edge.tracking import copies

log = logging.getLogger(__name__)

ID_LEAP = 1_000_000_000  # margin for ids assigned since a copy of the database was made
MOST_RETIRED = 1_000  # epochs per site; each restore or copy starts one
RENEW_AGAIN = 600 * clock.SECOND  # minimum interval, regardless of the sites' reports
MARKS = 10_000  # hub states kept for recognition


def new_epoch() -> str:
    return secrets.token_hex(8)


def renew_epochs(run: Execute) -> None:
    """Start new epochs as site and as hub, and skip numbers that may have been used after a copy was made."""
    run(
        "UPDATE target SET former_epochs = json_insert(former_epochs, '$[#]', epoch), "
        "epoch = lower(hex(randomblob(8))), chain = x'', pending = NULL, pending_seq = NULL, restored_from = ?",
        (copies.newest_read(run),),
    )
    run("UPDATE hub SET epoch = lower(hex(randomblob(8)))")
    if run("SELECT 1 FROM sqlite_schema WHERE name = 'feed_mark'").fetchone():  # older backups have none
        run("DELETE FROM feed_mark")  # readers of the open feed start again with a copy
    _skip_numbers(run)


def _skip_numbers(run: Execute) -> None:
    copies.skip_track_numbers(run)
    skip_numbers("change", copies.TRACK_LEAP, run)


def renew_epoch() -> None:
    """Start a new epoch because this database is a copy and the hub has newer data; see `restored_from`."""
    with writing():
        renew_epochs(execute)
        execute("UPDATE target SET renewed_at = ?", (clock.now(),))
        skip_ids()


def skip_ids() -> None:
    """Skip the ids that may have been assigned after a copy of the database was made."""
    execute("UPDATE instance SET id_count = id_count + ?", (ID_LEAP,))


def hub_epoch() -> str:
    epoch: str = execute("SELECT epoch FROM hub").fetchone()[0]
    return epoch


def hub_state() -> HubState:
    """Return the state of this hub's database with a random mark, which identifies it when a site reports it."""
    number = change_feed.newest_record()
    sql = "SELECT mark FROM hub_mark WHERE number = ?"
    if row := execute(sql, (number,)).fetchone():
        return HubState(hub_epoch(), number, row[0])
    with writing():
        number = change_feed.newest_record()
        execute("INSERT OR IGNORE INTO hub_mark (number, mark) VALUES (?, ?)", (number, new_epoch()))
        execute(
            "DELETE FROM hub_mark WHERE number <= (SELECT number FROM hub_mark ORDER BY 1 DESC LIMIT 1 OFFSET ?)",
            (MARKS,),
        )
        return HubState(hub_epoch(), number, execute(sql, (number,)).fetchone()[0])


def check_not_behind(seen: HubState | None) -> None:
    """Renew this hub's epoch and skip ids if a site has seen a newer state of its database.

    In that case the hub's files were copied back, and sites know ids that it assigned since. Raises Unavailable if that
    happened recently, so that a site with wrong reports cannot make all others start over repeatedly.
    """
    if seen is None or not _is_behind(seen):
        return
    with writing():
        if not _is_behind(seen):  # another request has just done it
            return
        now = clock.now()
        renewed_at = execute("SELECT renewed_at FROM hub").fetchone()[0]
        if renewed_at is not None and 0 <= now - renewed_at < RENEW_AGAIN:
            wait = (RENEW_AGAIN - now + renewed_at) // clock.SECOND
            raise Unavailable("the database of this hub is older than what this site has seen; wait", wait + 1)
        own_epoch = hub_epoch()
        log.warning("Sync: the files of this hub were copied back; it starts a new epoch and skips ids")
        execute("UPDATE hub SET epoch = ?, renewed_at = ?", (new_epoch(), now))
        execute("DELETE FROM feed_mark")
        if seen.epoch != own_epoch:  # unknown to this copy; the other sites will report it, too
            execute("INSERT INTO former_hub_epoch (epoch) VALUES (?)", (seen.epoch,))
        _skip_numbers(execute)
        skip_ids()


def _is_behind(seen: HubState) -> bool:
    if seen.epoch == hub_epoch():
        known = execute("SELECT mark FROM hub_mark WHERE number = ?", (seen.number,)).fetchone()
        oldest = execute("SELECT min(number) FROM hub_mark").fetchone()[0]
        return known != (seen.mark,) if known else oldest is None or seen.number > oldest
    return execute("SELECT 1 FROM former_hub_epoch WHERE epoch = ?", (seen.epoch,)).fetchone() is None


def is_retired(site_no: int, epoch: str) -> bool:
    """Return True if the epoch belongs to a replaced database of the site."""
    return (
        execute("SELECT 1 FROM retired_epoch WHERE site_no = ? AND epoch = ?", (site_no, epoch)).fetchone() is not None
    )


def retire(site_no: int, epoch: str) -> None:
    """Retire an epoch. Raises Conflict after too many, since they are kept forever."""
    (count,) = execute("SELECT count(*) FROM retired_epoch WHERE site_no = ?", (site_no,)).fetchone()
    if count >= MOST_RETIRED:
        raise Conflict(
            f"its database was replaced {MOST_RETIRED} times. Remove the site on the hub's Sync page and add it again"
        )
    execute("INSERT OR IGNORE INTO retired_epoch VALUES (?, ?, ?)", (site_no, epoch, clock.now()))
