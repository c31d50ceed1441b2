"""An asset's last stays as one strip: where it was, when, for how long, at a glance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

WIDTH = 1000
LEAST_WIDTH = 3  # of a stay that was too short to be seen
MOST_STAYS = 300  # that are all drawn
COLOURS = 24  # of the style sheet: 8 hues, plain, then striped, then dotted


class Seen(Protocol):
    """A row of history, or several joined into one stay."""

    @property
    def observed_at(self) -> int: ...
    @property
    def location_id(self) -> int: ...
    @property
    def location_name(self) -> str: ...


class Stay(NamedTuple):
    """A piece of the strip, in its units; `colour` is a number of the style sheet's palette."""

    x: float
    width: float
    colour: int
    name: str
    since: int
    until: int


class Strip(NamedTuple):
    stays: Sequence[Stay]
    since: int
    until: int
    colours: Mapping[int, int]  # of each location, by its id

    names: Mapping[int, str]

    @property
    def legend(self) -> list[tuple[str, int]]:
        """The name of each location once, with its colour, in the order in which the asset came to them."""
        return list(dict.fromkeys((self.names[location_id], colour) for location_id, colour in self.colours.items()))


def strip(moves: Sequence[Seen], now: int) -> Strip | None:
    """From the oldest of the moves (newest first) until now. A stay lasts until the next one begins."""
    if len(moves) < 2 or now <= moves[-1].observed_at:
        return None
    since, until = moves[-1].observed_at, now
    colours: dict[int, int] = {}
    names: dict[int, str] = {}
    stays: list[Stay] = []
    ends = [until, *(move.observed_at for move in moves)]
    last_location: int | None = None
    for move, end in reversed(list(zip(moves, ends, strict=False))):
        colour = colours.setdefault(move.location_id, len(colours) % COLOURS)
        names[move.location_id] = move.location_name
        stayed, last_location = move.location_id == last_location, move.location_id
        if stayed:
            width = max(_scale(end - stays[-1].since, until - since), LEAST_WIDTH)
            stays[-1] = stays[-1]._replace(width=width, until=end)
            continue
        x, width = _scale(move.observed_at - since, until - since), _scale(end - move.observed_at, until - since)
        stays.append(Stay(x, max(width, LEAST_WIDTH), colour, move.location_name, move.observed_at, end))
    return Strip(_thinned(stays), since, until, colours, names)


def _thinned(stays: Sequence[Stay]) -> Sequence[Stay]:
    """Of very many stays, at most one short one for each unit of the strip: the others would be painted over."""
    if len(stays) <= MOST_STAYS:
        return stays
    kept: list[Stay] = []
    for stay in stays:
        if not kept or stay.width > LEAST_WIDTH or stay.x - kept[-1].x >= 1:
            kept.append(stay)
    return kept


def _scale(part: int, whole: int) -> float:
    return round(part / whole * WIDTH, 1)
