"""The connection of this site to its hub: cursor, pending batch, last error. One row, absent without sync."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, NamedTuple

from edge import clock
from edge.audit.actors import Actor
from edge.audit.audit import Subject, acting
from edge.database import change_log
from edge.database.connection import execute, execute_many, writing
from edge.database.triggers import Follower
from edge.errors import Conflict, NotFound
from edge.sync.store import change_feed, epochs
from edge.sync.store.exchange import HUB, Cursor, HubState
from edge.sync.store.refused_data import MOST_ASIDE
from edge.tracking import copies

EXACT_CHECKPOINTS = 1000  # newest checkpoints kept in full; older ones are thinned to one per hour


class Target(NamedTuple):
    """A row of the table `target`."""

    organization_id: int
    url: str
    code: str
    hub_name: str
    client_id: str
    joined_at: int
    paused_at: int | None
    stopped: str | None
    epoch: str
    former_epochs: str
    acked_seq: int
    chain: bytes
    board_at: int | None
    pending: bytes | None
    pending_seq: int | None
    horizon: int
    restored_from: int | None
    recovering: str | None
    verify_wanted: int
    verify_from: int | None
    verify_found: int
    verified_at: int | None
    verify_result: str | None
    master_seq: int
    hub_epoch: str | None
    hub_seen: int
    hub_seen_epoch: str | None
    hub_seen_mark: str | None
    renewed_at: int | None
    rival_at: int | None
    clock_offset: int | None
    last_contact_at: int | None
    last_commit_at: int | None
    last_error: str | None
    last_error_at: int | None
    day: int
    bytes_sent: int
    bytes_received: int
    hub_id: str | None
    history_waits: str | None  # why the hub takes no new data, None if it does

    @property
    def former(self) -> list[str]:
        former: list[str] = json.loads(self.former_epochs)
        return former

    @property
    def hub_state(self) -> HubState | None:
        """Return the newest state of the hub's database seen by this site."""
        if self.hub_seen_epoch is None or self.hub_seen_mark is None:
            return None
        return HubState(self.hub_seen_epoch, self.hub_seen, self.hub_seen_mark)

    @property
    def cursor(self) -> Cursor:
        return Cursor(self.epoch, self.acked_seq, self.chain)

    def is_of(self, hub: HubAccess) -> bool:
        """Return True if the hub knows this box as the site, also one that was restored and has forgotten its code.

        A site of another hub may have the same code.
        """
        is_other_hub = self.hub_id and hub.hub_id and self.hub_id != hub.hub_id
        has_code = self.code in (hub.code, *hub.former_codes) and not is_other_hub
        return has_code or hub.epoch in (self.epoch, *self.former)


def find() -> Target | None:
    """Return the connection to the hub, or None without sync."""
    row = execute(f"SELECT {', '.join(Target._fields)} FROM target").fetchone()
    return Target(*row) if row else None


class HubAccess(NamedTuple):
    """The hub's address and name, this site's code there, its key, the hub's id, and the codes that the site had.

    `epoch` and `acked_seq`: the newest change of this site that it has. Hubs of earlier releases send neither these nor
    their id.
    """

    url: str
    code: str
    hub_name: str
    client_id: str
    hub_id: str = ""
    former_codes: tuple[str, ...] = ()
    epoch: str | None = None
    acked_seq: int = 0


def begin(actor: Actor, hub: HubAccess, *, is_instead: bool = False, is_recovery: bool = False) -> None:
    """Start reporting to a hub, beginning with a full copy. `is_instead` leaves the current hub first.

    A box that returns to a hub does not report the history that its retention has deleted as missing, and compares the
    rest.

    A recovering site sends nothing until it has the hub's data; see `recovered_history`. Raises Conflict if this
    machine already has a hub, or is one.
    """
    with acting(actor) as act:
        if is_instead:
            end(actor)
        if find():
            raise Conflict("This box already reports to a hub. Leave it first: edge sync leave")
        if execute("SELECT 1 FROM site WHERE removed_at IS NULL").fetchone():
            raise Conflict("This box is itself a hub of sites, and a hub does not report to another one")
        former = json.dumps([hub.epoch] if hub.epoch else [])  # a hub that is restored to it knows this box again
        execute(
            "INSERT INTO target (one, organization_id, url, code, hub_name, client_id, hub_id, joined_at, epoch, "
            "former_epochs, acked_seq) VALUES (1, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (actor.organization_id, *hub[:5], clock.now(), epochs.new_epoch(), former, change_log.newest()),
        )
        if (horizon := _return_to(actor.organization_id, hub.hub_id)) is not None:
            update(horizon=horizon, verify_wanted=1)
        if not is_recovery:
            change_log.begin(Follower.SITE)
            change_feed.add_everything(actor.organization_id)
        act.note("hub.joined", Subject("hub", hub.url, hub.hub_name), {"code": hub.code})


def renew_key(actor: Actor, hub: HubAccess) -> None:
    """Replace the key of this site, as after a restore on another machine. Raises Conflict for another site's code."""
    with acting(actor) as act:
        target = find()
        if target is None or target.organization_id != actor.organization_id:
            raise NotFound("This box reports to no hub. To join one: edge sync join CODE")
        if not target.is_of(hub):
            raise Conflict(
                f"This box is the site {target.code} of {target.hub_name}, and the code is for {hub.code} of "
                f"{hub.hub_name}. To be that one: edge sync leave"
            )
        execute("DELETE FROM told")
        update(
            url=hub.url,
            code=hub.code,
            hub_name=hub.hub_name,
            client_id=hub.client_id,
            hub_id=hub.hub_id or target.hub_id,
            epoch=epochs.new_epoch(),
            former_epochs=json.dumps([*target.former, target.epoch]),
            chain=b"",
            pending=None,
            pending_seq=None,
            stopped=None,
            last_error=None,
            last_error_at=None,
            hub_seen_epoch=None,
            rival_at=None,
            verify_wanted=1,  # the hub may have been restored, or had data from another machine
        )
        is_other = hub.epoch is not None and hub.epoch not in (target.epoch, *target.former)
        if is_other or hub.acked_seq > target.acked_seq:  # this is a copy, and the hub has the lost changes
            epochs.skip_ids()
            copies.skip_track_numbers(execute)
            update(restored_from=copies.newest_read(execute))
        change_feed.add_names(actor.organization_id)
        act.note("hub.key_renewed", Subject("hub", hub.url, hub.hub_name), {"code": hub.code})


def end(actor: Actor) -> None:
    """Stop reporting. Records received from the hub become this machine's own until it returns to that hub."""
    with acting(actor) as act:
        target = find()
        if target is None:
            return
        change_feed.leave_sync()
        if target.hub_id:
            _remember(target.hub_id, target.horizon)
        for table in ("target", "checkpoint", "told"):
            execute(f"DELETE FROM {table}")
        for table in ("link", "mirror", "conflict", "set_aside"):
            execute(f"DELETE FROM {table} WHERE peer = 0")
        act.note("hub.left", Subject("hub", target.url, target.hub_name))


def steer(actor: Actor, action: str, **values: Any) -> None:
    """Pause, resume or request a comparison, audited. Raises NotFound if the organization reports to no hub."""
    with acting(actor) as act:
        target = find()
        if target is None or target.organization_id != actor.organization_id:
            raise NotFound("This box reports to no hub. To join one: edge sync join CODE")
        update(**values)
        act.note(action, Subject("hub", target.url, target.hub_name))


def update(**values: Any) -> None:
    """Change fields of the row, if it exists."""
    with writing():
        columns = ", ".join(f"{name} = ?" for name in values)
        execute(f"UPDATE target SET {columns}", tuple(values.values()))


def keep_pending(body: bytes, until_seq: int, board_at: int | None) -> None:
    """Store a batch before sending it, so that the identical batch is resent if the answer is lost."""
    update(pending=body, pending_seq=until_seq, pending_board_at=board_at)


def acknowledge(cursor: Cursor, seen: Iterable[tuple[int, int]], gone: Iterable[int]) -> None:
    """Record that the hub has committed the pending batch, with its tracks and their last-seen times."""
    moment = clock.now()
    with writing():
        execute(
            "INSERT OR REPLACE INTO checkpoint (seq, chain, at) VALUES (?, ?, ?)",
            (cursor.acked_seq, cursor.chain, moment),
        )
        execute_many(
            "INSERT INTO told (track_no, last_seen_at) VALUES (?, ?) "
            "ON CONFLICT DO UPDATE SET last_seen_at = excluded.last_seen_at",
            list(seen),
        )
        execute_many("DELETE FROM told WHERE track_no = ?", [(no,) for no in gone])
        execute("UPDATE target SET board_at = ifnull(pending_board_at, board_at)")
        update(
            acked_seq=cursor.acked_seq,
            chain=cursor.chain,
            pending=None,
            pending_seq=None,
            last_commit_at=moment,
            last_contact_at=moment,
            last_error=None,
            last_error_at=None,
        )


def drop_pending() -> None:
    update(pending=None, pending_seq=None)


def skip(seq: int) -> None:
    """Skip a change that the hub refuses. The hub's cursor stays before it, so the next batch covers both."""
    change_feed.skip(seq)
    drop_pending()


def checkpoint_chain(seq: int) -> bytes | None:
    """Return the hash chain at a change number, or None if no checkpoint is kept."""
    row = execute("SELECT chain FROM checkpoint WHERE seq = ?", (seq,)).fetchone()
    return row[0] if row else None


def continue_from(cursor: Cursor) -> None:
    """Set the cursor back to the hub's and resend all positions."""
    execute("DELETE FROM told")
    update(acked_seq=cursor.acked_seq, chain=cursor.chain, pending=None, pending_seq=None, board_at=None)


def count_bytes(sent: int, received: int) -> None:
    """Add to today's counters (UTC)."""
    today = clock.now() // clock.DAY
    with writing():
        execute(
            "UPDATE target SET bytes_sent = iif(day = ?1, bytes_sent, 0) + ?2, "
            "bytes_received = iif(day = ?1, bytes_received, 0) + ?3, day = ?1",
            (today, sent, received),
        )


def trim(before: int, limit: int) -> int:
    """Drop changes that the hub acknowledged before a time, and thin out checkpoints. Returns the number dropped."""
    with writing():
        row = execute("SELECT max(seq) FROM checkpoint WHERE at < ?", (before,)).fetchone()
        execute(_THIN_OUT, (EXACT_CHECKPOINTS, clock.HOUR))
        if row[0] is None:
            return 0
        execute("DELETE FROM checkpoint WHERE seq < ?", (row[0],))
        return change_log.trim(row[0], limit)


_THIN_OUT = """
    DELETE FROM checkpoint WHERE seq < (SELECT min(seq) FROM (SELECT seq FROM checkpoint ORDER BY seq DESC LIMIT ?))
      AND seq NOT IN (SELECT max(seq) FROM checkpoint GROUP BY at / ?)
"""


MOST_HUBS = 10


def _remember(hub_id: str, horizon: int) -> None:
    """Keep which records are copies from the hub. Call before `mirror` is emptied."""
    execute("DELETE FROM former_hub WHERE hub_id = ?", (hub_id,))
    execute("INSERT INTO former_hub (hub_id, left_at, horizon) VALUES (?, ?, ?)", (hub_id, clock.now(), horizon))
    execute(
        "INSERT INTO former_link (hub_id, remote_id, local_id, created_at, home) "
        "SELECT ?, remote_id, local_id, created_at, home FROM link JOIN mirror ON record_id = local_id "
        "WHERE link.peer = ? AND mirror.peer = link.peer",
        (hub_id, HUB),
    )
    execute(
        "DELETE FROM former_hub WHERE hub_id NOT IN (SELECT hub_id FROM former_hub ORDER BY left_at DESC LIMIT ?)",
        (MOST_HUBS,),
    )


def _return_to(organization_id: int, hub_id: str) -> int | None:
    """Make the copies from this hub read-only again, and forget the hub. Returns the horizon; None for a new hub.

    What was changed here meanwhile is listed as set aside, since the hub's version replaces it. If another organization
    of this box left the hub, the copies are that one's, and nothing is done.
    """
    row = execute("SELECT left_at, horizon FROM former_hub WHERE hub_id = ?", (hub_id,)).fetchone()
    if row is None or execute(_OF_ANOTHER, (hub_id, organization_id)).fetchone():
        return None
    left_at, horizon = row
    for statement in _RETURN:
        execute(statement, (hub_id, HUB))
    execute(_CHANGED, (HUB, clock.now(), hub_id, left_at, MOST_ASIDE))
    execute("DELETE FROM former_hub WHERE hub_id = ?", (hub_id,))
    return int(horizon)


_OF_ANOTHER = (
    "SELECT 1 FROM former_link JOIN asset ON asset.id = local_id WHERE hub_id = ? AND organization_id <> ? LIMIT 1"
)
_RETURN = (
    "INSERT OR IGNORE INTO link (peer, remote_id, local_id, created_at) SELECT ?2, remote_id, local_id, "
    "former_link.created_at FROM former_link JOIN asset ON asset.id = local_id WHERE hub_id = ?1",
    "INSERT OR IGNORE INTO mirror (record_id, peer, home) SELECT local_id, ?2, home FROM former_link "
    "JOIN asset ON asset.id = local_id WHERE hub_id = ?1",
)
_CHANGED = (
    "INSERT OR IGNORE INTO set_aside (peer, what, reason, since) SELECT ?1, 'change of asset ' || external_key, "
    "'it was changed here while this box did not report; the version of ' || home || ' replaces it', ?2 "
    "FROM former_link JOIN asset ON asset.id = local_id WHERE hub_id = ?3 AND updated_at > ?4 "
    "ORDER BY updated_at DESC LIMIT ?5"
)
