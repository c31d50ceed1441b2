"""Live event streams (server-sent events), all written by one thread.

Decision record: web/manual/decisions/event-streams.md
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Protocol

from edge.errors import Unavailable
from edge.events import log as events
from edge.events.log import Event, Filter
from edge.events.standby_thread import StandbyThread
from edge.people.people import Role

ATTACH = "edge.attach"  # WSGI environment key of the handover, see `edge.server.channels`
MOST = 100
MAX_PER_ORGANIZATION = 60
MAX_PER_CALLER = 20  # a person in all sessions, or an API key
LOOK_SECONDS = 0.25
CHECK_SECONDS = 1.0  # interval of permission checks
PING_SECONDS = 15.0
MOST_EVENTS = 200  # for one listener at a time
RETRY_MILLISECONDS = 3000


class Channel(Protocol):
    """The connection of a listener, handed over by the server."""

    def is_open(self) -> bool: ...

    def push(self, data: bytes) -> bool:
        """Queue data. Returns False if the client is gone or too far behind."""

    def end(self) -> None: ...


class Listener:
    """A client that receives the events after `seq` that pass the filter, while `may_listen()` is True.

    `role` is that of a signed-in person, None for an API key.
    """

    def __init__(
        self,
        organization_id: int,
        caller: str,
        event_filter: Filter,
        seq: int,
        may_listen: Callable[[], bool],
        role: Role | None = None,
    ) -> None:
        self.caller = caller
        self.role = role
        self.organization_id = organization_id
        self.event_filter = event_filter
        self.seq = seq
        self._may_listen = may_listen
        self._channel: Channel | None = None
        self._checked_at = self._wrote_at = self._opened_at = time.monotonic()

    def begin(self, channel: Channel) -> None:
        """Take over the connection after the head of the response was sent."""
        self._channel = channel

    def write(self, data: bytes) -> bool:
        """Send data or a keepalive. Returns False if the stream must end."""
        now = time.monotonic()
        channel = self._channel
        if channel is None:
            return now - self._opened_at < PING_SECONDS  # the client may have left before the head was sent
        if not channel.is_open():
            return False
        if now - self._checked_at > CHECK_SECONDS:
            if not self._may_listen():
                return False
            self._checked_at = now
        if not data and now - self._wrote_at > PING_SECONDS:
            data = b": still here\n\n"
        if not data:
            return True
        self._wrote_at = now
        return channel.push(data)

    @property
    def is_begun(self) -> bool:
        return self._channel is not None

    def end(self) -> None:
        if self._channel:
            self._channel.end()


class Streams(StandbyThread):
    fault_seconds = LOOK_SECONDS
    unexpected_seconds = PING_SECONDS

    def __init__(self) -> None:
        super().__init__("event streams", lambda: True, self._look, self._end)
        self._listeners: list[Listener] = []
        self._lock = threading.Lock()

    def count(self) -> int:
        return len(self._listeners)

    def add(self, listener: Listener) -> None:
        """Add a listener. Raises Unavailable if there are too many."""
        with self._lock:
            if self.is_stopping:
                raise Unavailable("The service is stopping")
            neighbors = sum(one.organization_id == listener.organization_id for one in self._listeners)
            own = sum(one.caller == listener.caller for one in self._listeners)
            if len(self._listeners) >= MOST or neighbors >= MAX_PER_ORGANIZATION or own >= MAX_PER_CALLER:
                raise Unavailable("Too many streams are open; close one, or try again later", 30)
            self._listeners.append(listener)

    def _end(self) -> None:
        for listener in self._listeners:
            listener.end()

    def _look(self) -> float:
        with self._lock:
            present = list(self._listeners)
        if not present:
            return LOOK_SECONDS
        newest = events.newest()
        batches: dict[tuple[int, int], list[Event]] = {}  # most listeners share a position
        over = [listener for listener in present if not self._send_to(listener, newest, batches)]
        for listener in over:
            listener.end()
        with self._lock:
            self._listeners = [listener for listener in self._listeners if listener not in over]
        return LOOK_SECONDS

    def _send_to(self, listener: Listener, newest: int, batches: dict[tuple[int, int], list[Event]]) -> bool:
        if newest <= listener.seq or not listener.is_begun:
            return listener.write(b"")
        key = (listener.organization_id, listener.seq)
        if key not in batches:
            batches[key] = events.after(*key, MOST_EVENTS)
        batch = batches[key]
        visible = events.visible_to(listener.role, listener.organization_id, batch)
        matches = ((event, listener.event_filter.kind_of(event)) for event in visible)
        if not listener.write(b"".join(frame(event, kind) for event, kind in matches if kind)):
            return False
        last = batch[-1].seq if batch else 0
        listener.seq = last if len(batch) == MOST_EVENTS else max(newest, last)
        return True


def frame(event: Event, kind: str) -> bytes:
    return b"id: %s\nevent: %s\ndata: %s\n\n" % (event.id.encode(), kind.encode(), events.body(event, kind))


def head(newest: Event | None, *, is_lost: bool) -> bytes:
    """Return the head of the stream. If the requested events are gone, it includes a `reset` event."""
    lines = b"retry: %d\n" % RETRY_MILLISECONDS
    if newest:
        lines += b"id: %s\n" % newest.id.encode()
    if is_lost:
        lines += b'event: reset\ndata: {"reason": "what came after that event is not kept; read everything again"}\n'
    return lines + b"\n"


SCOPE_OF_KIND: Mapping[str, str] = {
    kind: "assets:read" if kind in ("asset.created", "asset.changed", "asset.deleted") else "tracking:read"
    for kind in events.KINDS
}
