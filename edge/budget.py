"""The budget of memory for requests and responses: every door takes bytes from it before it keeps them.

Two parts. HELD is what waits for a client: bodies that have not arrived in full, responses that were not read. One
address has half of it at most. WORK is what requests are turned into, while they are answered: parsed JSON, unpacked
batches, tables, images. A few kilobytes are always granted, so that the service answers everybody else meanwhile.

The sizes fit the unit (MemoryMax=512M) beside what has bounds of its own: the program and its connections to the
database (120 MB), recent reads (64 MB), messages (56 MB), two password checks (64 MB).
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from edge.errors import TooLarge, Unavailable

MB = 1024 * 1024
SMALL = 64 * 1024  # bytes that are granted without being counted: to a connection each way, and to a request
RETRY_SECONDS = 2
MOST_OF_REQUEST = 32 * MB  # that the values of one body may take
_M_MMAP_THRESHOLD, _M_ARENA_MAX = -3, -8  # of glibc's malloc.h
_VALUE = 128  # bytes that one value of JSON, or one field of a form, takes at most as an object
_MARKS = (b",", b":", b"{", b"[", b"&", b"=")


def return_freed_memory() -> None:
    """Let the allocator return large pieces to the system as soon as they are freed. Called once, before any thread.

    Otherwise glibc keeps them, for each thread by itself: eight threads that opened one image after another held 500 MB
    of nothing. Elsewhere there is no such setting, and nothing is done.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, MB)
        mallopt(_M_ARENA_MAX, 2)


class Budget:
    """Bytes in use, in all and by each owner."""

    def __init__(self, size: int, most_of_owner: int | None = None) -> None:
        self._size = size
        self._most_of_owner = most_of_owner or size
        self._used = 0
        self._owners: dict[str, int] = {}
        self._lock = threading.Lock()

    @property
    def used(self) -> int:
        return self._used

    def take(self, size: int, owner: str = "") -> bool:
        """Return whether there was room; then `give_back` must follow. Without an owner, the size alone counts."""
        with self._lock:
            of_owner = self._owners.get(owner, 0) + size
            if self._used + size > self._size or (owner and of_owner > self._most_of_owner):
                return False
            self._used += size
            self._owners[owner] = of_owner
            return True

    def give_back(self, size: int, owner: str = "") -> None:
        with self._lock:
            self._used -= size
            left = self._owners.pop(owner, 0) - size
            if left:
                self._owners[owner] = left

    @contextmanager
    def holding(self, size: int) -> Iterator[None]:
        """Take the bytes while the block runs. Raises Unavailable."""
        if size <= SMALL:
            yield
            return
        if not self.take(size):
            raise Unavailable("Too much is being processed at the moment; try again in a few seconds", RETRY_SECONDS)
        try:
            yield
        finally:
            self.give_back(size)


HELD = Budget(48 * MB, most_of_owner=24 * MB)
WORK = Budget(128 * MB)


def marks_in(text: bytes) -> int:
    """The number of characters that may begin or divide values: an upper bound for how many values there are."""
    return sum(map(text.count, _MARKS))


def cost_of(size: int, marks: int, most: int = MOST_OF_REQUEST) -> int:
    """Bytes that a text of this size takes when it is parsed. Raises TooLarge."""
    cost = 3 * size + _VALUE * marks
    if cost > most:
        raise TooLarge("It has too many values; send fewer at once")
    return cost
