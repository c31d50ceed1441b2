"""A measurement of a reader's clock by one message."""

from __future__ import annotations

from msgspec import Struct


class Sample(Struct, frozen=True, gc=False):
    """Time of receipt of a message, and how far its newest read is ahead of it, in microseconds."""

    received_at: int
    ahead: int

    @property
    def newest(self) -> int:
        """Time of the newest read, by the reader's clock."""
        return self.received_at + self.ahead
