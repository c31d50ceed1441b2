"""Choose how long the writer gathers messages before a commit.

mosquitto acknowledges reads before edge has written them, so a longer interval loses more reads in a power cut. Each
commit costs CPU time, so the interval is longer at a busy site.
"""

from __future__ import annotations

# The network thread looks for messages every 20 ms (subscriber.PAUSE_SECONDS). With that, a read waits at most 50 ms
# at up to 150 messages a second, and at most 150 ms above, plus the time of the commit itself.
QUIET_SECONDS = 0.03
BUSY_SECONDS = 0.13
BUSY_RATE = 160.0  # messages a second; above 150, because the measured rate fluctuates
MEASURED_SECONDS = 0.5


class Pace:
    """Measure the rate of messages and derive the longest time between two commits."""

    def __init__(self) -> None:
        self._since = self._committed_at = 0.0
        self._count = 0
        self._rate = 0.0

    def commit_before(self) -> float:
        """Return when the next commit is due, on the clock of `committed`."""
        return self._committed_at + (BUSY_SECONDS if self._rate > BUSY_RATE else QUIET_SECONDS)

    def committed(self, count: int, now: float) -> None:
        """Record a commit of `count` messages."""
        self._committed_at = now
        self._count += count
        if now - self._since >= MEASURED_SECONDS:
            self._rate = self._count / (now - self._since)
            self._since, self._count = now, 0
