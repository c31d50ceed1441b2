"""Readers and their outages, for the evidence about one asset."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from edge.tracking.signs import Outage, Signs

Ask = Callable[[int, int, int, int], None]  # reader, asset, begin, end


class ReaderOutages:
    """Readers of the sources of one asset's reads.

    `readers` by source; None: each source is a reader of its own. `ask` is called for each answer that late signs may
    change.
    """

    def __init__(
        self, asset_id: int, readers: Mapping[int, int | None] | None, signs: Signs, ask: Ask | None = None
    ) -> None:
        self._asset_id = asset_id
        self._readers = readers
        self._signs = signs
        self._ask = ask

    def reader_of(self, source_no: int) -> int | None:
        """Return the reader of a source; None for people."""
        return source_no if self._readers is None else self._readers.get(source_no)

    def outages(self, source_no: int, begin: int, end: int) -> Sequence[Outage]:
        """Return the outages of a source's reader that reach beyond `begin`, as of `end`."""
        reader_id = self.reader_of(source_no)
        if reader_id is None or self._signs.is_even(reader_id, begin, end):
            return ()
        if self._ask:
            self._ask(reader_id, self._asset_id, begin, end)
        return self._signs.outages(reader_id, self._asset_id, begin, end)

    def settled_at(self, source_no: int, begin: int, wait: int, until: int) -> int | None:
        """Return the second by which the reader was online for `wait` seconds after `begin`; None if not by `until`."""
        reader_id = self.reader_of(source_no)
        if reader_id is None:
            return begin + wait if begin + wait <= until else None
        if self._ask:
            self._ask(reader_id, self._asset_id, begin, until)
        return self._signs.settled_at(reader_id, self._asset_id, begin, wait, until)
