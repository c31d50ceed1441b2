"""What is sent to a receiver, and its outcome."""

from __future__ import annotations

from enum import Enum
from typing import Any, NamedTuple, Protocol


class Message(NamedTuple):
    """An event as one destination gets it. `kind` is what it is by its filter, `body` the same at every attempt."""

    id: str
    kind: str
    data: dict[str, Any]
    body: bytes


class Result(Enum):
    DELIVERED = "delivered"
    REFUSED = "refused"  # this event; others may be accepted
    FAILED = "failed"  # not because of the event
    GONE = "gone"  # wants no events any more


class Outcome(NamedTuple):
    """`told` is for the administrator. `wait_seconds` is how long the receiver asks to be left alone."""

    result: Result
    told: str
    wait_seconds: float = 0.0


class Sender(Protocol):
    """Keeps its connection from one event to the next; used by one thread at a time."""

    def send(self, message: Message) -> Outcome: ...

    def close(self) -> None: ...
