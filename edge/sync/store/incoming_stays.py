"""The stays of a batch: a hub replaces its own rows of each patch with those of the site."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from edge.database.sliced_writing import ROWS_OF_STEP, slices_of
from edge.sync.store.exchange import Batch, Needs, Patch, Stay
from edge.sync.store.known_records import NotKnown
from edge.tracking import copies, history_engine
from edge.validation.values import MAX_INT64

MOST_OF_INSTANT = 20  # rows of a track at one instant; more are written like a range
MOST_ROWS = 500  # replaced in one step
MOST_ROWS_REMOTE = 100_000  # the same in PostgreSQL


def write(site_no: int, batch: Batch, sources: Sequence[int]) -> Iterator[None]:
    """Write the stays of a batch in steps. `sources`: the numbers of its origins here. Raises NotKnown."""
    for no in batch.gone_tracks:
        for track in copies.track_numbers(site_no, [no]).values():
            yield from _replace_range(track, Patch(no, -MAX_INT64, MAX_INT64, ()), (), -MAX_INT64)
            copies.delete_track(track)
        yield
    yield from _replace_stays(site_no, batch.patches, sources, batch.horizon)


def _replace_stays(site_no: int, patches: Sequence[Patch], sources: Sequence[int], horizon: int) -> Iterator[None]:
    """Replace the rows inside the patches, except those before `horizon`, which the site's retention dropped.

    Tracks patched over a range are recounted, because a repair must also correct the count.
    """
    is_remote = history_engine.is_remote()  # no lock here is held meanwhile, so all are one step
    for part in [patches] if is_remote else slices_of(patches):
        tracks = copies.track_numbers(site_no, [patch.track for patch in part])
        if unknown := sorted({patch.track for patch in part}.difference(tracks)):
            raise NotKnown(Needs(tracks=unknown))
        small = [patch for patch in part if _is_small(patch)]
        spans = [(tracks[patch.track], patch.since, patch.until) for patch in small]
        there = copies.keys_within(spans, horizon, MOST_ROWS_REMOTE if is_remote else MOST_ROWS)
        if there is not None:
            _replace_instants(small, tracks, sources, horizon, there)
            part = [patch for patch in part if not _is_small(patch)]
        yield
        for patch in part:
            yield from _replace_range(tracks[patch.track], patch, sources, horizon)
        copies.recount({tracks[patch.track] for patch in part})
        yield


def _is_small(patch: Patch) -> bool:
    return patch.since == patch.until and len(patch.stays) <= MOST_OF_INSTANT


def _replace_instants(
    patches: Sequence[Patch], tracks: Mapping[int, int], sources: Sequence[int], horizon: int, there: set[copies.Key]
) -> None:
    """Replace the rows of patches of one instant each. `there`: the keys of their rows that end after the horizon."""
    new_rows = {
        (tracks[patch.track], stay.observed_at, stay.seq): _columns(stay, sources)
        for patch in patches
        for stay in patch.stays
    }
    gone = there - new_rows.keys()
    if old := [(no, at, at) for no, at, _ in new_rows if at < horizon]:
        there = there | (copies.keys_within(old, -MAX_INT64, MAX_INT64) or set())
    copies.replace_rows(gone, new_rows)
    more = Counter(no for no, _, _ in new_rows.keys() - there)
    more.subtract(no for no, _, _ in gone)
    copies.count_rows(more)


def _replace_range(track: int, patch: Patch, sources: Sequence[int], horizon: int) -> Iterator[None]:
    """Replace the rows of a track in the range of a patch, a few in each step in the order of their keys."""
    stays = sorted(patch.stays, key=_key)
    after, taken = (patch.since, -1), 0
    while True:
        old = copies.keys_after(track, after, patch.until, ROWS_OF_STEP)
        new = stays[taken : taken + ROWS_OF_STEP]
        ends = [old[-1][:2]] if len(old) == ROWS_OF_STEP else []
        ends += [_key(new[-1])] if taken + len(new) < len(stays) else []
        end = min(ends, default=(MAX_INT64, 0))
        new = [stay for stay in new if _key(stay) <= end]
        rows = {(track, *_key(stay)): _columns(stay, sources) for stay in new}
        there = {(track, at, seq): until for at, seq, until in old if (at, seq) <= end}
        gone = {key for key, until in there.items() if until >= horizon and key not in rows}
        copies.replace_rows(gone, rows)
        copies.count_rows({track: len(rows.keys() - there.keys()) - len(gone)})
        yield
        if not ends:
            return
        after, taken = end, taken + len(new)


def _key(stay: Stay) -> tuple[int, int]:
    return stay.observed_at, stay.seq


def _columns(stay: Stay, sources: Sequence[int]) -> tuple[int | None, ...]:
    return (stay.seen_for, sources[stay.origin], *stay[4:])
