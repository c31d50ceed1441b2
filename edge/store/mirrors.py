"""Assets and locations whose home is another box: kept as they are there. A clash is listed, never resolved by guess.

A hub keeps the assets and locations of its sites this way, and a site the assets of its hub. Their changes are audited
at their home.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from edge import clock
from edge.errors import Conflict, EdgeError, Invalid
from edge.store import record_checks, record_copies
from edge.store.changes import Kind
from edge.store.database import database, execute
from edge.store.exchange import HUB, AssetRecord, LocationRecord, Record
from edge.store.homes import home_of
from edge.store.ids import new_id
from edge.store.record_copies import holder_of_key, holders_of_tags, in_order, table_of
from edge.store.records import moment
from edge.validation.values import MAX_KEY

MOST_RETRIED = 200  # clashes, with each batch
MOST_ASIDE = 1000  # entries of one peer
MOST_REASON = 1000  # characters


class Peer(NamedTuple):
    """The other side: a site of this hub by its number, or HUB. The locations of a site are below `location_id`."""

    no: int
    organization_id: int
    code: str
    location_id: int = 0


class _Clash(NamedTuple):
    """What holds the record's key or one of its tags here, and the part of the record that can be kept nevertheless."""

    local_id: int
    reason: str
    rest: Record


def resolve(peer: Peer, refs: Iterable[int]) -> dict[int, int]:
    """The ids here of the records that are known, by the ids of the peer."""
    wanted = list(refs)
    found = execute(
        "SELECT remote_id, local_id FROM link WHERE peer = ? AND remote_id IN (SELECT value FROM json_each(?))",
        (peer.no, json.dumps(wanted)),
    )
    known = dict(found.fetchall())
    if peer.no != HUB:
        ours = json.dumps([-ref for ref in wanted if ref < 0 and ref not in known])
        for table in ("asset", "location"):
            known |= {
                -row[0]: row[0]
                for row in execute(
                    f"SELECT id FROM {table} WHERE organization_id = ? AND id IN (SELECT value FROM json_each(?))",
                    (peer.organization_id, ours),
                )
            }
    return known


def apply(peer: Peer, assets: Sequence[AssetRecord], locations: Sequence[LocationRecord]) -> list[str]:
    """Make the records what they are at their home; returns in words what could not be taken."""
    fresh: list[Record] = [*in_order(locations), *assets]
    for record in fresh:
        if _is_sound(peer, record):  # otherwise it is refused, and what is here stays
            _make_way(peer, record)
    aside = [told for record in fresh if (told := _take(peer, record))]
    retry_conflicts(peer)
    return aside


def retry_conflicts(peer: Peer, first: int = 0) -> None:
    """Try them again: perhaps what they clashed with has gone, or has another key now. Each gets its turn.

    `first` is the peer's id of the one that is to be tried in any case.
    """
    for kind, text in execute(
        "SELECT kind, record FROM (SELECT kind, record, since FROM conflict WHERE peer = ? "
        "ORDER BY remote_id <> ?, random() LIMIT ?) ORDER BY since",
        (peer.no, first, MOST_RETRIED),
    ).fetchall():
        _take(peer, (AssetRecord if kind == Kind.ASSET else LocationRecord)._make(json.loads(text)))


def _make_way(peer: Peer, record: Record) -> None:
    """Keys and tags may have moved between the records of one batch: first free them all, then assign them."""
    local = _known(peer, record)
    if local is None or home_of(local) != peer.no:
        return
    table = table_of(record)
    execute(
        f"UPDATE {table} SET deleted_at = ? WHERE id = ? AND deleted_at IS NULL AND external_key <> ?",
        (record.updated_at, local, _key(peer, record)),
    )
    wanted = json.dumps(list(record.tags) if record.deleted_at is None else [])
    execute(
        f"UPDATE tag SET deleted_at = ? WHERE {table}_id = ? AND deleted_at IS NULL "
        "AND json_array(tag_type, value) NOT IN (SELECT value FROM json_each(?))",
        (moment(), local, wanted),
    )


def _known(peer: Peer, record: Record) -> int | None:
    """The id of the record here, if it is known.

    A database that was copied back assigns ids a second time. The time of creation never changes, so it tells the two
    apart: the earlier record stays as it is, and no longer gets updates.
    """
    local = resolve(peer, [record.ref]).get(record.ref)
    if local is None or record.ref < 0 or peer.no == HUB or home_of(local) != peer.no:
        return local
    same = execute(
        f"SELECT 1 FROM {table_of(record)} WHERE id = ? AND created_at = ?",
        (local, record.created_at),
    ).fetchone()
    if same:
        return local
    execute("UPDATE OR REPLACE link SET remote_id = ? WHERE peer = ? AND remote_id = ?", (-local, peer.no, record.ref))
    return None


def _take(peer: Peer, record: Record) -> str:
    """Return why the record was set aside; empty if it was taken."""
    what = f"{table_of(record)} {record.external_key[:MAX_KEY]}"
    try:
        with database.savepoint():
            clash = _store(peer, record_checks.checked(record, _key(peer, record)))
    except EdgeError as error:
        set_aside(peer.no, what, str(error))
        return f"{what}: {error}"
    execute("DELETE FROM set_aside WHERE peer = ? AND what = ?", (peer.no, what))
    if clash is None:
        execute("DELETE FROM conflict WHERE peer = ? AND remote_id = ?", (peer.no, record.ref))
    else:
        _keep_conflict(peer, record, clash)
    return ""


def _store(peer: Peer, record: Record) -> _Clash | None:
    """Write the record, or the part of it that does not clash. Raises Conflict if it cannot be kept at all."""
    key = _key(peer, record)
    local = _known(peer, record)
    if (
        record.ref < 0
        and peer.no != HUB
        and local is None
        and (ours := holder_of_key(peer.organization_id, record, key, None))
    ):
        _link(peer.no, record.ref, ours)  # this hub was restored, and got it back from elsewhere since
        return None
    if local is not None and home_of(local) != peer.no:
        raise Conflict(f"it was changed at {peer.code}, but that is no longer its home")
    clash = _find_clash(peer, record, key, local) if record.deleted_at is None else None
    kept = clash.rest if clash else record
    local_id = new_id() if local is None else local
    parent_id = _parent_id(peer, kept) if isinstance(kept, LocationRecord) else None
    record_copies.write(peer.organization_id, local_id, kept, key=key, parent_id=parent_id)
    if local is None:
        _link(peer.no, record.ref, local_id)
    if record.ref > 0:
        execute(
            "INSERT INTO mirror (record_id, peer, home) VALUES (?, ?, ?) "
            "ON CONFLICT DO UPDATE SET peer = excluded.peer, home = excluded.home "
            "WHERE peer <> excluded.peer OR home <> excluded.home",
            (local_id, peer.no, record.home or peer.code),
        )
    return clash


def _is_sound(peer: Peer, record: Record) -> bool:
    try:
        record_checks.checked(record, _key(peer, record))
    except Invalid:
        return False
    return True


def _parent_id(peer: Peer, record: LocationRecord) -> int:
    """The root locations of a site are below the location that represents it."""
    parent = peer.location_id if record.parent is None else resolve(peer, [record.parent]).get(record.parent)
    if parent is None:
        raise Conflict("the location it is in is not known here")
    return parent


def _link(peer_no: int, remote_id: int, local_id: int) -> None:
    execute("INSERT INTO link (peer, remote_id, local_id) VALUES (?, ?, ?)", (peer_no, remote_id, local_id))


def _find_clash(peer: Peer, record: Record, key: str, local: int | None) -> _Clash | None:
    """With a clashing key, a deleted record is kept for its history to belong to; a clashing tag is left out."""
    holder = holder_of_key(peer.organization_id, record, key, local)
    if holder:
        reason = f"{table_of(record)} {key} is here already"
        return _Clash(holder, reason, record._replace(deleted_at=record.updated_at, tags=()))
    taken = holders_of_tags(peer.organization_id, record, local)
    if not taken:
        return None
    gone = {(kind, value) for _, kind, value in taken}
    free = [(kind, value) for kind, value in record.tags if (kind, value) not in gone]
    words = ", ".join(f"{kind}:{value}" for kind, value in sorted(gone))
    return _Clash(taken[0][0], f"tag {words} is on something else here", record._replace(tags=free))


def _keep_conflict(peer: Peer, record: Record, clash: _Clash) -> None:
    kind = Kind.ASSET if isinstance(record, AssetRecord) else Kind.LOCATION
    execute(
        "INSERT INTO conflict (peer, remote_id, kind, local_id, reason, record, since) VALUES (?, ?, ?, ?, ?, ?, ?) "
        "ON CONFLICT DO UPDATE SET local_id = excluded.local_id, reason = excluded.reason, record = excluded.record "
        "WHERE (local_id, reason, record) IS NOT (excluded.local_id, excluded.reason, excluded.record)",
        (peer.no, record.ref, kind, clash.local_id, clash.reason, json.dumps(record), clock.now()),
    )


def set_aside(peer_no: int, what: str, reason: str) -> None:
    """Record what could not be accepted and why; the oldest of `MOST_ASIDE` entries of a peer go first."""
    execute(
        "INSERT INTO set_aside (peer, what, reason, since) VALUES (?, ?, ?, ?) "
        "ON CONFLICT DO UPDATE SET reason = excluded.reason WHERE reason <> excluded.reason",
        (peer_no, what, reason[:MOST_REASON], clock.now()),
    )
    execute(
        "DELETE FROM set_aside WHERE peer = ?1 AND what IN (SELECT what FROM set_aside WHERE peer = ?1 "
        "ORDER BY since DESC LIMIT -1 OFFSET ?2)",
        (peer_no, MOST_ASIDE),
    )


def _key(peer: Peer, record: Record) -> str:
    """Every site has a DOCK-1, so at the hub the keys of its locations begin with the site's code."""
    if isinstance(record, LocationRecord) and peer.no != HUB:
        return f"{peer.code}-{record.external_key}"
    return record.external_key


def adopt(peer: Peer, yours: Mapping[int, int]) -> None:
    """Records of this box whose home is the hub now, by the hub's ids: from now on they mirror the hub's."""
    for remote_id, local_id in yours.items():
        owned = execute("SELECT 1 FROM asset WHERE id = ? AND organization_id = ?", (local_id, peer.organization_id))
        before = resolve(peer, [remote_id]).get(remote_id)
        if owned.fetchone() is None or before == local_id:
            continue
        if before is not None:  # the substitute for the hub's record while the two clashed
            execute("DELETE FROM link WHERE peer = ? AND remote_id = ?", (peer.no, remote_id))
            execute("DELETE FROM mirror WHERE record_id = ?", (before,))
            execute("DELETE FROM conflict WHERE peer = ? AND remote_id = ?", (peer.no, remote_id))
        _link(peer.no, remote_id, local_id)
        execute(
            "INSERT OR REPLACE INTO mirror (record_id, peer, home) VALUES (?, ?, ?)", (local_id, peer.no, peer.code)
        )
