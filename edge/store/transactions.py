"""Several writes as one: all of them are made, or none."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from edge.store.database import writing

T = TypeVar("T")


def all_or_none(steps: Iterable[Callable[[], T]]) -> list[T]:
    """What each of them returned. Whatever one raises, the others are undone; each notes its own act."""
    with writing():
        return [step() for step in steps]
