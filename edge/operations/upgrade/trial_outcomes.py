"""Outcome of the messages replayed in a trial, read from the copy's database while the release writes to it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from edge.database.integrity import open_read_only
from edge.readers.ledger import NO_READER
from edge.tracking import copies

Counts = Mapping[tuple[int, str], int]  # messages by reader and bucket


class Outcome(NamedTuple):
    """`held`: messages waiting until their reader's clock is known."""

    counts: Counts
    positions: Mapping[int, int]  # location id by asset id
    held: int

    def since(self, before: Outcome) -> Outcome:
        """Return the messages added after `before`, with the present positions."""
        counts = {key: number - before.counts.get(key, 0) for key, number in self.counts.items()}
        return self._replace(counts={key: number for key, number in counts.items() if number})

    def messages(self) -> int:
        return sum(self.counts.values())


def outcome(path: Path, reader_ids: Collection[int]) -> Outcome:
    """Read the ledger of these readers, and all positions. Repeats count as recorded: they were read correctly."""
    with closing(open_read_only(path)) as copy:
        counts: dict[tuple[int, str], int] = {}
        for reader_id, bucket, messages in copy.execute("SELECT reader_id, bucket, messages FROM ledger"):
            if reader_id in reader_ids or reader_id == NO_READER:
                key = reader_id, "recorded" if bucket == "repeat" else bucket
                counts[key] = counts.get(key, 0) + messages
        positions = copies.read_positions(copy.execute)
        held = sum(number for (_, bucket), number in counts.items() if bucket == "held")
    return Outcome(counts, positions, held)


def reader_names(path: Path) -> dict[int, str]:
    """Return the names of all readers in the copy, by id."""
    with closing(open_read_only(path)) as copy:
        return dict(copy.execute("SELECT id, name FROM reader"))


def difference(before: Outcome, after: Outcome, names: Mapping[int, str]) -> str:
    """Describe how the outcome of a release differs from the previous one's; empty if it does not."""
    for key in sorted({*before.counts, *after.counts}, key=lambda key: (key[0] == NO_READER, key)):
        reader_id, bucket = key
        was, now = before.counts.get(key, 0), after.counts.get(key, 0)
        if was != now:
            name = f"reader {names[reader_id]}" if reader_id in names else "topics without a reader"
            return f"of {name}, {now} messages are counted as {bucket.replace('_', ' ')}, in the running release {was}"
    moved = [asset for asset, location in before.positions.items() if after.positions.get(asset) != location]
    if moved:
        return f"{len(moved)} assets are at another location than in the running release"
    return ""
