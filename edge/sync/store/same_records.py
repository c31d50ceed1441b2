"""Recognizes a record that comes back under another id, after a restore or a disconnection."""

from __future__ import annotations

from edge.database.change_log import Kind
from edge.database.connection import execute, find_scalar
from edge.records.kept_elsewhere import home_of
from edge.sync.store import known_records
from edge.sync.store.exchange import HUB, AssetRecord, Peer, Record
from edge.sync.store.record_copies import holder_of_key, holders_of_tags, table_of


def find(peer: Peer, record: Record, key: str, local: int | None) -> int | None:
    """Return the same record under another id.

    It was created at the same moment as no other record, and has the same key or one of the tags.
    """
    holder = holder_of_key(peer.organization_id, record, key, local)
    if record.deleted_at is not None:  # at its home; another site has given its copy back
        if local is None and holder is not None and is_kept_for_others(holder):
            return holder if _is_created_with(peer, record, holder) else None
        return None
    if record.ref < 0 and local is None and (deleted := _deleted_at_home(peer, record, key)):
        return deleted
    if holder is not None and _is_created_with(peer, record, holder) and _may_be_of(peer, record, holder):
        return holder
    if holder is not None and (waiting := _waiting_too(peer, record, holder, local)):
        return waiting
    for holder, _, _ in holders_of_tags(peer.organization_id, record.tags, local):
        is_copy = record.ref < 0 or home_of(holder) == HUB or is_kept_for_others(holder)  # the key may be outdated
        if is_copy and _is_created_with(peer, record, holder) and _may_be_of(peer, record, holder):
            return holder
    if peer.no == HUB or record.ref < 0 or local is not None:
        return None
    row = execute(
        f"SELECT local_id FROM link JOIN {table_of(record)} r ON r.id = local_id WHERE peer = ? AND remote_id < 0 "
        "AND link.created_at = ? AND external_key = ?",
        (peer.no, record.created_at, key),
    ).fetchone()
    return row[0] if row and _is_created_with(peer, record, row[0]) else None


def _waiting_too(peer: Peer, record: Record, holder: int, local: int | None) -> int | None:
    """Return the same asset from another site that waits for the same key. One of the two is a copy."""
    if peer.no == HUB or not isinstance(record, AssetRecord):
        return None
    return find_scalar(
        "SELECT link.local_id FROM conflict JOIN link USING (peer, remote_id) "
        "WHERE conflict.local_id = ? AND kind = ? AND record ->> 1 = ? AND record ->> 8 = ? "
        "AND link.local_id IS NOT ? AND (remote_id < 0 OR ? < 0)",
        (holder, Kind.ASSET, record.external_key, record.created_at, local, record.ref),
    )


def _deleted_at_home(peer: Peer, record: Record, key: str) -> int | None:
    """Return the asset that the record is a copy of, if its home has since deleted it."""
    return find_scalar(
        f"SELECT id FROM {table_of(record)} JOIN mirror ON record_id = id "
        "WHERE organization_id = ? AND external_key = ? AND created_at = ? AND deleted_at IS NOT NULL",
        (peer.organization_id, key, record.created_at),
    )


def _may_be_of(peer: Peer, record: Record, holder: int) -> bool:
    """Return False for another site's location: its key may begin with this site's code, too."""
    if peer.no == HUB or isinstance(record, AssetRecord):
        return True
    return home_of(holder) == peer.no or (home_of(holder) is None and bool(known_records.below(peer, [holder])))


def _is_created_with(peer: Peer, record: Record, holder: int) -> bool:
    """Return True if `holder` is the only record created at the same moment.

    All rows of an import share one moment, so for them the time proves nothing.
    """
    table = table_of(record)
    at_once = execute(f"SELECT 1 FROM {table} WHERE id = ? AND created_at = ?", (holder, record.created_at)).fetchone()
    if at_once is None:  # usually; the search below looks at all records
        return False
    sql = f"SELECT id FROM {table} WHERE organization_id = ? AND created_at = ? LIMIT 2"
    return execute(sql, (peer.organization_id, record.created_at)).fetchall() == [(holder,)]


def is_kept_for_others(local: int) -> bool:
    """Return True if this hub got the record back from sites that only mirror it."""
    row = execute(
        "SELECT count(*), max(remote_id) FROM link WHERE local_id = ?1 "
        "AND NOT EXISTS (SELECT 1 FROM mirror WHERE record_id = ?1)",
        (local,),
    ).fetchone()
    return bool(row[0]) and row[1] < 0
