"""Batches of a hub with stays in PostgreSQL.

Records, tracks and sources are written to the hub's own database first. Then the stays and the new cursor commit in one
transaction of PostgreSQL. The cursor here, row counts and removed tracks follow. A hub that dies before they do writes
them when the site reports again, because PostgreSQL keeps them with the cursor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from edge.audit.actors import Actor
from edge.audit.audit import Subject, acting
from edge.database import change_log
from edge.database.connection import execute, execute_many, writing
from edge.database.triggers import Follower
from edge.errors import Unavailable
from edge.sync.store import change_feed, digests, epochs, site_quotas, sites
from edge.sync.store.exchange import Cursor
from edge.tracking import copies, history_engine, stays

if TYPE_CHECKING:
    from edge.tracking.postgres.batches import Effects

STAY_BYTES = 240  # of disk in PostgreSQL, for the quota of the site
_settled: set[int] = set()  # sites with a last batch that is complete in both databases, as far as this process knows


def forget() -> None:
    """Look at each site again, for example after another database was opened."""
    _settled.clear()


@contextmanager
def writing_stays(site_no: int, base: Cursor, done: Cursor, horizon: int, note: Callable[[], None]) -> Iterator[None]:
    """Commit the stays written inside with the cursor, and then their effects and what `note` writes.

    Raises Unavailable if PostgreSQL is not at the cursor that this hub has, for example after a failover, or if changes
    of stays have to be noted since it began.
    """
    with history_engine.batches.transaction(checks_writer=False):  # `lock_site` does
        if history_engine.batches.lock_site(site_no) not in (None, _as_json(base)):
            _settled.discard(site_no)
            raise Unavailable("PostgreSQL has another batch of this site; try again", 1)
        is_noted = change_feed.is_open() or _is_for_epcis()
        if is_noted:
            history_engine.batches.note_replaced()
        yield
        if _is_for_epcis() and not is_noted:
            raise Unavailable("a webhook with EPCIS was added meanwhile; try again", 1)
        _settled.discard(site_no)
        effects = history_engine.batches.commit(site_no, _base(base), _as_json(done), horizon)
    _finish(site_no, done, horizon, effects, note)
    _settled.add(site_no)


def settle(site_no: int) -> bool:
    """Complete the last batch of a site if this hub died after PostgreSQL had committed it.

    If PostgreSQL was restored from a backup and lacks batches, the site sends them again, and readers of the open feed
    start again. Returns whether it has looked at the site. Raises Unavailable.
    """
    if not history_engine.is_remote() or site_no in _settled:
        return False
    last = history_engine.batches.committed(site_no)
    here = sites.cursor_of(site_no)
    if last is not None:
        done = _cursor(last.done)
        if here == done:
            pass
        elif last.base == _base(here) and _has_positions_of(last.effects):
            _finish(site_no, done, last.horizon, last.effects)
        elif here.epoch == done.epoch and here.acked_seq > done.acked_seq:
            with writing():
                sites.move_cursor(site_no, done, 0)
                digests.forget(site_no)  # since stays may be missing
                change_feed.end_cursors()
        else:
            _forget_newer(site_no)
            note_cursor(site_no)
    else:  # an empty database, or the first start after the move
        digests.forget(site_no)
    _settled.add(site_no)
    return True


def settle_all() -> None:
    """Complete the last batch of each site."""
    for site in sites.list_sites(None):
        settle(site.no)


def _has_positions_of(effects: Effects) -> bool:
    """Return whether this database has the positions of a batch, which it lacks if its files were copied back."""
    tracks = effects.more_rows.keys() - set(effects.gone_tracks)
    newest = {row[:3] for row in history_engine.lent_rows.newest(tracks, 1)}
    return newest == copies.keys_of_newest(tracks)


def note_cursor(site_no: int) -> None:
    """Record in PostgreSQL that a site was set to another cursor here, without stays."""
    if history_engine.is_remote():
        history_engine.batches.note_cursor(site_no, _as_json(sites.cursor_of(site_no)))


def _forget_newer(site_no: int) -> None:
    """Delete stays that are newer than the positions here, because this database was restored from a backup.

    So the comparison with the site finds the missing rows, and the site sends it again with its positions.
    """
    counts, without_rows = history_engine.batches.drop_newer(copies.newest_keys(site_no))
    with writing():
        copies.set_row_counts(counts)
        for track in without_rows:
            copies.remove_track(track)
        digests.forget(site_no)  # since stays may be missing
        change_feed.end_cursors()
    unknown = {no for no in history_engine.batches.tracks_above(copies.last_number()) if not copies.is_track(no)}
    if unknown:
        history_engine.batches.drop_tracks(unknown)


def note_takeover(actor: Actor) -> None:
    """Record that this machine writes to PostgreSQL instead of another one with the same hub.

    The other one may have deleted stays that it did not know, so all are compared with the sites again.
    """
    with acting(actor) as act:
        execute("DELETE FROM history_digest")
        change_feed.end_cursors()
        act.note("history.taken_over", Subject("setting", "hub.history", "hub.history"), {})


def _finish(
    site_no: int, done: Cursor, horizon: int, effects: Effects, note: Callable[[], None] = lambda: None
) -> None:
    replaced = effects.replaced or ()
    for text in replaced[:-1]:  # of a very large batch; a hub that dies in between notes them again
        with writing():
            _note_replaced(site_no, text)
    with writing():
        note()
        for text in replaced[-1:]:
            _note_replaced(site_no, text)
        if effects.replaced is None:
            change_feed.add_whole_tracks(effects.more_rows)
        copies.add_to_row_counts(effects.more_rows)
        copies.set_row_counts(effects.row_counts)
        for track in effects.gone_tracks:
            copies.remove_track(track)
        execute_many(
            "DELETE FROM history_digest WHERE site_no = ? AND day = ?", [(site_no, day) for day in effects.days]
        )
        change_log.add_positions(stays.assets_of(list(effects.more_rows)))
        sites.move_cursor(site_no, done, horizon)
        site_quotas.charge(site_no, sum(effects.more_rows.values()) * STAY_BYTES)


def _is_for_epcis() -> bool:
    return change_log.is_followed_by(Follower.EPCIS)


def _note_replaced(site_no: int, text: str) -> None:
    """Note changes of stays. Those for webhooks with EPCIS count toward the quota of the site."""
    change_feed.add_stays(history_engine.replaced.instants_of(text))
    if _is_for_epcis():
        size = site_quotas.used_bytes()
        history_engine.replaced.note_events(text)
        site_quotas.charge(site_no, site_quotas.used_bytes() - size)


def _base(cursor: Cursor) -> list[Any]:
    """Return where a batch follows, with the epoch of this hub: a backup that is restored begins another one."""
    return [*_as_json(cursor), epochs.hub_epoch()]


def _as_json(cursor: Cursor) -> list[Any]:
    return [cursor.epoch, cursor.acked_seq, cursor.chain.hex()]


def _cursor(values: list[Any]) -> Cursor:
    epoch, acked_seq, chain = values
    return Cursor(epoch, acked_seq, bytes.fromhex(chain))
