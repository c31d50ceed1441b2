"""What a hub does with a site's batch: it copies the site's rows as they are and never computes them again.

The hub answers after its commit, and the cursor moves in the same transaction as the data.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from edge import clock
from edge.store import mirrors
from edge.store.changes import Kind
from edge.store.database import execute, execute_many, writing
from edge.store.exchange import Batch, Cursor, LocationRecord, Needs, Origin, Patch, TrackState
from edge.store.mirrors import Peer
from edge.store.sources import ScanSource, number_of


class Taken(NamedTuple):
    """The result of a batch. `is_applied` is False when the cursor did not match or something was unknown."""

    is_applied: bool
    cursor: Cursor
    needs: Needs = Needs()
    aside: Sequence[str] = ()


class _NotKnown(Exception):
    def __init__(self, needs: Needs) -> None:
        super().__init__("the batch refers to something that was never declared")
        self.needs = needs


def take(peer: Peer, base: Cursor, batch: Batch, chain: bytes) -> Taken:
    """Apply a batch that directly follows what the hub has of the site, whole or not at all."""
    try:
        with writing():
            present = cursor_of(peer.no)
            if present != base or batch.until_seq <= base.acked_seq:
                return Taken(False, present)
            aside = _apply(peer, batch)
            execute(
                "UPDATE site SET acked_seq = ?, chain = ?, horizon = max(horizon, ?), last_commit_at = ? WHERE no = ?",
                (batch.until_seq, chain, batch.horizon, clock.now(), peer.no),
            )
            return Taken(True, Cursor(base.epoch, batch.until_seq, chain), aside=aside)
    except _NotKnown as error:
        return Taken(False, base, error.needs)


def cursor_of(site_no: int) -> Cursor:
    return Cursor(*execute("SELECT epoch, acked_seq, chain FROM site WHERE no = ?", (site_no,)).fetchone())


def _apply(peer: Peer, batch: Batch) -> list[str]:
    _check_parents(peer, batch.locations)
    aside = mirrors.apply(peer, batch.assets, batch.locations)
    _keep_names(peer.no, Kind.READER, batch.readers)
    _keep_names(peer.no, Kind.PERSON, batch.people)
    names = [*(origin.location for origin in batch.origins), *(state.location for state in batch.tracks)]
    locations = mirrors.resolve(peer, names)
    assets = mirrors.resolve(peer, [state.asset for state in batch.tracks if state.asset is not None])
    known = _track_numbers(peer.no, [state.no for state in batch.tracks])
    needs = Needs(
        sorted({state.asset for state in batch.tracks if state.asset is not None} - set(assets)),
        sorted(set(names) - set(locations)),
        sorted(state.no for state in batch.tracks if state.asset is None and state.no not in known),
    )
    if any(needs):
        raise _NotKnown(needs)
    for state in batch.tracks:
        known[state.no] = _keep_track(peer, state, known.get(state.no), assets, locations[state.location])
    _drop_tracks(peer.no, batch.gone_tracks)
    sources = [_source_no(peer, origin, locations[origin.location]) for origin in batch.origins]
    _replace_stays(batch.patches, known, sources, batch.horizon)
    return aside


def _check_parents(peer: Peer, locations: Sequence[LocationRecord]) -> None:
    parents = {record.parent for record in locations if record.parent is not None}
    parents -= {record.ref for record in locations}
    if unknown := parents - set(mirrors.resolve(peer, parents)):
        raise _NotKnown(Needs(locations=sorted(unknown)))


def _keep_names(site_no: int, kind: Kind, names: Mapping[int, str]) -> None:
    execute_many(
        "INSERT INTO remote_name (site_no, remote_id, kind, name) VALUES (?, ?, ?, ?) "
        "ON CONFLICT DO UPDATE SET name = excluded.name WHERE name <> excluded.name",
        [(site_no, remote_id, kind, name) for remote_id, name in names.items()],
    )


def _track_numbers(site_no: int, remote_numbers: Sequence[int]) -> dict[int, int]:
    found = execute(
        "SELECT remote_no, no FROM track WHERE site_no = ? AND remote_no IN (SELECT value FROM json_each(?))",
        (site_no, json.dumps(list(remote_numbers))),
    )
    return dict(found.fetchall())


def _keep_track(peer: Peer, state: TrackState, no: int | None, assets: dict[int, int], location_id: int) -> int:
    """The site's values always replace the hub's, also older ones: an undo moves the last sighting backwards."""
    values = (location_id, state.last_seen_at, state.dwell_started_at, state.row_at, state.row_seq, state.row_rule)
    if no is not None and state.asset is not None and _asset_of(no) != assets[state.asset]:
        # A database that was copied back used the number a second time: keep the history of its first use.
        execute("UPDATE track SET remote_no = -no WHERE no = ?", (no,))
        no = None
    if no is None and state.asset is not None:
        found: int = execute(
            "INSERT INTO track (asset_id, site_no, remote_no, organization_id, location_id, last_seen_at, "
            "dwell_started_at, row_at, row_seq, row_rule, history_rows) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0) "
            "RETURNING no",
            (assets[state.asset], peer.no, state.no, peer.organization_id, *values),
        ).fetchone()[0]
        return found
    execute(
        "UPDATE track SET location_id = ?, last_seen_at = ?, dwell_started_at = ?, row_at = ?, row_seq = ?, "
        "row_rule = ? WHERE no = ?",
        (*values, no),
    )
    return no or 0


def _asset_of(track_no: int) -> int:
    asset_id: int = execute("SELECT asset_id FROM track WHERE no = ?", (track_no,)).fetchone()[0]
    return asset_id


def _drop_tracks(site_no: int, remote_numbers: Sequence[int]) -> None:
    for no in _track_numbers(site_no, remote_numbers).values():
        execute("DELETE FROM history WHERE position_no = ?", (no,))
        execute("DELETE FROM track WHERE no = ?", (no,))


def _source_no(peer: Peer, origin: Origin, location_id: int) -> int:
    source = ScanSource(location_id, None, origin.port, peer.no, origin.reader, origin.person)
    return number_of(peer.organization_id, source)


def _replace_stays(patches: Sequence[Patch], known: dict[int, int], sources: Sequence[int], horizon: int) -> None:
    """What the site's retention has dropped, before its horizon, stays here."""
    execute_many(
        "DELETE FROM history WHERE position_no = ? AND observed_at BETWEEN ? AND ? AND observed_at + seen_for >= ?",
        [(known[patch.track], patch.since, patch.until, horizon) for patch in patches],
    )
    execute_many(
        "INSERT OR REPLACE INTO history "
        "(position_no, observed_at, seq, seen_for, source_no, delay, quality, rule, rssi) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [
            (known[patch.track], stay.observed_at, stay.seq, stay.seen_for, sources[stay.origin], *stay[4:])
            for patch in patches
            for stay in patch.stays
        ],
    )
    execute_many(
        "UPDATE track SET history_rows = (SELECT count(*) FROM history WHERE position_no = track.no) WHERE no = ?",
        [(known[track],) for track in {patch.track for patch in patches}],
    )
