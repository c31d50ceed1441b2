"""A fair lock: threads get it in the order of their requests.

With `threading.Lock`, a thread that releases and immediately requests it again nearly always wins over a waiting
thread, so a busy writer would starve all others.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class FairLock:
    """A fair lock. Not reentrant."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._is_held = False
        self._waiting: deque[threading.Lock] = deque()  # one per waiting thread, released on its turn

    @contextmanager
    def holding(self, look_after: float, may_wait: Callable[[], None]) -> Iterator[None]:
        """Hold the lock while the block runs. `may_wait` is called every `look_after` seconds while waiting.

        An exception from `may_wait` ends the wait.
        """
        self._acquire(look_after, may_wait)
        try:
            yield
        finally:
            self._release()

    @property
    def waiting(self) -> int:
        """Return the number of waiting threads."""
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
        self._release()  # the lock was granted in the meantime

    def _release(self) -> None:
        """Pass the lock to the longest-waiting thread; it is never free in between."""
        with self._mutex:
            if self._waiting:
                self._waiting.popleft().release()
            else:
                self._is_held = False
