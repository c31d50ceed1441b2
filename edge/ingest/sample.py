"""What one message says about its reader's clock."""

from __future__ import annotations

from msgspec import Struct


class Sample(Struct, frozen=True, gc=False):
    """When a message was received, and how far its newest read is ahead of that."""

    received_at: int
    ahead: int

    @property
    def newest(self) -> int:
        """By the reader's clock."""
        return self.received_at + self.ahead
