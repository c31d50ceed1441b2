"""Long work in short transactions, so that others can write in between."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from edge.database.connection import writing

SLICE_SECONDS = 0.05  # after that, the slice is committed; one slow step may take longer
SHORTEST_SECONDS = 0.01  # of slices on a slow disk, where the commit of fewer rows takes less time
MOST_HELD_SECONDS = 0.2  # of the write lock, with the commit; after a longer one, slices get shorter
ROWS_OF_STEP = 50  # rows that a step should write at most, since it is not interrupted

Item = TypeVar("Item")
_END = object()


def next_length(seconds: float, held: float) -> float:
    """Return the length of the next slice, after one that held the write lock for `held` seconds."""
    if held > MOST_HELD_SECONDS:
        return max(seconds / 2, SHORTEST_SECONDS)
    return min(seconds * 1.1, SLICE_SECONDS)


def write_in_slices(
    steps: Iterator[None], begin: Callable[[], None] = lambda: None, end: Callable[[bool], None] = lambda _: None
) -> None:
    """Run the steps of a generator in transactions of limited length.

    Each transaction starts with `begin` and finishes with `end`, which receives True in the last one. An exception
    rolls back the present transaction only.
    """
    seconds, is_done = SLICE_SECONDS, False
    while not is_done:
        with writing():
            begun = time.monotonic()
            begin()
            while not (is_done := next(steps, _END) is _END) and time.monotonic() < begun + seconds:
                pass
            end(is_done)
        seconds = next_length(seconds, time.monotonic() - begun)


def slices_of(items: Sequence[Item], times: int = 1) -> Iterator[Sequence[Item]]:
    """Yield the items in slices for one step each, or `times` as large."""
    size = ROWS_OF_STEP * times
    return (items[at : at + size] for at in range(0, len(items), size))


def parts_of(
    items: Sequence[Item], size: Callable[[Item], int], most: int, most_items: int
) -> Iterator[Sequence[Item]]:
    """Yield the items in parts of at most `most_items` items and `most` in size. A larger item is alone."""
    part: list[Item] = []
    room = most
    for item in items:
        if part and (len(part) == most_items or size(item) > room):
            yield part
            part, room = [], most
        part.append(item)
        room -= size(item)
    if part:
        yield part
