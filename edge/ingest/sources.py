"""Clocks of readers: which one a message has, a measurement by one message, and a bounded cache of values by clock.

A reader with a wildcard has many clocks; it can evict only its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import ItemsView, ValuesView
from typing import Generic, NamedTuple, TypeVar

from msgspec import Struct

MOST = 10_000
MOST_OF_READER = 1_000
LONGEST_TOPIC = 200  # characters; devices with longer ones share the clock of their reader

Value = TypeVar("Value")


class Source(NamedTuple):
    """A clock: of a reader, or of one device that publishes for a reader with a wildcard."""

    reader_id: int
    topic: str = ""
    organization_id: int = 0


class Sample(Struct, frozen=True, gc=False):
    """Time of receipt of a message, and how far its newest read is ahead of it, in microseconds."""

    received_at: int
    ahead: int

    @property
    def newest(self) -> int:
        """Time of the newest read, by the reader's clock."""
        return self.received_at + self.ahead


class BySource(Generic[Value]):
    """Values by source: at most MOST, and at most MOST_OF_READER of one reader."""

    def __init__(self) -> None:
        self._values: dict[Source, Value] = {}
        self._numbers: Counter[int] = Counter()  # by reader

    def get(self, source: Source) -> Value | None:
        return self._values.get(source)

    def put(self, source: Source, value: Value) -> None:
        """Store a value. At a limit, all values of this reader, or of the reader with the most values, are evicted."""
        if source not in self._values:
            if self._numbers[source.reader_id] >= MOST_OF_READER:
                self._evict(source.reader_id)
            elif len(self._values) >= MOST:
                self._evict(max(self._numbers, key=self._numbers.__getitem__))
            self._numbers[source.reader_id] += 1
        self._values[source] = value

    def values(self) -> ValuesView[Value]:
        return self._values.values()

    def items(self) -> ItemsView[Source, Value]:
        return self._values.items()

    def _evict(self, reader_id: int) -> None:
        self._values = {source: value for source, value in self._values.items() if source.reader_id != reader_id}
        del self._numbers[reader_id]
