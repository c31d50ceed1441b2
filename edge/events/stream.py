"""Live streams of events (server-sent events): one thread writes to all of them.

Decision record. What: a stream holds a connection, but none of the few threads that answer requests; its request is
answered at once with the head, and the connection is handed to the thread here, see
`edge.server.channels.Channel.attach`.
Why: with a thread for each listener, eight browser tabs would end the API; streams that end after some seconds and are
asked for again (long polling) would need no such hand-over, but `curl -N` and simple clients see them end, and fifty
listeners would ask twenty-five times a second. Price: one more thing we do with waitress's channels. What a listener
has not read is bounded, and so are the listeners; who is too slow is cut off and resumes by `Last-Event-ID`.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import Protocol

from edge.database.connection import close_database
from edge.errors import EdgeError, Unavailable
from edge.events import log as events
from edge.events.log import Event, Filter

log = logging.getLogger(__name__)

ATTACH = "edge.attach"  # in the environment of a request: hands its connection over, see `edge.server.channels`
MOST = 100
MOST_OF_ORGANIZATION = 60
LOOK_SECONDS = 0.25
CHECK_SECONDS = 1.0  # how often the permission of a listener is checked again
PING_SECONDS = 15.0
MOST_EVENTS = 200  # for one listener at a time
RETRY_MILLISECONDS = 3000


class Channel(Protocol):
    """The connection of a listener, as the server hands it over."""

    def is_open(self) -> bool: ...

    def push(self, data: bytes) -> bool:
        """False where the client is gone, or so slow that too much waits for it."""

    def end(self) -> None: ...


class Listener:
    """Gets what `wanted` lets through after `seq`, for as long as `may_listen` says so."""

    def __init__(self, organization_id: int, wanted: Filter, seq: int, may_listen: Callable[[], bool]) -> None:
        self.organization_id = organization_id
        self.wanted = wanted
        self.seq = seq
        self._may_listen = may_listen
        self._channel: Channel | None = None
        self._checked_at = self._wrote_at = self._opened_at = time.monotonic()

    def begin(self, channel: Channel) -> None:
        """The head of the answer was sent; from now on the connection is ours."""
        self._channel = channel

    def write(self, data: bytes) -> bool:
        """Returns whether the stream goes on."""
        now = time.monotonic()
        channel = self._channel
        if channel is None:
            return now - self._opened_at < PING_SECONDS  # its client may have left before the head was sent
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


class Streams:
    def __init__(self) -> None:
        self._listeners: list[Listener] = []
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="event-streams", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join(2)

    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def count(self) -> int:
        return len(self._listeners)

    def add(self, listener: Listener) -> None:
        """Raises Unavailable when there are too many already."""
        with self._lock:
            if self._stopping.is_set():
                raise Unavailable("The service is stopping")
            neighbours = sum(one.organization_id == listener.organization_id for one in self._listeners)
            if len(self._listeners) >= MOST or neighbours >= MOST_OF_ORGANIZATION:
                raise Unavailable("Too many streams are open; close one, or try again later", 30)
            self._listeners.append(listener)

    def _run(self) -> None:
        while not self._stopping.wait(LOOK_SECONDS):
            try:
                self._look()
            except EdgeError as error:
                log.warning("Streams of events: %s", error)
            except Exception:
                log.exception("Streams of events failed unexpectedly; they continue")
                self._stopping.wait(PING_SECONDS)
        for listener in self._listeners:
            listener.end()
        close_database()

    def _look(self) -> None:
        with self._lock:
            present = list(self._listeners)
        if not present:
            return
        newest = events.newest()
        found: dict[tuple[int, int], list[Event]] = {}  # most listeners are at the same event
        over = [listener for listener in present if not self._tell(listener, newest, found)]
        for listener in over:
            listener.end()
        with self._lock:
            self._listeners = [listener for listener in self._listeners if listener not in over]

    def _tell(self, listener: Listener, newest: int, found: dict[tuple[int, int], list[Event]]) -> bool:
        if newest <= listener.seq or not listener.is_begun:
            return listener.write(b"")
        key = (listener.organization_id, listener.seq)
        if key not in found:
            found[key] = events.after(*key, MOST_EVENTS)
        batch = found[key]
        told = ((event, listener.wanted.kind_of(event)) for event in batch)
        if not listener.write(b"".join(frame(event, kind) for event, kind in told if kind)):
            return False
        last = batch[-1].seq if batch else 0
        listener.seq = last if len(batch) == MOST_EVENTS else max(newest, last)
        return True


def frame(event: Event, kind: str) -> bytes:
    return b"id: %s\nevent: %s\ndata: %s\n\n" % (event.id.encode(), kind.encode(), events.body(event, kind))


def head(newest: Event | None, *, is_lost: bool) -> bytes:
    """Where the stream begins. A client that asks for more than is kept is told to read everything again."""
    told = b"retry: %d\n" % RETRY_MILLISECONDS
    if newest:
        told += b"id: %s\n" % newest.id.encode()
    if is_lost:
        told += b'event: reset\ndata: {"reason": "what came after that event is not kept; read everything again"}\n'
    return told + b"\n"


SCOPE_OF_KIND: Mapping[str, str] = {
    kind: "assets:read" if kind in ("asset.created", "asset.changed", "asset.deleted") else "tracking:read"
    for kind in events.KINDS
}
