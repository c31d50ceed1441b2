"""Signs of life of readers: the seconds in which a reader was online, and when it was out.

A reader that reads nothing proves nothing about any asset. It is *out* from its last sign to the next one in two cases:
it said goodbye (its last will), or it was steady, with a sign every few seconds for a minute, and then gave none for
clearly longer. A reader that is not steady, for example at a rarely used door, counts as online. Reads of an asset say
nothing about its reader's activity without it: to judge an asset, seconds in which its reader read nothing else are
ignored.

All times are seconds of observation, so the result does not depend on the order of arrival. `end` is the second as of
which a function answers; it ignores later signs.
"""

from __future__ import annotations

import itertools
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from zlib import crc32

OTHERS = 0  # instead of an asset: several assets, or no read
GOODBYE = -1  # instead of an asset: the reader disconnected, or the broker reported that
# Instead of an asset, plus a number of the tag: a tag without an asset; minus an asset: the asset that it has now.
UNKNOWN_TAG, KNOWN_NOW = -(1 << 61), -(1 << 62)
KEPT_SECONDS = 1_200
STEADY_FOR = 60  # seconds
STEADY_GAP = 10  # seconds between two signs, at most
PATIENCE = 3  # seconds, at least

Outage = tuple[int, int]  # seconds of the last sign before the outage and the first one after it
Ask = Callable[[int, int, int, int], None]  # reader, asset, begin, end
NEVER = 2**40  # end of an outage that is not over


def unknown_tag(tag_type: str, value: str) -> int:
    """Return what stands for a tag without an asset."""
    return UNKNOWN_TAG + crc32(f"{tag_type}:{value}".encode())


def known_now(asset_id: int) -> int:
    """Return the sign by which the seconds of an unknown tag become those of its asset."""
    return KNOWN_NOW - asset_id


class Signs:
    """Signs of life of all readers, as far back as decisions reach."""

    def __init__(self) -> None:
        self._readers: dict[int, _Reader] = {}

    def add(self, reader_id: int, second: int, only: int) -> bool:
        """Add a sign; returns True if it is new.

        `only`: the asset if nothing else was read, OTHERS, GOODBYE, `unknown_tag` or `known_now`.
        """
        reader = self._readers.get(reader_id)
        if reader is None:
            reader = self._readers[reader_id] = _Reader()
        return reader.add_goodbye(second) if only == GOODBYE else reader.add(second, only)

    def outages(self, reader_id: int, asset_id: int, begin: int, end: int, ask: Ask | None = None) -> Sequence[Outage]:
        """Return the outages that reach beyond `begin`. Calls `ask` if later signs may change the answer."""
        reader = self._readers.get(reader_id)
        if reader and reader.is_even(begin, end):
            return ()
        if ask:
            ask(reader_id, asset_id, begin, end)
        return reader.outages(asset_id, begin, end) if reader else ()

    def settled_at(self, reader_id: int, asset_id: int, begin: int, wait: int, until: int) -> int | None:
        """Return the second by which the reader was online for `wait` seconds after `begin`; None if not by `until`."""
        reader = self._readers.get(reader_id)
        while begin + wait <= until:
            silences = reader.outages(asset_id, begin, begin + wait) if reader else ()
            if reader is None or not silences:
                return begin + wait
            back = reader.first_after(silences[-1][0], asset_id)
            if back is None:
                return None
            begin = max(begin + 1, back)
        return None

    def out_since(self, now: int) -> Iterator[tuple[int, int]]:
        """Yield (reader, last sign) of outages that have lasted long enough to be stored."""
        for reader_id, reader in self._readers.items():
            if now - reader.newest > STEADY_FOR and reader.outages(OTHERS, reader.newest, now):
                yield reader_id, reader.newest


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
        return () if reader_id is None else self._signs.outages(reader_id, self._asset_id, begin, end, self._ask)

    def settled_at(self, source_no: int, begin: int, wait: int, until: int) -> int | None:
        """Return the second by which the reader was online for `wait` seconds after `begin`; None if not by `until`."""
        reader_id = self.reader_of(source_no)
        if reader_id is None:
            return begin + wait if begin + wait <= until else None
        if self._ask:
            self._ask(reader_id, self._asset_id, begin, until)
        return self._signs.settled_at(reader_id, self._asset_id, begin, wait, until)


class _Reader:
    """Signs of one reader."""

    __slots__ = ("_closed", "_goodbyes", "_only", "_pauses", "_seconds")

    def __init__(self) -> None:
        self._seconds = array("I")
        self._only: dict[int, int] = {}  # second -> asset, if nothing else was read
        self._goodbyes: list[int] = []
        self._pauses: list[Outage] = []  # gaps between signs; some are outages
        self._closed: list[Outage] | None = []  # past outages; None: to be computed

    @property
    def newest(self) -> int:
        return self._seconds[-1] if self._seconds else 0

    def add(self, second: int, only: int) -> bool:
        if only <= KNOWN_NOW:
            return self._name(second, KNOWN_NOW - only)
        seconds = self._seconds
        if not seconds or second > seconds[-1]:
            before = seconds[-1] if seconds else second
            seconds.append(second)
            if second - before > PATIENCE or self._goodbyes:
                self._pauses.append((before, second))
                if self._closed is not None and self._was_out(seconds, before, second):
                    self._closed.append((before, second))
            if seconds[0] < second - 2 * KEPT_SECONDS:
                self._drop_old(second - KEPT_SECONDS)
        else:
            index = bisect_left(seconds, second)
            if seconds[index] == second:
                if self._only.get(second, only) == only:
                    return False
                del self._only[second]  # more has been read in that second since
                return True
            seconds.insert(index, second)
            self._look_again()
        if only != OTHERS:
            self._only[second] = only
        return True

    def _name(self, second: int, asset_id: int) -> bool:
        """Note the asset of the tag that alone was read in a second."""
        if not UNKNOWN_TAG <= self._only.get(second, OTHERS) < GOODBYE:
            return False
        self._only[second] = asset_id
        return True

    def add_goodbye(self, second: int) -> bool:
        index = bisect_left(self._goodbyes, second)
        if index < len(self._goodbyes) and self._goodbyes[index] == second:
            return False
        self._goodbyes.insert(index, second)
        if not self._seconds:
            self._seconds.append(second)
        self._look_again()
        return True

    def _look_again(self) -> None:
        self._pauses, self._closed = self._pauses_in(self._seconds), None

    def is_even(self, begin: int, end: int) -> bool:
        seconds = self._seconds
        if self._goodbyes or not seconds:
            return False
        newest = seconds[-1]
        if newest > end:
            index = bisect_right(seconds, end)
            newest = seconds[index - 1] if index else 0
        if end - newest >= PATIENCE:
            return False
        pauses = self._pauses
        return not pauses or pauses[-1][1] <= begin or not any(one[1] > begin and one[0] < end for one in pauses)

    def first_after(self, second: int, asset_id: int) -> int | None:
        index = self._skip(bisect_right(self._seconds, second), asset_id)
        return self._seconds[index] if index < len(self._seconds) else None

    def outages(self, asset_id: int, begin: int, end: int) -> Sequence[Outage]:
        seconds, closed = self._around(asset_id, begin, end), self._closed
        if seconds is not None:
            pauses = [one for one in self._pauses_in(seconds) if begin < one[1] <= end]
            closed = self._outages_among(pauses, seconds)
        else:
            seconds = self._seconds
            if closed is None:
                closed = self._closed = self._outages_among(self._pauses, seconds)
        overlapping = [one for one in closed if begin < one[1] <= end] if closed else []
        index = bisect_right(seconds, end)
        if index and self._was_out(seconds, seconds[index - 1], end + 1):
            overlapping.append((seconds[index - 1], seconds[index] if index < len(seconds) else NEVER))
        return overlapping

    def _around(self, asset_id: int, begin: int, end: int) -> array[int] | None:
        """Return the signs relevant from `begin` to `end`, without seconds in which only this asset was read.

        None if there is nothing to leave out.
        """
        seconds, only = self._seconds, self._only
        first = bisect_right(seconds, begin)
        while first and only.get(seconds[first - 1]) == asset_id:
            first -= 1
        if first:
            first = bisect_left(seconds, seconds[first - 1] - STEADY_FOR)
        last = self._skip(bisect_right(seconds, end), asset_id)
        near = seconds[first : last + 1]
        others = array("I", [one for one in near if only.get(one) != asset_id])
        return others if len(others) < len(near) else None

    def _skip(self, index: int, asset_id: int) -> int:
        """Return the index of the first sign from `index` on that is not of this asset alone."""
        while index < len(self._seconds) and self._only.get(self._seconds[index]) == asset_id:
            index += 1
        return index

    def _pauses_in(self, seconds: array[int]) -> list[Outage]:
        """Return the gaps between signs that may be outages."""
        pairs = itertools.pairwise(seconds)
        return list(pairs) if self._goodbyes else [(one, after) for one, after in pairs if after - one > PATIENCE]

    def _outages_among(self, pauses: Sequence[Outage], seconds: array[int]) -> list[Outage]:
        return [pause for pause in pauses if self._was_out(seconds, *pause)]

    def _was_out(self, seconds: array[int], last: int, until: int) -> bool:
        """Return True if the reader counts as out between its last sign and `until`."""
        if self._goodbyes and self._goodbyes[-1] >= last:
            index = bisect_left(self._goodbyes, last)
            if self._goodbyes[index] < until:
                return True
        silent = until - 1 - last
        if silent < PATIENCE:
            return False
        index, before, most = bisect_left(seconds, last - STEADY_FOR), last - STEADY_FOR, min(STEADY_GAP, silent - 1)
        for sign in seconds[index : bisect_right(seconds, last)]:  # one that was not steady is mostly found early
            if sign - before > most:
                return False
            before = sign
        return True

    def _drop_old(self, second: int) -> None:
        index = max(0, bisect_left(self._seconds, second) - 1)  # keep the last one before it: an outage may begin there
        for old in self._seconds[:index]:
            self._only.pop(old, None)
        del self._seconds[:index]
        self._goodbyes = [one for one in self._goodbyes if one >= self._seconds[0]]
        if self._closed is not None:
            self._closed = [one for one in self._closed if one[1] > second]
        self._pauses = [one for one in self._pauses if one[1] > second]
