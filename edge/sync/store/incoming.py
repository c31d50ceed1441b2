"""The hub's handling of batches: it copies the site's rows unchanged and never recomputes them.

The hub answers after its last commit, in which the cursor moves.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import chain as chain_of
from typing import NamedTuple

from edge import clock
from edge.database.change_log import Kind
from edge.database.connection import execute, execute_many, reading
from edge.database.sliced_writing import slices_of, write_in_slices
from edge.doors import passage_copies
from edge.errors import Unavailable
from edge.sync.store import (
    incoming_stays,
    known_records,
    mirrors,
    refused_data,
    remote_batches,
    site_quotas,
    sites,
)
from edge.sync.store.comparisons import FOREVER
from edge.sync.store.exchange import (
    AssetRecord,
    Batch,
    Cursor,
    LocationRecord,
    Needs,
    Origin,
    Peer,
    Record,
    TrackState,
)
from edge.sync.store.known_records import NotKnown
from edge.texts import N_
from edge.tracking import copies, history_engine
from edge.tracking.stays import ScanSource, number_of


class Taken(NamedTuple):
    """Result of a batch. `is_applied` is False if the cursor did not match or a record was unknown."""

    is_applied: bool
    cursor: Cursor
    needs: Needs = Needs()
    aside: Sequence[str] = ()


_NOT_RECORDED = "it contains an invalid time or number"
_AHEAD = N_("its time is more than a day ahead of this hub")
_REFUSED = N_("its asset or location was refused")
_TOO_MANY = N_("its asset has too many positions from this site")
MOST_AHEAD = clock.DAY  # of the clock of the hub
TRACKS_OF_STEP = 4  # times as many rows as in other steps, since looking up their locations takes longer than writing
MOST_TRACKS = 50  # of an asset, from one site; it has another one after each replacement or restore of the box


_busy_sites: set[int] = set()
_busy_lock = threading.Lock()


class _Moved(Exception):
    """The cursor of the site has moved, or it does not report any more."""


def take(peer: Peer, base: Cursor, batch: Batch, chain: bytes, note: Callable[[], None] = lambda: None) -> Taken:
    """Apply a batch that directly follows the site's cursor, and call `note` in the transaction that moves the cursor.

    It is written in slices, and others can write in between. The cursor moves with the last slice, and each slice
    requires that it has not moved meanwhile. After a crash the site sends the batch again; rows that are equal already
    are not written. Raises HistoryWaits, or Unavailable while an earlier batch of the site is written.
    """
    if not _begin(peer.no):
        raise Unavailable("an earlier batch of this site is still being written", 1)
    try:
        remote_batches.settle(peer.no)
        return _take(peer, base, batch, chain, note)
    except NotKnown as error:
        return Taken(False, base, error.needs)
    except _Moved:
        return Taken(False, sites.cursor_of(peer.no))
    finally:
        _busy_sites.discard(peer.no)


def _take(peer: Peer, base: Cursor, batch: Batch, chain: bytes, note: Callable[[], None]) -> Taken:
    with reading():
        if batch.until_seq < base.acked_seq or not _is_at(peer.no, base):  # equal for batches with positions only
            return Taken(False, sites.cursor_of(peer.no))
        _check_parents(peer, batch.locations)
        known = copies.assets_of_tracks(peer.no, [state.no for state in batch.tracks])
        here = _resolve(peer, batch)
        _check_declared(batch, here, known, batch.assets, batch.locations)
    site_quotas.check(peer.no, batch)
    aside: list[str] = []
    if batch.assets or batch.locations or mirrors.has_conflicts(peer):
        _in_slices(peer.no, base, mirrors.apply_in_steps(peer, batch.assets, batch.locations, aside))
        with reading():
            here = _resolve(peer, batch)
    batch, refused = _without_invalid(peer, batch, known, here)
    aside += (f"{item}: {reason}" for item, reason in refused.items())
    done = Cursor(base.epoch, batch.until_seq, chain)
    sources: list[int] = []
    steps = _write(peer, batch, refused, sources)

    def finish() -> None:
        sites.move_cursor(peer.no, done, batch.horizon)
        note()

    if history_engine.is_remote():
        _in_slices(peer.no, base, steps)
        with remote_batches.writing_stays(peer.no, base, done, batch.horizon, note):
            for _ in incoming_stays.write(peer.no, batch, sources):
                pass
    else:
        _in_slices(peer.no, base, chain_of(steps, incoming_stays.write(peer.no, batch, sources)), finish)
    return Taken(True, done, aside=aside[-refused_data.MOST_ASIDE :])


def _begin(site_no: int) -> bool:
    """Return False if a batch of the site is being written. Two at once would overwrite each other."""
    with _busy_lock:
        if site_no in _busy_sites:
            return False
        _busy_sites.add(site_no)
        return True


def _is_at(site_no: int, base: Cursor) -> bool:
    """Return True if the site still reports and its cursor is `base`."""
    row = execute(
        "SELECT 1 FROM site WHERE no = ? AND epoch IS ? AND acked_seq = ? AND chain = ? "
        "AND removed_at IS NULL AND retired_at IS NULL",
        (site_no, *base),
    ).fetchone()
    return row is not None


def _in_slices(site_no: int, base: Cursor, steps: Iterator[None], done: Callable[[], None] = lambda: None) -> None:
    """Run the steps in transactions of limited length, and `done` in the last one. Raises _Moved."""
    size = 0

    def begin() -> None:
        nonlocal size
        if not _is_at(site_no, base):
            raise _Moved
        size = site_quotas.used_bytes()

    def end(is_last: bool) -> None:
        if is_last:
            done()
        site_quotas.charge(site_no, site_quotas.used_bytes() - size)

    write_in_slices(steps, begin, end)


def _without_invalid(peer: Peer, batch: Batch, known: Mapping[int, int], here: _Here) -> tuple[Batch, dict[str, str]]:
    """Return the batch without data that is refused, and the reason by the part that was left out. Raises NotKnown."""
    refused = dict.fromkeys(batch.refused, _NOT_RECORDED)
    batch, not_stored = _without_refused(batch, here)
    _check_declared(batch, here, known, batch.assets, batch.locations)
    batch, ahead = _without_future(batch)
    batch, too_many = _without_excess(peer, batch, known, here)
    return batch, refused | not_stored | ahead | too_many


def _write(peer: Peer, batch: Batch, refused: Mapping[str, str], sources: list[int]) -> Iterator[None]:
    """Write everything except records and stays, in steps, and append the numbers of the sources.

    Each step looks up the ids that it needs, since others write, too.
    """
    refused_data.set_all_aside(peer.no, refused)
    for kind, names in ((Kind.READER, batch.readers), (Kind.PERSON, batch.people)):
        for part in slices_of(sorted(names.items())):
            named = [(peer.no, remote_id, kind, name) for remote_id, name in part]
            columns = "site_no, remote_id, kind, name"
            execute_many(f"INSERT INTO remote_name ({columns}) VALUES (?, ?, ?, ?) {_RENAME}", named)
            yield
    for antennas in slices_of(batch.antennas):
        rows = [(peer.no, *antenna) for antenna in antennas]
        columns = "site_no, remote_reader, port, name"
        execute_many(f"INSERT INTO remote_antenna_name ({columns}) VALUES (?, ?, ?, ?) {_RENAME}", rows)
        yield
    for states in slices_of(batch.tracks, TRACKS_OF_STEP):
        _keep_tracks(peer, batch.created_at_by_ref, states)
        yield
    for seen in slices_of(batch.seen):
        _keep_seen(peer.no, seen)
        yield
    for origins in slices_of(batch.origins):
        sources += _source_numbers(peer, origins)
        yield
    yield from _keep_passages(peer, batch)


def _keep_passages(peer: Peer, batch: Batch) -> Iterator[None]:
    if not batch.passages:
        return
    for doors in slices_of(batch.doors):
        places = known_records.resolve_locations(peer, [door.location for door in doors if door.location is not None])
        passage_copies.keep_doors(peer.organization_id, peer.no, doors, places)
        yield
    for passages in slices_of(batch.passages):
        assets = _assets_here(peer, [passage.asset for passage in passages], batch.created_at_by_ref)
        passage_copies.keep_passages(peer.organization_id, peer.no, passages, assets)
        yield


def _without_refused(batch: Batch, here: _Here) -> tuple[Batch, dict[str, str]]:
    """Return the batch without positions, stays and passages of its records that this hub has refused.

    Such a record is often above the limit of the hub. Asking the site for it again would stop the sync of all others.
    A later comparison sends the rest.
    """
    assets = set(_refs(batch.assets)).difference(here.assets)
    locations = set(_refs(batch.locations)).difference(here.locations)
    if not assets and not locations:
        return batch, {}
    left_out = {state.no for state in batch.tracks if state.asset in assets or state.location in locations}
    left_out |= {
        patch.track
        for patch in batch.patches
        if any(batch.origins[stay.origin].location in locations for stay in patch.stays)
    }
    passages = [one for one in batch.passages if one.asset not in assets]
    reasons = {f"position {no}": _REFUSED for no in sorted(left_out)}
    return _without_tracks(batch, left_out)._replace(passages=passages), reasons


def newest_time(now: int) -> int:
    """Return the newest time (µs) that a hub takes at its time. One with a clock that was never set cannot know."""
    return now + MOST_AHEAD if now >= clock.EARLIEST else FOREVER


def _without_future(batch: Batch) -> tuple[Batch, dict[str, str]]:
    """Return the batch without positions, stays and passages of the future, and the reasons by part.

    Such a position would stay the newest of its asset.
    """
    latest = newest_time(clock.now())
    ahead = {state.no for state in batch.tracks if max(state.last_seen_at, state.row_at) > latest}
    ahead |= {
        patch.track for patch in batch.patches for stay in patch.stays if stay.observed_at + stay.seen_for > latest
    }
    ahead |= {no for no, at in batch.seen if at > latest}
    passages = [one for one in batch.passages if max(one.at, one.decided_at) <= latest]
    reasons = {f"position {no}": _AHEAD for no in sorted(ahead)}
    if len(passages) < len(batch.passages):
        reasons["passages"] = _AHEAD
    return _without_tracks(batch, ahead)._replace(passages=passages), reasons


def _without_excess(peer: Peer, batch: Batch, known: Mapping[int, int], here: _Here) -> tuple[Batch, dict[str, str]]:
    """Return the batch without new positions of assets that have many from this site already.

    Each write to a track looks at all tracks of its asset, so thousands of them would block the hub for minutes.
    """
    new = [
        (state.no, here.assets[state.asset])
        for state in batch.tracks
        if state.asset is not None and (state.no not in known or known[state.no] != here.assets[state.asset])
    ]
    if not new:
        return batch, {}
    count = Counter(copies.count_site_tracks(peer.no, {asset_id for _, asset_id in new}))
    excess = set()
    for no, asset_id in new:
        count[asset_id] += 1
        if count[asset_id] > MOST_TRACKS:
            excess.add(no)
    return _without_tracks(batch, excess), {f"position {no}": _TOO_MANY for no in sorted(excess)}


def _without_tracks(batch: Batch, left_out: Collection[int]) -> Batch:
    if not left_out:
        return batch
    return batch._replace(
        tracks=[state for state in batch.tracks if state.no not in left_out],
        patches=[patch for patch in batch.patches if patch.track not in left_out],
        seen=[one for one in batch.seen if one[0] not in left_out],
    )


class _Here(NamedTuple):
    """Ids at this hub by the site's refs."""

    assets: Mapping[int, int]
    locations: Mapping[int, int]


def _resolve(peer: Peer, batch: Batch) -> _Here:
    names = [*(origin.location for origin in batch.origins), *(state.location for state in batch.tracks)]
    names += [door.location for door in batch.doors if door.location is not None]
    assets = [state.asset for state in batch.tracks if state.asset is not None]
    assets += [passage.asset for passage in batch.passages]
    return _Here(
        known_records.resolve_assets(peer, assets, batch.created_at_by_ref),
        known_records.resolve_locations(peer, names),
    )


def _check_declared(
    batch: Batch,
    here: _Here,
    known: Mapping[int, int],
    assets: Sequence[AssetRecord] = (),
    locations: Sequence[LocationRecord] = (),
) -> None:
    """Raise NotKnown for refs that are neither known nor among these records."""
    tracks = {state.no for state in batch.tracks}
    unknown = {state.no for state in batch.tracks if state.asset is None and state.no not in known}
    named = {state.location for state in batch.tracks} | {origin.location for origin in batch.origins}
    named_assets = {state.asset for state in batch.tracks if state.asset is not None}
    named_assets |= {passage.asset for passage in batch.passages}
    needs = Needs(
        sorted(named_assets.difference(here.assets, _refs(assets))),
        sorted(named.difference(here.locations, _refs(locations))),
        sorted(unknown | {patch.track for patch in batch.patches} - tracks),
    )
    if any(needs):
        raise NotKnown(needs)


def _refs(records: Sequence[Record]) -> list[int]:
    return [record.ref for record in records]


def _check_parents(peer: Peer, locations: Sequence[LocationRecord]) -> None:
    parents = {record.parent for record in locations if record.parent is not None}
    parents -= {record.ref for record in locations}
    if unknown := parents - set(known_records.resolve_locations(peer, parents)):
        raise NotKnown(Needs(locations=sorted(unknown)))


_RENAME = "ON CONFLICT DO UPDATE SET name = excluded.name WHERE name <> excluded.name"


def _keep_tracks(peer: Peer, created_at_by_ref: Mapping[int, int], states: Sequence[TrackState]) -> None:
    """Store tracks. Raises NotKnown for records that are no longer known.

    The site's values always replace the hub's, even older ones: an undo moves last-seen times backward. A site that
    catches up repeats states in many batches, so only differences are written.
    """
    known = copies.site_tracks(peer.no, [state.no for state in states])
    assets = _assets_here(peer, [state.asset for state in states if state.asset is not None], created_at_by_ref)
    named = {state.location for state in states}
    locations = known_records.resolve_locations(peer, named)
    if missing := named.difference(locations):
        raise NotKnown(Needs(locations=sorted(missing)))
    if unknown := sorted(state.no for state in states if state.asset is None and state.no not in known):
        raise NotKnown(Needs(tracks=unknown))
    changed = []
    for state in states:
        values = (locations[state.location], *state[3:])
        track = known.get(state.no)
        if track and state.asset is not None and track.asset_id != assets[state.asset]:
            # A restored database reused the number: keep the history of its first use.
            copies.release_number(track.no)
            track = None
        if track is None:
            asset_id = assets[state.asset or 0]
            known[state.no] = copies.add_site_track(peer.organization_id, peer.no, state.no, asset_id, values)
        elif track.values != values:
            changed.append((*values, track.no))
    copies.update_tracks(changed)


def _assets_here(peer: Peer, refs: Collection[int], created_at_by_ref: Mapping[int, int]) -> dict[int, int]:
    """Return the ids of assets here. Raises NotKnown."""
    known = known_records.resolve_assets(peer, refs, created_at_by_ref)
    if unknown := set(refs).difference(known):
        raise NotKnown(Needs(assets=sorted(unknown)))
    return known


def _keep_seen(site_no: int, seen: Sequence[tuple[int, int]]) -> None:
    """Update last-seen times. Raises NotKnown for unknown tracks."""
    known = copies.site_tracks(site_no, [no for no, _ in seen])
    if unknown := sorted({no for no, _ in seen}.difference(known)):
        raise NotKnown(Needs(tracks=unknown))
    last_seen_at = copies.VALUES.index("last_seen_at")
    copies.update_last_seen([(at, known[no].no) for no, at in seen if known[no].values[last_seen_at] != at])


def _source_numbers(peer: Peer, origins: Sequence[Origin]) -> list[int]:
    """Return the numbers of these origins here; 0 for those at locations that were refused."""
    locations = known_records.resolve_locations(peer, {origin.location for origin in origins})
    return [
        number_of(
            peer.organization_id,
            ScanSource(locations[origin.location], None, origin.port, peer.no, origin.reader, origin.person),
        )
        if origin.location in locations
        else 0
        for origin in origins
    ]
