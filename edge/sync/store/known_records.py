"""Local ids of records that the other side names, also of those that come back under another id."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

from edge.database.change_log import Kind
from edge.database.connection import execute, find_scalar
from edge.records import location_tree
from edge.records.kept_elsewhere import home_of
from edge.sync.store.exchange import HUB, AssetRecord, Needs, Peer, Record
from edge.sync.store.record_copies import holder_of_key, holders_of_tags
from edge.sync.store.record_lines import table_of


class NotKnown(Exception):
    """A batch refers to records that the hub does not know."""

    def __init__(self, needs: Needs) -> None:
        super().__init__("the batch refers to an undeclared record")
        self.needs = needs


def resolve(peer: Peer, refs: Iterable[int], created_at_by_ref: Mapping[int, int] | None = None) -> dict[int, int]:
    """Return the local ids of known records by the peer's refs.

    A restored database assigns ids again, so a record with a creation time other than `created_at_by_ref` is unknown.
    For locations use `resolve_locations`.
    """
    ref_list, created_at_by_ref = list(set(refs)), created_at_by_ref or {}
    if not ref_list:
        return {}
    rows = execute(
        "SELECT remote_id, local_id, created_at FROM link "
        "WHERE peer = ? AND remote_id IN (SELECT value FROM json_each(?))",
        (peer.no, json.dumps(ref_list)),
    )
    known = {ref: local for ref, local, at in rows if at is None or created_at_by_ref.get(ref, at) == at}
    own_refs = [-ref for ref in ref_list if ref < 0 and ref not in known]
    if peer.no != HUB and own_refs:
        ours = json.dumps(own_refs)
        for table in ("asset", "location"):
            known |= {
                -own: own
                for own, at in execute(
                    f"SELECT id, created_at FROM {table} "
                    "WHERE +organization_id = ? AND id IN (SELECT value FROM json_each(?))",
                    (peer.organization_id, ours),
                )
                if created_at_by_ref.get(-own, at) == at
            }
    return known


def resolve_assets(peer: Peer, refs: Iterable[int], created_at_by_ref: Mapping[int, int]) -> dict[int, int]:
    """Like `resolve`, without the refs of locations."""
    known = resolve(peer, refs, created_at_by_ref)
    if not known:
        return {}
    rows = execute(
        "SELECT id FROM asset WHERE id IN (SELECT value FROM json_each(?))", (json.dumps(list(known.values())),)
    )
    ids = {asset_id for (asset_id,) in rows}
    return {ref: local for ref, local in known.items() if local in ids}


def resolve_locations(peer: Peer, refs: Iterable[int]) -> dict[int, int]:
    """Return the local ids of known locations where the peer may report reads and place its own locations.

    At a hub these are the site's own locations, and the hub's below the site's location. A site that names any other
    one is faulty or hostile.
    """
    known = resolve(peer, refs)
    if peer.no == HUB or not known:
        return known
    rows = execute(
        "SELECT value, mirror.peer FROM json_each(?) LEFT JOIN mirror ON record_id = value",
        (json.dumps(list(known.values())),),
    ).fetchall()
    allowed = {local for local, home in rows if home == peer.no}
    allowed |= below(peer, [local for local, home in rows if home is None])
    return {ref: local for ref, local in known.items() if local in allowed}


def below(peer: Peer, location_ids: Iterable[int]) -> set[int]:
    """Return those of the locations that are the peer's place at this hub or below it."""
    over = location_tree.tops_over({*location_ids}, frozenset([peer.location_id]), with_deleted=True)
    return {location_id for location_id, tops in over.items() if tops}


def find_same(peer: Peer, record: Record, key: str, local: int | None) -> int | None:
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
    return home_of(holder) == peer.no or (home_of(holder) is None and bool(below(peer, [holder])))


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
