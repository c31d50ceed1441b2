"""Time slices of the serving thread, which keep large responses from delaying new connections.

For each piece that it sends, the serving thread waits for the interpreter lock: up to 0.1 s next to slow requests.
Sending everything to fifty clients delayed new connections by two seconds. Therefore it sends for a limited time per
round and continues with the remaining connections in the next one.
"""

from __future__ import annotations

import time
from collections.abc import Callable

SENDING_SECONDS = 0.03


class Turns:
    """The turns of all connections. Used by the serving thread only."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._had_turn: set[object] = set()  # in the current round
        self._deadline: float | None = None
        self._was_cut = False

    def begin(self) -> None:
        """Start a round. Called before the serving thread selects connections to send to."""
        if not self._was_cut:
            self._had_turn.clear()
        self._deadline, self._was_cut = None, False

    def take(self, connection: object) -> bool:
        """Return True if the connection may send now. The first one in a round always may."""
        if connection in self._had_turn or self.is_over():
            return False
        if self._deadline is None:
            self._deadline = self._clock() + SENDING_SECONDS
        self._had_turn.add(connection)
        return True

    def is_over(self) -> bool:
        """True if the time slice is used up."""
        if self._deadline is None or self._clock() < self._deadline:
            return False
        self._was_cut = True
        return True
