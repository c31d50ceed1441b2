"""A fair lock: threads get it in the order of their requests.

With `threading.Lock`, a thread that releases and immediately requests it again nearly always wins over a waiting
thread, so a busy writer would starve all others.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager


class FairLock:
    """A fair lock. Not reentrant."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._is_held = False
        self._waiting: deque[threading.Lock] = deque()  # one per waiting thread, released on its turn

    @contextmanager
    def holding(self) -> Iterator[None]:
        """Hold the lock while the block runs."""
        self._acquire()
        try:
            yield
        finally:
            self._release()

    @property
    def waiting(self) -> int:
        """Return the number of waiting threads."""
        return len(self._waiting)

    def _acquire(self) -> None:
        with self._mutex:
            if not self._is_held:
                self._is_held = True
                return
            turn = threading.Lock()
            turn.acquire()
            self._waiting.append(turn)
        try:
            turn.acquire()
        except BaseException:  # Ctrl-C: nobody would release a lock that is granted to this thread
            self._give_up(turn)
            raise

    def _give_up(self, turn: threading.Lock) -> None:
        with self._mutex:
            if turn in self._waiting:
                self._waiting.remove(turn)
                return
        self._release()  # the lock was granted in the meantime

    def _release(self) -> None:
        """Pass the lock to the longest-waiting thread; it is never free in between."""
        with self._mutex:
            if self._waiting:
                self._waiting.popleft().release()
            else:
                self._is_held = False
