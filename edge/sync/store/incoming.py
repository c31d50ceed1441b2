"""The hub's handling of batches: it copies the site's rows unchanged and never recomputes them.

The hub answers after its commit. The cursor moves in the same transaction as the data.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from edge import clock
from edge.database.connection import execute, execute_many, writing
from edge.sync.store import mirrors
from edge.sync.store.change_feed import Kind
from edge.sync.store.exchange import (
    AntennaName,
    AssetRecord,
    Batch,
    Cursor,
    LocationRecord,
    Needs,
    Origin,
    Patch,
    Record,
    TrackState,
)
from edge.sync.store.mirrors import Peer
from edge.tracking import copies
from edge.tracking.copies import Key, SiteTrack
from edge.tracking.stays import ScanSource, number_of
from edge.validation.values import MAX_INT64


class Taken(NamedTuple):
    """Result of a batch. `is_applied` is False if the cursor did not match or a record was unknown."""

    is_applied: bool
    cursor: Cursor
    needs: Needs = Needs()
    aside: Sequence[str] = ()


_NOT_RECORDED = "it contains an invalid time or number"


class _NotKnown(Exception):
    def __init__(self, needs: Needs) -> None:
        super().__init__("the batch refers to an undeclared record")
        self.needs = needs


def take(peer: Peer, base: Cursor, batch: Batch, chain: bytes) -> Taken:
    """Apply a batch that directly follows the site's cursor, completely or not at all."""
    try:
        with writing():
            present = cursor_of(peer.no)
            if present != base or batch.until_seq < base.acked_seq:  # equal for batches with positions only
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
    """Return the hub's position in the site's data."""
    return Cursor(*execute("SELECT epoch, acked_seq, chain FROM site WHERE no = ?", (site_no,)).fetchone())


def _apply(peer: Peer, batch: Batch) -> list[str]:
    _check_parents(peer, batch.locations)
    known = copies.site_tracks(peer.no, [state.no for state in batch.tracks])
    _check_declared(batch, _resolve(peer, batch), known, batch.assets, batch.locations)
    aside = mirrors.apply(peer, batch.assets, batch.locations)
    for refused in batch.refused:
        mirrors.set_aside(peer.no, refused, _NOT_RECORDED)
        aside.append(f"{refused}: {_NOT_RECORDED}")
    _keep_names(peer.no, Kind.READER, batch.readers)
    _keep_names(peer.no, Kind.PERSON, batch.people)
    _keep_antennas(peer.no, batch.antennas)
    here = _resolve(peer, batch)
    _check_declared(batch, here, known)
    tracks = _keep_tracks(peer, batch.tracks, known, here)
    _keep_seen(peer.no, batch.seen)
    copies.delete_tracks(track.no for track in copies.site_tracks(peer.no, batch.gone_tracks).values())
    sources = [_source_no(peer, origin, here.locations[origin.location]) for origin in batch.origins]
    _replace_stays(batch.patches, tracks, sources, batch.horizon)
    return aside


class _Here(NamedTuple):
    """Ids at this hub by the site's refs."""

    assets: Mapping[int, int]
    locations: Mapping[int, int]


def _resolve(peer: Peer, batch: Batch) -> _Here:
    names = [*(origin.location for origin in batch.origins), *(state.location for state in batch.tracks)]
    assets = [state.asset for state in batch.tracks if state.asset is not None]
    return _Here(mirrors.resolve(peer, assets, batch.created_at_by_ref), mirrors.resolve(peer, names))


def _check_declared(
    batch: Batch,
    here: _Here,
    known: Mapping[int, SiteTrack],
    assets: Sequence[AssetRecord] = (),
    locations: Sequence[LocationRecord] = (),
) -> None:
    """Raise _NotKnown for refs that are neither known nor among these records."""
    tracks = {state.no for state in batch.tracks}
    unknown = {state.no for state in batch.tracks if state.asset is None and state.no not in known}
    named = {state.location for state in batch.tracks} | {origin.location for origin in batch.origins}
    needs = Needs(
        sorted(
            {state.asset for state in batch.tracks if state.asset is not None}.difference(here.assets, _refs(assets))
        ),
        sorted(named.difference(here.locations, _refs(locations))),
        sorted(unknown | {patch.track for patch in batch.patches} - tracks),
    )
    if any(needs):
        raise _NotKnown(needs)


def _refs(records: Sequence[Record]) -> list[int]:
    return [record.ref for record in records]


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


def _keep_antennas(site_no: int, antennas: Sequence[AntennaName]) -> None:
    execute_many(
        "INSERT INTO remote_antenna_name (site_no, remote_reader, port, name) VALUES (?, ?, ?, ?) "
        "ON CONFLICT DO UPDATE SET name = excluded.name WHERE name <> excluded.name",
        [(site_no, *antenna) for antenna in antennas],
    )


def _keep_tracks(peer: Peer, states: Sequence[TrackState], known: dict[int, SiteTrack], here: _Here) -> dict[int, int]:
    """Store the tracks and return their numbers here, by the site's numbers.

    The site's values always replace the hub's, even older ones: an undo moves last-seen times backward. A site that
    catches up repeats states in many batches, so only differences are written.
    """
    changed = []
    for state in states:
        values = (here.locations[state.location], *state[3:])
        track = known.get(state.no)
        if track and state.asset is not None and track.asset_id != here.assets[state.asset]:
            # A restored database reused the number: keep the history of its first use.
            copies.release_number(track.no)
            track = None
        if track is None:
            asset_id = here.assets[state.asset or 0]
            known[state.no] = copies.add_site_track(peer.organization_id, peer.no, state.no, asset_id, values)
        elif track.values != values:
            changed.append((*values, track.no))
    copies.update_tracks(changed)
    return {remote_no: track.no for remote_no, track in known.items()}


def _keep_seen(site_no: int, seen: Sequence[tuple[int, int]]) -> None:
    """Update last-seen times. Raises _NotKnown for unknown tracks."""
    known = copies.site_tracks(site_no, [no for no, _ in seen])
    if unknown := sorted({no for no, _ in seen}.difference(known)):
        raise _NotKnown(Needs(tracks=unknown))
    last_seen_at = copies.VALUES.index("last_seen_at")
    copies.update_last_seen([(at, known[no].no) for no, at in seen if known[no].values[last_seen_at] != at])


def _source_no(peer: Peer, origin: Origin, location_id: int) -> int:
    source = ScanSource(location_id, None, origin.port, peer.no, origin.reader, origin.person)
    return number_of(peer.organization_id, source)


def _replace_stays(patches: Sequence[Patch], tracks: Mapping[int, int], sources: Sequence[int], horizon: int) -> None:
    """Replace the rows inside the patches, except those before `horizon`, which the site's retention dropped."""
    new_rows: dict[Key, tuple[int | None, ...]] = {
        (tracks[patch.track], stay.observed_at, stay.seq): (stay.seen_for, sources[stay.origin], *stay[4:])
        for patch in patches
        for stay in patch.stays
    }
    there = copies.keys_within([(tracks[patch.track], patch.since, patch.until) for patch in patches], horizon)
    gone = there - new_rows.keys()
    there |= copies.keys_within([(no, at, at) for no, at, _ in new_rows if at < horizon], -MAX_INT64)
    copies.replace_rows(gone, new_rows)
    more = Counter(no for no, _, _ in new_rows.keys() - there)
    more.subtract(no for no, _, _ in gone)
    copies.count_rows(more, {tracks[patch.track] for patch in patches if patch.since < patch.until})
