"""Turns for work of which only one piece may run at a time on the whole box, such as drawing labels.

Organizations take turns, so one of them delays another by one piece of work, however often it asks.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager


class Turn:
    """A piece of work of an organization, which waits for its turn or has it."""

    __slots__ = ("organization_id",)

    def __init__(self, organization_id: int) -> None:
        self.organization_id = organization_id


class FairTurns:
    def __init__(self, most_of_organization: int = 1, most: int = 100) -> None:
        """Allow at most so many pieces of work of one organization, and of all, to wait."""
        self._most_of_organization = most_of_organization
        self._most = most
        self._waiting: dict[int, deque[Turn]] = {}  # by organization, next one first
        self._current: Turn | None = None
        self._changed = threading.Condition()

    def is_free(self) -> bool:
        return self._current is None

    def join(self, organization_id: int) -> Turn | None:
        """Return a turn at the end of the line, or None if there are too many. Call `leave` after the work."""
        with self._changed:
            current = self._current
            own = len(self._waiting.get(organization_id, ()))
            own += current is not None and current.organization_id == organization_id
            if own >= self._most_of_organization or sum(map(len, self._waiting.values())) >= self._most:
                return None
            turn = Turn(organization_id)
            self._waiting.setdefault(organization_id, deque()).append(turn)
            if current is None:
                self._advance()
            return turn

    def is_current(self, turn: Turn) -> bool:
        return self._current is turn

    def wait(self, turn: Turn, seconds: float | None = None) -> bool:
        """Return True when it is this turn, or False after the timeout."""
        with self._changed:
            return self._changed.wait_for(lambda: self._current is turn, seconds)

    def give_way(self, turn: Turn) -> None:
        """Let the others have a turn each, in the middle of long work."""
        with self._changed:
            if self._waiting:
                self._waiting.setdefault(turn.organization_id, deque()).appendleft(turn)
                self._advance()
                self._changed.wait_for(lambda: self._current is turn)

    def leave(self, turn: Turn) -> None:
        """End a turn, or leave the line."""
        with self._changed:
            if self._current is turn:
                self._advance()
                return
            own = self._waiting[turn.organization_id]
            own.remove(turn)
            if not own:
                del self._waiting[turn.organization_id]

    @contextmanager
    def turn(self, organization_id: int, seconds: float) -> Iterator[Turn | None]:
        """Wait for a turn and keep it while the block runs. Yields None if there is none within `seconds`."""
        turn = self.join(organization_id)
        if turn is None:
            yield None
            return
        try:
            yield turn if self.wait(turn, seconds) else None
        finally:
            self.leave(turn)

    def _advance(self) -> None:
        """Begin the next turn: that of the organization that has waited longest, which then goes to the end."""
        self._current = None
        for organization_id in self._waiting:
            own = self._waiting.pop(organization_id)
            self._current = own.popleft()
            if own:
                self._waiting[organization_id] = own
            break
        self._changed.notify_all()
