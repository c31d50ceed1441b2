"""Turns of connections at the serving thread, so that sending large responses delays no newcomer.

For each piece that it sends, the serving thread waits for the interpreter's lock, up to a tenth of a second beside
slow requests. Sending all that waits, to each of fifty clients, kept it from accepting a connection for two seconds. So
it sends for a moment only before it looks again at who connects, and goes on with those whose turn has not come yet.
"""

from __future__ import annotations

import time
from collections.abc import Callable

SENDING_SECONDS = 0.03


class Turns:
    """Used by the serving thread only."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._had_turn: set[object] = set()  # of the present round
        self._deadline: float | None = None
        self._was_cut = False

    def begin(self) -> None:
        """Called each time around, before it is known who can be sent something."""
        if not self._was_cut:
            self._had_turn.clear()
        self._deadline, self._was_cut = None, False

    def take(self, connection: object) -> bool:
        """Return whether the connection may be sent something now. The first one always may."""
        if connection in self._had_turn or self.is_over():
            return False
        if self._deadline is None:
            self._deadline = self._clock() + SENDING_SECONDS
        self._had_turn.add(connection)
        return True

    def is_over(self) -> bool:
        """Whether it is time to look at who connects; the rest is sent the next time around."""
        if self._deadline is None or self._clock() < self._deadline:
            return False
        self._was_cut = True
        return True
