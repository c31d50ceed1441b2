"""Connections that do not wait forever for a server that hangs.

A server whose disk hangs, or whose process is stopped, keeps its connections and sends nothing, so neither TCP nor
`statement_timeout` ends them.
"""

from __future__ import annotations

import time
from collections.abc import Generator
from typing import Any

import psycopg

ANSWER_SECONDS = 45.0  # longer than a statement, a lock and the confirmation of a standby may take
CHECK_SECONDS = 3.0


class Connection(psycopg.Connection[tuple[Any, ...]]):
    """A connection that fails if the server does not answer a statement in time."""

    answer_seconds = ANSWER_SECONDS

    def wait(self, gen: Generator[Any, Any, Any], *arguments: Any, **named: Any) -> Any:
        """Run a step of the protocol. Raises OperationalError."""
        return super().wait(_bounded(gen, self.answer_seconds), *arguments, **named)


def _bounded(steps: Generator[Any, Any, Any], seconds: float) -> Generator[Any, Any, Any]:
    """Run the steps, each of which waits for the socket and runs on when 0.1 s have passed without data."""
    end, ready = time.monotonic() + seconds, None
    while True:
        try:
            ready = yield steps.send(ready)
        except StopIteration as done:
            return done.value
        if not ready and time.monotonic() > end:
            steps.close()
            raise psycopg.OperationalError(f"the server has not answered for {seconds:.0f} s")


def check(connection: Connection) -> None:
    """Raise OperationalError if the server does not answer soon."""
    connection.answer_seconds = CHECK_SECONDS
    try:
        connection.execute("")
    finally:
        connection.answer_seconds = type(connection).answer_seconds
