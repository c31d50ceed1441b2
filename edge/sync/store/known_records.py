"""Local ids of records that the other side names."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

from edge.database.connection import execute
from edge.sync.store.exchange import HUB, Needs, Peer


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
    ids = list(location_ids)
    if not ids:
        return set()
    parents: dict[int, int | None] = dict(execute(_WAYS_UP, (json.dumps(ids),)).fetchall())
    is_below: dict[int, bool] = {peer.location_id: True}
    for location_id in ids:
        way: list[int] = []
        at: int | None = location_id
        while at is not None and at not in is_below:
            is_below[at] = False
            way.append(at)
            at = parents.get(at)
        is_below.update(dict.fromkeys(way, at is not None and is_below[at]))
    return {location_id for location_id in ids if is_below[location_id]}


_WAYS_UP = """
WITH RECURSIVE up (id, parent_id) AS (
    SELECT id, parent_id FROM location WHERE id IN (SELECT value FROM json_each(?))
    UNION
    SELECT location.id, location.parent_id FROM up JOIN location ON location.id = up.parent_id
)
SELECT id, parent_id FROM up
"""
