"""Mirrors: copies of records from another machine, which is their home. Conflicts are listed, never resolved by guess.

A hub mirrors the assets and locations of its sites, and a site the assets of its hub. Changes are audited at their
home.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

from edge import clock
from edge.audit import actors, quotas
from edge.database.change_log import Kind
from edge.database.connection import database, execute, scalar
from edge.database.ids import new_id
from edge.errors import Conflict, EdgeError
from edge.records import assets, location_tree, locations, search
from edge.records.external_keys import moment
from edge.records.kept_elsewhere import home_of
from edge.sync.store import change_feed, known_records, record_copies, record_groups, record_lines
from edge.sync.store.exchange import HUB, AssetRecord, LocationRecord, Peer, Record
from edge.sync.store.record_copies import holder_of_key, holders_of_tags, in_order
from edge.sync.store.record_lines import of_stored, stored, table_of
from edge.sync.store.refused_data import set_aside
from edge.texts import N_
from edge.tracking import stays
from edge.validation.values import MAX_KEY, MAX_TAGS

MOST_RETRIED = 200  # conflicts per batch
MOST_CORRECTED = 500
MOST_LEVELS = 100  # of a location of a site: each one that moves costs a look at all levels above it


class _RecordConflict(NamedTuple):
    """The record that holds the key or a tag, and the part of the incoming record that can be stored anyway."""

    local_id: int
    reason: str
    rest: Record


def apply_in_steps(
    peer: Peer, assets: Sequence[AssetRecord], locations: Sequence[LocationRecord], aside: list[str]
) -> Iterator[None]:
    """Store the records as they are at their home, in steps. Adds a text for each refused record to `aside`.

    Run the steps in transactions. After an interruption, apply all records again.
    """
    fresh: list[Record] = [*in_order(locations), *assets]
    for window in record_groups.windows(fresh):
        for group in record_groups.groups(peer, window):
            sound = [checked for record in group if (checked := _checked(peer, record, aside))]
            for record in sound:
                _make_way(peer, record)
            for record in sound:
                _take(peer, record, aside)
            yield
    yield from retry_in_steps(peer)


def take_back(peer: Peer, pairs: Iterable[tuple[int, int]]) -> None:
    """Make assets this site's own again that were the hub's, until it was restored to an earlier state.

    `pairs` has the hub's id and the own id. A separate copy is retired. Call in a transaction.
    """
    for remote_id, own in pairs:
        copy = known_records.resolve(peer, [remote_id]).get(remote_id)
        is_own = execute("SELECT 1 FROM asset WHERE id = ? AND organization_id = ?", (own, peer.organization_id))
        if copy is None or is_own.fetchone() is None:
            continue
        execute("DELETE FROM conflict WHERE peer = ? AND remote_id = ?", (peer.no, remote_id))
        if copy == own:
            execute("DELETE FROM link WHERE peer = ? AND remote_id = ?", (peer.no, remote_id))
            execute("DELETE FROM mirror WHERE record_id = ? AND peer = ?", (own, peer.no))
            change_feed.add(Kind.ASSET, own)
        elif home_of(own) is None:
            stays.move_to_asset(peer.organization_id, copy, own, skip_taken=True)
            record_copies.retire(peer.organization_id, "asset", copy, moment())


def has_conflicts(peer: Peer) -> bool:
    return execute("SELECT 1 FROM conflict WHERE peer = ? LIMIT 1", (peer.no,)).fetchone() is not None


def retry_in_steps(peer: Peer, first: int = 0) -> Iterator[None]:
    """Retry a random selection of conflicts, since the other record may have changed.

    `first` is the peer's id of the conflict to retry in any case.
    """
    for kind, text in execute(
        "SELECT kind, record FROM (SELECT kind, record, since FROM conflict WHERE peer = ? "
        "ORDER BY remote_id <> ?, random() LIMIT ?) ORDER BY since",
        (peer.no, first, MOST_RETRIED),
    ).fetchall():
        record: Record = of_stored(AssetRecord if kind == Kind.ASSET else LocationRecord, text)
        if checked := _checked(peer, record, []):
            _take(peer, checked, [])
        yield


def retry_conflicts(peer: Peer, first: int = 0) -> None:
    """Retry conflicts in one transaction, after somebody has decided on one. See `retry_in_steps`."""
    for _ in retry_in_steps(peer, first):
        pass


def _make_way(peer: Peer, record: Record) -> None:
    """Free all keys and tags that a batch changes before assigning them, since they may move between its records."""
    local = _known(peer, record)
    if local is None or home_of(local) != peer.no:
        return
    table = table_of(record)
    execute(
        f"UPDATE {table} SET deleted_at = ? WHERE id = ? AND deleted_at IS NULL AND external_key <> ?",
        (record.updated_at, local, _key(peer, record)),
    )
    tags_json = json.dumps(list(record.tags) if record.deleted_at is None else [])
    execute(
        f"UPDATE tag SET deleted_at = ? WHERE {table}_id = ? AND deleted_at IS NULL "
        "AND json_array(tag_type, value) NOT IN (SELECT value FROM json_each(?))",
        (moment(), local, tags_json),
    )


def _known(peer: Peer, record: Record) -> int | None:
    """Return the local id of the record, or None.

    A restored database assigns ids again. The creation time identifies the earlier record, which is released and gets
    no more updates.
    """
    linked = execute(
        "SELECT local_id, created_at FROM link WHERE peer = ? AND remote_id = ?", (peer.no, record.ref)
    ).fetchone()
    if linked is None:
        return _own(peer, record)
    if linked[1] is None and not _is_earlier_record(peer, record, linked[0]):
        execute(
            "UPDATE link SET created_at = ? WHERE peer = ? AND remote_id = ?", (record.created_at, peer.no, record.ref)
        )
    elif linked[1] != record.created_at:
        local = linked[0] if linked[1] is None else _own(peer, record)
        _release(peer, record, linked[0])
        return local if record.ref < 0 and local != linked[0] else None
    local_id: int = linked[0]
    return local_id


def _own(peer: Peer, record: Record) -> int | None:
    """Return the record of this hub that the peer knows by its id here, or None."""
    if record.ref > 0 or peer.no == HUB:
        return None
    return known_records.resolve(peer, [record.ref], {record.ref: record.created_at}).get(record.ref)


def _is_earlier_record(peer: Peer, record: Record, local: int) -> bool:
    """Compare creation times for links that were made before they stored one."""
    if peer.no == HUB or record.ref < 0 or home_of(local) != peer.no:
        return False
    same = execute(
        f"SELECT 1 FROM {table_of(record)} WHERE id = ? AND created_at = ?", (local, record.created_at)
    ).fetchone()
    return same is None


def _release(peer: Peer, record: Record, local: int) -> None:
    """Unlink a record whose id the peer has used again. It becomes this machine's own: its home has lost it."""
    if peer.no != HUB and record.ref > 0:
        execute(
            "UPDATE OR REPLACE link SET remote_id = ? WHERE peer = ? AND remote_id = ?", (-local, peer.no, record.ref)
        )
    execute("DELETE FROM link WHERE peer = ? AND remote_id = ?", (peer.no, record.ref))
    if execute("DELETE FROM mirror WHERE record_id = ? AND peer = ?", (local, peer.no)).rowcount:
        change_feed.add(_kind(record), local)


def keep_lost(peer: Peer, remote_ids: Iterable[int]) -> None:
    """Queue copies of assets that the hub lost in a restore. They are this machine's own until the hub has them again.

    They keep the hub's id, so that it recognizes the copies of several sites as one asset. Call in a transaction.
    """
    for remote_id in remote_ids:
        local = known_records.resolve(peer, [remote_id]).get(remote_id)
        if local is not None and execute("DELETE FROM mirror WHERE record_id = ? AND peer = ?", (local, HUB)).rowcount:
            execute("DELETE FROM conflict WHERE peer = ? AND remote_id = ?", (HUB, remote_id))
            change_feed.add(Kind.ASSET, local)


def _checked(peer: Peer, record: Record, aside: list[str]) -> Record | None:
    """Return the record by the rules of this box. An invalid one is set aside and changes nothing."""
    try:
        return record_lines.checked(record, _key(peer, record), _tags_here(peer, record))
    except EdgeError as error:
        _set_aside(peer, record, error, aside)
        return None


def _take(peer: Peer, record: Record, aside: list[str]) -> None:
    """Store a checked record. Adds a text to `aside` if it is refused."""
    try:
        with database.savepoint():
            conflict = _store(peer, record)
    except EdgeError as error:
        _set_aside(peer, record, error, aside)
        _tell_home(peer, _known(peer, record))
        return
    execute("DELETE FROM set_aside WHERE peer = ? AND what = ?", (peer.no, _label(record)))
    if conflict is None:
        execute("DELETE FROM conflict WHERE peer = ? AND remote_id = ?", (peer.no, record.ref))
    else:
        _keep_conflict(peer, record, conflict)


def _tell_home(peer: Peer, local: int | None) -> None:
    """Queue the asset of another home that a site sends as its own, or as lost. Only so it learns of a deleted one."""
    if peer.no != HUB and local is not None and home_of(local) != peer.no:
        change_feed.add(Kind.ASSET, local)


def _set_aside(peer: Peer, record: Record, error: EdgeError, aside: list[str]) -> None:
    set_aside(peer.no, _label(record), str(error))
    aside.append(f"{_label(record)}: {error}")


_KINDS = {"asset": Kind.ASSET, "location": Kind.LOCATION}


def _kind(record: Record) -> Kind:
    return _KINDS[table_of(record)]


def _label(record: Record) -> str:
    return f"{table_of(record)} {record.external_key[:MAX_KEY]}"


def _store(peer: Peer, record: Record) -> _RecordConflict | None:
    """Write the record without its conflicting part. Raises Conflict if it cannot be stored at all."""
    key = _key(peer, record)
    local = _known(peer, record)
    if same := known_records.find_same(peer, record, key, local):
        absorb(peer, record, local, same)
        if home_of(same) != peer.no:
            return None
        local = same
    if local is not None and record.deleted_at is not None and _is_one_of_several(peer, record, local):
        execute("DELETE FROM link WHERE peer = ? AND remote_id = ?", (peer.no, record.ref))
        local = None
    # At a site, a linked asset without a home is one that the hub had lost, see `keep_lost`.
    if local is not None and peer.no != HUB and home_of(local) != peer.no and not _is_waiting(peer, record):
        if _is_older(record, local):
            _tell_home(peer, local)
            return None
        raise Conflict(f"it was changed at {peer.code}, which is no longer its home")
    if record.deleted_at is None and peer.no != HUB and record.ref > 0:
        _make_way_at_home(peer, record, key, local)
    conflict = _find_conflict(peer, record, key, local) if record.deleted_at is None else None
    kept = _valid_here(conflict.rest if conflict else record, local)
    local_id = new_id() if local is None else local
    parent_id = _parent_id(peer, kept, local) if isinstance(kept, LocationRecord) else None
    if local is None and kept.deleted_at is None:
        quotas.check_number(peer.organization_id, table_of(record), more=1, added=0)
    record_copies.write(peer.organization_id, local_id, kept, key=key, parent_id=parent_id)
    if local is None:
        _link(peer.no, record.ref, local_id, record.created_at)
    if record.ref > 0:
        _set_home(peer, local_id, record)
    return conflict


def _valid_here(record: Record, local: int | None) -> Record:
    """Return the record valid from now if it is valid since its creation by a clock that was ahead."""
    now = moment()
    if record.valid_from != record.created_at or record.valid_from <= now or record.deleted_at is not None:
        return record
    row = execute(f"SELECT valid_from FROM {table_of(record)} WHERE id = ?", (local,)).fetchone()
    return record._replace(valid_from=min(row[0], now) if row else now)


def begin_validity(organization_id: int) -> None:
    """Let this machine's records be valid from now if they were created while its clock was ahead.

    Call while the clock is known to be right. Corrects at most `MOST_CORRECTED` of each kind.
    """
    actor = actors.service(organization_id)
    for table, patch in (("asset", assets.patch), ("location", locations.patch)):
        rows = execute(
            f"SELECT id FROM {table} WHERE organization_id = ? AND created_at > ? AND valid_from = created_at "
            "AND deleted_at IS NULL AND id NOT IN (SELECT record_id FROM mirror) LIMIT ?",
            (organization_id, clock.now(), MOST_CORRECTED),
        )
        for (record_id,) in rows.fetchall():
            with suppress(EdgeError):  # for example if its validity would end before
                patch(actor, record_id, {"valid_from": moment()})


def _set_home(peer: Peer, local_id: int, record: Record) -> None:
    execute(
        "INSERT INTO mirror (record_id, peer, home) VALUES (?, ?, ?) "
        "ON CONFLICT DO UPDATE SET peer = excluded.peer, home = excluded.home "
        "WHERE peer <> excluded.peer OR home <> excluded.home",
        (local_id, peer.no, record.home or peer.code),
    )


def absorb(peer: Peer, record: Record, placeholder: int | None, into: int) -> None:
    """Link the peer's record to an existing one, and move the history received for it.

    The home stays, unless this machine only kept the record for others, or it is the peer's own under an earlier id.
    """
    if peer.no == HUB:
        execute("DELETE FROM link WHERE peer = ? AND local_id = ?", (HUB, into))
        _set_home(peer, into, record)
    elif record.ref > 0 and known_records.is_kept_for_others(into):
        _set_home(peer, into, record)
        execute(_COPIES_IN_CONFLICT, (into,))  # copies of other sites no longer count
    execute("DELETE FROM link WHERE peer = ? AND remote_id = ?", (peer.no, record.ref))
    _link(peer.no, record.ref, into, record.created_at)
    execute(
        "DELETE FROM conflict WHERE peer = ?1 "
        "AND remote_id IN (SELECT remote_id FROM link WHERE peer = ?1 AND local_id = ?2)",
        (peer.no, into),
    )
    if placeholder is not None:
        _end_placeholder(peer.organization_id, table_of(record), placeholder, into)
    if peer.no != HUB and isinstance(record, AssetRecord):
        change_feed.add(Kind.ASSET, into)  # sends the site the record's id here


_COPIES_IN_CONFLICT = (
    "DELETE FROM conflict WHERE remote_id < 0 "
    "AND (peer, remote_id) IN (SELECT peer, remote_id FROM link WHERE local_id = ? AND remote_id < 0)"
)


def _end_placeholder(organization_id: int, table: search.Kind, placeholder: int, into: int) -> None:
    """Retire a record that stood for another one, move its history there, and queue it: it is this machine's own."""
    stays.move_to_asset(organization_id, placeholder, into, skip_taken=True)
    execute("DELETE FROM mirror WHERE record_id = ?", (placeholder,))
    record_copies.retire(organization_id, table, placeholder, moment())
    change_feed.add(_KINDS[table], placeholder)


def _is_one_of_several(peer: Peer, record: Record, local: int) -> bool:
    """Return True if the peer had several records that were merged here. It retires them, except for one."""
    if peer.no == HUB or record.ref < 0 or home_of(local) == peer.no:
        return False
    sql = "SELECT count(*) FROM link WHERE peer = ? AND local_id = ? AND remote_id > 0"
    return bool(execute(sql, (peer.no, local)).fetchone()[0] > 1)


def _is_waiting(peer: Peer, record: Record) -> bool:
    """Return True if a record of this hub came back from the peer and is in conflict."""
    sql = "SELECT 1 FROM conflict WHERE peer = ? AND remote_id = ?"
    return record.ref < 0 and execute(sql, (peer.no, record.ref)).fetchone() is not None


def _is_older(record: Record, local: int) -> bool:
    row = execute(f"SELECT updated_at FROM {table_of(record)} WHERE id = ?", (local,)).fetchone()
    return row is not None and record.updated_at <= row[0]


def _make_way_at_home(peer: Peer, record: Record, key: str, local: int | None) -> None:
    """Take keys and tags from earlier records of the same site, which decides on its own records.

    Such a record was lost in a restore of the site and created again before the recovery.
    """
    holder = holder_of_key(peer.organization_id, record, key, local)
    if holder is not None and home_of(holder) == peer.no:
        record_copies.retire(peer.organization_id, table_of(record), holder, record.updated_at)
    for other, kind, value in holders_of_tags(peer.organization_id, record.tags, local):
        if home_of(other) == peer.no:
            record_copies.drop_tag(peer.organization_id, other, kind, value)


def _tags_here(peer: Peer, record: Record) -> int:
    """Return the number of tags of the record here. It may keep them if it is older than the limit."""
    if len(record.tags) <= MAX_TAGS or (local := _known(peer, record)) is None:
        return 0
    sql = f"SELECT count(*) FROM tag WHERE {table_of(record)}_id = ? AND deleted_at IS NULL"
    return scalar(sql, (local,))


def _parent_id(peer: Peer, record: LocationRecord, local: int | None) -> int:
    """Return the local parent; the site's root locations are below the site's location. Raises Conflict.

    Only a known location that moves can make a cycle, since a new one has no children.
    """
    parent = (
        peer.location_id
        if record.parent is None
        else known_records.resolve_locations(peer, [record.parent]).get(record.parent)
    )
    if parent is None:
        raise Conflict(N_("its parent location is unknown here"))
    before = execute("SELECT parent_id FROM location WHERE id = ?", (local,)).fetchone()
    if before == (parent,):
        return parent
    if len(location_tree.ancestors(parent)) + 2 > MOST_LEVELS:
        raise Conflict(f"it would be more than {MOST_LEVELS} levels deep")
    if local is not None and before is not None:
        _break_cycle(peer, local, parent)
        location_tree.check_cycle(local, parent)
    return parent


def _break_cycle(peer: Peer, local: int, parent: int) -> None:
    """Move the site's location between `local` and its new parent to the site's root.

    The two were swapped at the site, and the new place of the other one arrives in a later batch.
    """
    way_up = [parent, *location_tree.ancestors(parent)]
    if local in way_up[1:] and home_of(between := way_up[way_up.index(local) - 1]) == peer.no:
        execute("UPDATE location SET parent_id = ? WHERE id = ?", (peer.location_id, between))


def _link(peer_no: int, remote_id: int, local_id: int, created_at: int | None = None) -> None:
    execute(
        "INSERT INTO link (peer, remote_id, local_id, created_at) VALUES (?, ?, ?, ?)",
        (peer_no, remote_id, local_id, created_at),
    )


def _find_conflict(peer: Peer, record: Record, key: str, local: int | None) -> _RecordConflict | None:
    """Return the conflict, if any. With a taken key the record is stored as deleted; taken tags are omitted."""
    holder = holder_of_key(peer.organization_id, record, key, local)
    if holder:
        reason = f"{table_of(record)} {key} already exists here"
        return _RecordConflict(holder, reason, record._replace(deleted_at=record.updated_at, tags=()))
    taken = holders_of_tags(peer.organization_id, record.tags, local)
    if not taken:
        return None
    gone = {(kind, value) for _, kind, value in taken}
    free = [(kind, value) for kind, value in record.tags if (kind, value) not in gone]
    tag_list = ", ".join(f"{kind}:{value}" for kind, value in sorted(gone))
    return _RecordConflict(taken[0][0], f"tag {tag_list} belongs to another record here", record._replace(tags=free))


def _keep_conflict(peer: Peer, record: Record, conflict: _RecordConflict) -> None:
    execute(
        "INSERT INTO conflict (peer, remote_id, kind, local_id, reason, record, since) VALUES (?, ?, ?, ?, ?, ?, ?) "
        "ON CONFLICT DO UPDATE SET local_id = excluded.local_id, reason = excluded.reason, record = excluded.record "
        "WHERE (local_id, reason, record) IS NOT (excluded.local_id, excluded.reason, excluded.record)",
        (peer.no, record.ref, _kind(record), conflict.local_id, conflict.reason, stored(record), clock.now()),
    )


def _key(peer: Peer, record: Record) -> str:
    """Return the key here. At the hub, a location's key begins with the site's code, since every site has a DOCK-1."""
    if isinstance(record, LocationRecord) and peer.no != HUB:
        return f"{peer.code}-{record.external_key}"
    return record.external_key


def adopt(peer: Peer, yours: Iterable[tuple[int, int]]) -> None:
    """Turn records of this machine that moved to the hub into mirrors. `yours` has pairs (hub id, own id).

    A negative id is one that the hub had before it was restored. Of several records that were merged, one stays.
    """
    pairs = [(remote_id, own if own > 0 else known_records.resolve(peer, [-own]).get(-own)) for remote_id, own in yours]
    for remote_id, local_id in pairs:
        owned = execute("SELECT 1 FROM asset WHERE id = ? AND organization_id = ?", (local_id, peer.organization_id))
        before = known_records.resolve(peer, [remote_id]).get(remote_id)
        if local_id is None or owned.fetchone() is None or before == local_id:
            continue
        if before is not None and (remote_id, before) in pairs:
            if home_of(local_id) is None and _is_live(local_id):
                _end_placeholder(peer.organization_id, "asset", local_id, before)
            continue
        if before is not None:  # the placeholder for the hub's record during the conflict
            execute("DELETE FROM link WHERE peer = ? AND remote_id = ?", (peer.no, remote_id))
            execute("DELETE FROM conflict WHERE peer = ? AND remote_id = ?", (peer.no, remote_id))
            _end_placeholder(peer.organization_id, "asset", before, local_id)
        execute("DELETE FROM link WHERE peer = ? AND local_id = ?", (peer.no, local_id))
        _link(peer.no, remote_id, local_id)
        execute(
            "INSERT OR REPLACE INTO mirror (record_id, peer, home) VALUES (?, ?, ?)", (local_id, peer.no, peer.code)
        )


def _is_live(asset_id: int) -> bool:
    return execute("SELECT 1 FROM asset WHERE id = ? AND deleted_at IS NULL", (asset_id,)).fetchone() is not None
