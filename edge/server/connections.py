"""Limits for connections: how many, and how long a client may take; a slow or greedy one must not lock out the others.

Decision record: web/manual/decisions/connections.md
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

MOST_OF_ADDRESS = 50
# A browser keeps six connections open for each of its pages. Beyond about a thousand files, select cannot watch them;
# the body of a request may be one more file.
MOST = 400
HEAD_SECONDS = 10.0
BODY_SECONDS = 20.0  # to begin with; after that so many bytes a second must have come
BODY_BYTES_PER_SECOND = 4096
MOST_UNREAD = 256 * 1024  # bytes of a live stream, or of a file in the making, that its client has not read
ANSWER_SECONDS = 20.0  # in each such while, a client reads this much of its response, or all that is left
ANSWER_BYTES_PER_SECOND = 4096
LONGEST_ANSWER = 600.0  # seconds for a file that holds a thread until it was received
IDLE_SECONDS = 240.0  # a site of a hub speaks every three minutes, and a new connection costs it 4 KB
MOST_PIECES = 1_000  # in which the head of a request may come: each one costs a look at all of them
MOST_HEADERS = 200  # lines of a head: each one takes fifty times its bytes
MOST_FRAMING = 16 * 1024  # bytes of a chunk's first line, or of the trailer


def is_late(channel: Any, now: float) -> bool:
    """Whether the client has used up its time. `channel.waiting_since` is when the present wait for it began."""
    if channel.listener is None and channel.total_outbufs_len:
        return _reads_slowly(channel, now)
    channel.sending_since = None
    if channel.requests:
        return False  # the client waits for us
    waited, request = now - channel.waiting_since, channel.request
    if request is None:  # idle, or slow in reading our response
        return bool(waited > IDLE_SECONDS and time.time() - channel.last_activity > IDLE_SECONDS)
    if not request.headers_finished:
        return bool(waited > HEAD_SECONDS)
    return bool(request.body_bytes_received < (waited - BODY_SECONDS) * BODY_BYTES_PER_SECOND)


def _reads_slowly(channel: Any, now: float) -> bool:
    """Looked at every second: did it read enough in the last while, and does it hold no thread for too long?"""
    if channel.sending_since is None:
        channel.sending_since, channel.sent = now, 0
    elif now - channel.sending_since > ANSWER_SECONDS:
        if channel.sent < ANSWER_SECONDS * ANSWER_BYTES_PER_SECOND:
            return True
        channel.sending_since, channel.sent = now, 0
    return bool(channel.requests and now - channel.answering_since > LONGEST_ANSWER)


def connection_to_close(channels: Iterable[Any], newcomer: Any, trusted: str) -> Any:
    """The connection that has to go so that the newcomer may stay: the one waited for longest; None if there is room.

    The newcomer itself where all others are being answered. `trusted` is the proxy's address: it speaks for everybody.
    """
    others = [channel for channel in channels if channel is not newcomer and not channel.will_close]
    if newcomer.network != trusted:
        neighbours = [channel for channel in others if channel.network == newcomer.network]
        if len(neighbours) >= MOST_OF_ADDRESS:
            return _waited_for_longest(neighbours) or newcomer
    return _waited_for_longest(others) or newcomer if len(others) >= MOST else None


def _waited_for_longest(channels: list[Any]) -> Any:
    silent = [channel for channel in channels if not channel.requests]
    return min(silent, key=lambda channel: channel.waiting_since, default=None)
