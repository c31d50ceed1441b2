"""The last stays of an asset as a strip."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

WIDTH = 1000
LEAST_WIDTH = 3  # of a short stay
MOST_STAYS = 300  # drawn without thinning
COLORS = 24  # in the style sheet: 8 hues, each plain, striped and dotted


class Seen(Protocol):
    """A row of history, or several rows joined into one stay."""

    @property
    def observed_at(self) -> int: ...
    @property
    def location_id(self) -> int: ...
    @property
    def location_name(self) -> str: ...


class Stay(NamedTuple):
    """A section of the strip, in its units. `color` is an index in the palette of the style sheet."""

    x: float
    width: float
    color: int
    name: str
    since: int
    until: int


class Strip(NamedTuple):
    stays: Sequence[Stay]
    since: int
    until: int
    colors: Mapping[int, int]  # by location id

    names: Mapping[int, str]

    @property
    def legend(self) -> list[tuple[str, int]]:
        """Return locations with their colors, in the order of the stays."""
        return list(dict.fromkeys((self.names[location_id], color) for location_id, color in self.colors.items()))


def strip(moves: Sequence[Seen], now: int) -> Strip | None:
    """Build the strip from moves (newest first) until now. A stay lasts until the next one."""
    if len(moves) < 2 or now <= moves[-1].observed_at:
        return None
    since, until = moves[-1].observed_at, now
    colors: dict[int, int] = {}
    names: dict[int, str] = {}
    stays: list[Stay] = []
    ends = [until, *(move.observed_at for move in moves)]
    last_location: int | None = None
    for move, end in reversed(list(zip(moves, ends, strict=False))):
        color = colors.setdefault(move.location_id, len(colors) % COLORS)
        names[move.location_id] = move.location_name
        stayed, last_location = move.location_id == last_location, move.location_id
        if stayed:
            width = max(_scale(end - stays[-1].since, until - since), LEAST_WIDTH)
            stays[-1] = stays[-1]._replace(width=width, until=end)
            continue
        x, width = _scale(move.observed_at - since, until - since), _scale(end - move.observed_at, until - since)
        stays.append(Stay(x, max(width, LEAST_WIDTH), color, move.location_name, move.observed_at, end))
    return Strip(_thinned(stays), since, until, colors, names)


def _thinned(stays: Sequence[Stay]) -> Sequence[Stay]:
    """Drop short stays that would be painted over: keep at most one per unit of the strip."""
    if len(stays) <= MOST_STAYS:
        return stays
    kept: list[Stay] = []
    for stay in stays:
        if not kept or stay.width > LEAST_WIDTH or stay.x - kept[-1].x >= 1:
            kept.append(stay)
    return kept


def _scale(part: int, whole: int) -> float:
    return round(part / whole * WIDTH, 1)
