"""Stays that say whether an event which was undone or withdrawn is there again, lent by PostgreSQL if it has them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any

from edge.tracking import history_engine, stays

_MILLISECOND = 1_000


def lending_at(moments: Callable[[], Iterable[tuple[int, int]]]) -> AbstractContextManager[None]:
    """Lend the stays that began in the milliseconds of these moments: asset, time in µs."""

    def stored() -> Sequence[tuple[Any, ...]]:
        chosen = {(asset_id, at // _MILLISECOND * _MILLISECOND) for asset_id, at in moments()}
        tracks = {asset_id: stays.tracks_of(asset_id) for asset_id, _ in chosen}
        return history_engine.lent_rows.within(
            [(track, at, at + _MILLISECOND - 1) for asset_id, at in chosen for track in tracks[asset_id]]
        )

    return history_engine.lending(stored)
