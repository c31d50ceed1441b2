"""The site's health report on its way to the hub: sent with other messages, rarely, and only after a change."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from edge import clock
from edge.sync.store.site_health import SiteHealth

EVERY = 300 * clock.SECOND
EVERY_METERED = 1800 * clock.SECOND  # with a daily limit


class HealthLane:
    """Decides when the report is due. Kept over sessions, so that a bad line does not repeat it."""

    def __init__(self, read: Callable[[int], SiteHealth], every: int = EVERY) -> None:
        self._read = read
        self._every = every
        self._sent: SiteHealth | None = None  # None: send it even if unchanged
        self._done_at: int | None = None

    def begin_session(self) -> None:
        """Repeat the report in a new session, because the hub may have been updated or restored meanwhile."""
        self._sent = None

    def due(self, organization_id: int) -> SiteHealth | None:
        """Return the report of this box if it should be sent now; the reads are those of one organization."""
        now = clock.now()
        if self._done_at is not None and 0 <= now - self._done_at < self._every:
            return None
        health = self._read(organization_id)
        if health == self._sent:
            self._done_at = now
            return None
        return health

    def delivered(self, health: SiteHealth | None) -> None:
        """Note that the hub has received the report."""
        if health is not None:
            self._sent, self._done_at = health, clock.now()


def content(health: SiteHealth | None) -> dict[str, Any]:
    """Return the report as part of a message."""
    if health is None:
        return {}
    return {"health": {name: value for name, value in health._asdict().items() if value is not None}}
