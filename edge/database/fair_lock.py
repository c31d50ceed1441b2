"""A lock that is granted in the order in which it was requested.

With `threading.Lock`, a thread that releases it and requests it again at once nearly always gets it, before the thread
that is woken: a busy writer would keep all others waiting for as long as it is busy.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class FairLock:
    """Not reentrant."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._is_held = False
        self._waiting: deque[threading.Lock] = deque()  # one for each thread that waits, held until it is its turn

    @contextmanager
    def holding(self, look_after: float, may_wait: Callable[[], None]) -> Iterator[None]:
        """Hold the lock while the block runs. `may_wait` is called after every so many seconds of waiting.

        What it raises ends the wait.
        """
        self._acquire(look_after, may_wait)
        try:
            yield
        finally:
            self._release()

    @property
    def waiting(self) -> int:
        """Number of threads that wait."""
        return len(self._waiting)

    def _acquire(self, look_after: float, may_wait: Callable[[], None]) -> None:
        with self._mutex:
            if not self._is_held:
                self._is_held = True
                return
            turn = threading.Lock()
            turn.acquire()
            self._waiting.append(turn)
        try:
            while not turn.acquire(timeout=look_after):
                may_wait()
        except BaseException:
            self._give_up(turn)
            raise

    def _give_up(self, turn: threading.Lock) -> None:
        with self._mutex:
            if turn in self._waiting:
                self._waiting.remove(turn)
                return
        self._release()  # it was granted at the last moment

    def _release(self) -> None:
        """Hand the lock over to the thread that has waited longest: it is never free in between."""
        with self._mutex:
            if self._waiting:
                self._waiting.popleft().release()
            else:
                self._is_held = False
